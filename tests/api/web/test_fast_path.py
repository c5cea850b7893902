"""The fast lane answers as the ordinary route does, to good requests and to bad ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from headway.api.web import fast_path
from tests.api.serving import Serving

LARGE = 20_000
NOBODY = {"Authorization": ""}
STRANGER = {"Authorization": "Bearer guessed"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Serving]]:
    """A server with the lane, and one without."""
    with pytest.MonkeyPatch.context() as patch, Serving(_folder(tmp_path_factory), request_bytes_max=LARGE) as fast:
        patch.setattr(fast_path, "HOT", frozenset())
        with Serving(_folder(tmp_path_factory), request_bytes_max=LARGE) as ordinary:
            for each in (fast, ordinary):
                each.join()
            yield fast, ordinary


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("storage")


def answers(both: tuple[Serving, Serving], path: str, body: Any, headers: dict[str, str]) -> list[tuple[int, str, Any]]:
    found = []
    for server in both:
        answer = server.ask("POST", path, body, headers)
        kind = {name.lower(): value for name, value in answer.headers.items()}["content-type"]
        found.append((answer.status, kind, answer.json))
    return found


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/agent/sync"])
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({}, NOBODY, 401),
        ({}, STRANGER, 401),
        (b"{", {}, 422),
        (b"", {}, 422),
        (b"[1]", {}, 422),
        (b"\xff\xfe", {}, 422),
        ({"key": 5}, {}, 422),
    ],
)
def test_a_bad_request_is_refused_in_the_same_words(
    both: tuple[Serving, Serving], path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    fast, ordinary = answers(both, path, body, headers)
    assert fast == ordinary
    assert fast[:2] == (status, "application/problem+json")


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/agent/sync"])
def test_what_is_too_large_is_refused_unread(both: tuple[Serving, Serving], path: str) -> None:
    fast, ordinary = answers(both, path, b'{"x": "' + b"a" * 2 * LARGE, {})
    assert fast == ordinary
    assert fast[:2] == (422, "application/problem+json")
    assert fast[2]["detail"].endswith(f"at most {LARGE} are read")


def test_a_failure_of_our_own_is_told_alike(both: tuple[Serving, Serving], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(command: Any) -> Any:
        raise RuntimeError("a bug")

    for server in both:
        monkeypatch.setattr(server.services, "do", fail)
    with capture_logs() as logged:
        fast, ordinary = answers(both, "/api/v1/jobs", {"job": {"command": ["true"]}}, {})
    assert [each["event"] for each in logged] == ["request failed"] * 2
    assert fast[:2] == ordinary[:2] == (500, "application/problem+json")
    for answer, line in zip((fast[2], ordinary[2]), logged, strict=True):
        assert answer["id"] == line["id"], "who met it can name its line"
        assert line["id"] in answer["detail"]


def test_an_unknown_key_is_refused_with_the_nearest_right_one(both: tuple[Serving, Serving]) -> None:
    fast, ordinary = answers(both, "/api/v1/jobs", {"job": {"comand": ["true"]}}, {})
    assert fast == ordinary
    assert fast[0] == 422
    assert "command" in fast[2]["hint"]


def test_an_agents_token_is_good_for_its_own_syncs_alone(both: tuple[Serving, Serving]) -> None:
    asked = []
    for server in both:
        badge = {"Authorization": f"Bearer {server.services.signer.token_for('n1')}"}
        sync = {"protocol": 1, "node": "n1", "pool": "local", "boot_id": "b", "agent_epoch": 1, "wait_s": 0}
        job = server.ask("POST", "/api/v1/jobs", {"job": {"command": ["true"]}}, badge)
        mine = server.ask("POST", "/agent/sync", sync, badge)
        other = server.ask("POST", "/agent/sync", {**sync, "node": "n2"}, badge)
        asked.append([(job.status, job.json), mine.status, (other.status, other.json)])
    assert asked[0] == asked[1]
    assert (asked[0][0][0], asked[0][1], asked[0][2][0]) == (403, 200, 403)


def test_a_good_job_is_answered_alike(both: tuple[Serving, Serving]) -> None:
    fast, ordinary = answers(both, "/api/v1/jobs", {"job": {"command": ["true"], "name": "good"}}, {})
    assert fast[:2] == ordinary[:2] == (201, "application/json")
    assert fast[2].keys() == ordinary[2].keys()
    assert fast[2]["job"].keys() == ordinary[2]["job"].keys()


def test_other_methods_of_a_hot_path_take_the_ordinary_route(both: tuple[Serving, Serving]) -> None:
    for server in both:
        assert server.ask("GET", "/api/v1/jobs").status == 200
        assert server.ask("GET", "/agent/sync").status == 405
