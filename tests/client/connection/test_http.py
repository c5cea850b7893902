"""The connection: what is repeated, what is not, and what the server's problems become."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from headway.client.connection.http import Answer, error_from, healthy
from headway.client.sdk import Client
from headway.core.errors import BadInput, Conflict, HeadwayError, NotAllowed, NotFound, Unavailable
from headway.settings import Settings
from tests.client.fake_server import FakeServer


@pytest.mark.parametrize("fault", ["drop-before", "drop-after", "cut", 503])
def test_a_submit_whose_answer_is_lost_is_repeated_and_makes_one_job(fake: FakeServer, client: Client, fault) -> None:
    client.jobs()
    fake.faults = [fault]
    client.submit_raw({"command": ["true"]})
    assert len(fake.jobs) == 1
    assert fake.asked.count("POST /jobs") == 2


def test_a_retry_whose_answer_is_lost_is_asked_again_with_its_key(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="failed")
    fake.faults = ["drop-after"]
    client.retry("j1")
    assert fake.asked.count("POST /jobs/j1/retry") == 2


def test_what_must_not_happen_twice_is_sent_again_only_when_nothing_was_begun(fake: FakeServer, client: Client) -> None:
    fake.faults = ["away"]
    with pytest.raises(NotFound):  # The second time it was heard; this server makes no users.
        client.accounts.add_user("mel", "", False)
    assert fake.asked.count("POST /users") == 2
    fake.faults = [503]
    with pytest.raises(Unavailable):
        client.accounts.add_user("sam", "", False)
    assert fake.asked.count("POST /users") == 3


def test_a_server_that_never_answered_is_given_up_soon() -> None:
    gone = FakeServer()
    gone.stop()
    lost = Client({"HEADWAY_SERVER_URL": gone.url, "HEADWAY_HOME": "/nonexistent"}, patience_s=0.2)
    with pytest.raises(Unavailable, match="connection refused"):
        lost.jobs()


def test_a_call_survives_a_server_that_goes_and_comes_back(fake: FakeServer, client: Client) -> None:
    fake.add("j1")
    assert [job["id"] for job in client.jobs()] == ["j1"]
    fake.stop()
    client.close()
    troubles: list[str] = []
    client.on_trouble(troubles.append)
    timer = threading.Timer(0.3, fake.restart)
    timer.start()
    assert [job["id"] for job in client.jobs()] == ["j1"]
    timer.join()
    assert "connection refused" in troubles[0]


def test_a_connection_of_its_own_goes_to_a_server_that_takes_it(fake: FakeServer, client: Client) -> None:
    gone = FakeServer()
    gone.stop()
    client.resolved = replace(client.resolved, settings=Settings(server_url=f"{gone.url}, {fake.url}"))
    for link in (client.link, client.link.another()):  # The second knows where to begin.
        wire, base, _ = link.dial()
        assert wire.name == f"127.0.0.1:{fake.port}"
        assert base == "/api/v1"
        wire.close()
    fake.stop()
    with pytest.raises(Unavailable, match="connection refused"):
        client.link.dial()
    fake.restart()


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (422, "bad-input", BadInput),
        (404, "not-found", NotFound),
        (409, "conflict", Conflict),
        (401, "not-allowed", NotAllowed),
        (403, "not-allowed", NotAllowed),
        (503, "unavailable", Unavailable),
        (500, "internal", HeadwayError),
        (422, "https://headway.dev/problems/bad-input", BadInput),
    ],
)
def test_a_problem_becomes_the_error_that_was_meant(status: int, kind: str, error: type[HeadwayError]) -> None:
    body = b'{"type": "%s", "detail": "it is so", "hint": "do that"}' % kind.encode()
    made = error_from(Answer(status, {}, body), "http://x")
    assert type(made) is error
    assert (made.message, made.hint) == ("it is so", "do that")


def test_an_answer_of_something_else_is_told_apart(fake: FakeServer) -> None:
    made = error_from(Answer(404, {}, b"<html>nginx</html>"), "http://x")
    assert isinstance(made, Unavailable)
    assert "not as a Headway server does" in made.message


def test_a_wrong_token_is_not_allowed(client: Client) -> None:
    client.env = {**client.env, "HEADWAY_TOKEN": "another"}
    with pytest.raises(NotAllowed):
        client.jobs()


def test_health_needs_no_token_and_never_raises(fake: FakeServer) -> None:
    assert healthy(fake.url)
    fake.stop()
    assert not healthy(fake.url)
    assert not healthy("http://127.0.0.1:1")
    fake.restart()


def test_events_go_on_after_a_broken_stream(fake: FakeServer, client: Client) -> None:
    fake.events = [{"seq": number, "kind": "JobSubmitted"} for number in (1, 2)]
    events = client.events()
    assert [next(events)["seq"], next(events)["seq"]] == [1, 2]
    fake.faults = [None, "drop-before"]
    fake.events += [{"seq": 3, "kind": "JobEnded"}]
    assert next(events)["seq"] == 3
