"""Which servers are listed: those that are there, those that went lately, and nobody who was started again since."""

from __future__ import annotations

from headway.control.views.servers import FORGOTTEN_AFTER_S, SEEN_WITHIN_S, listed
from headway.store.protocol import ServerSeen

NOW = 1_000_000.0
SILENT_S = SEEN_WITHIN_S + 1


def seen(name: str, address: str, ago_s: float, host: str = "one") -> ServerSeen:
    return ServerSeen(name, address, "1", host, 7, started_at=NOW - ago_s - 1, seen_at=NOW - ago_s)


def names(*servers: ServerSeen) -> list[str]:
    return [each.name for each in listed(servers, NOW)]


def test_a_server_that_went_is_listed_for_a_day() -> None:
    assert names(seen("a", "http://a", 0.0), seen("b", "http://b", FORGOTTEN_AFTER_S - 1)) == ["a", "b"]
    assert names(seen("a", "http://a", 0.0), seen("b", "http://b", FORGOTTEN_AFTER_S + 1)) == ["a"]


def test_whoever_was_started_in_its_place_replaces_it_however_often() -> None:
    killed = [seen(f"old-{number}", "http://a", 6.0 * number) for number in range(1, 30)]
    assert names(*killed, seen("a", "http://a", 0.0), seen("b", "http://b", 1.0)) == ["a", "b"]


def test_another_machine_at_the_same_address_replaces_it_once_it_is_silent() -> None:
    mine = seen("a", "http://x", 0.0, host="one")
    assert names(mine, seen("b", "http://x", 3.0, host="two")) == ["a", "b"], "a mistake that people should see"
    assert names(mine, seen("b", "http://x", SILENT_S, host="two")) == ["a"]


def test_the_last_that_was_seen_stays_when_all_are_gone() -> None:
    assert names(seen("old", "http://a", 2 * SILENT_S), seen("new", "http://a", SILENT_S)) == ["new"]
