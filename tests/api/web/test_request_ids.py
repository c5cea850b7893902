"""One story: the id of a call stands in its answer, in the events that come of it, and in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.control.server.safe_log import write_log
from headway.control.state import requests
from tests.api.serving import Follower, Serving
from tests.waiting import wait_until

JOB = {"job": {"command": ["python", "train.py"], "resources": {"cpus": 0.1}}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "storage") as server:
        yield server


def story(server: Serving, job: str) -> dict[str, str]:
    found: list[dict[str, Any]] = server.ok("GET", f"/events/page?job={job}")["events"]
    return {event["kind"]: event.get("request", "") for event in found}


def test_a_story_is_followed_from_who_asked_over_what_was_decided_to_what_the_agent_did(server: Serving) -> None:
    server.join("n1")
    answer = server.ask("POST", "/api/v1/jobs", JOB, {"X-Request-Id": "ab12.7"})
    assert answer.headers["x-request-id"] == "ab12.7"
    job = answer.json["job"]["id"]
    server.start(f"{job}/1/0")
    server.sync("n1", seq=41, reports=[{"task": f"{job}/1/0", "phase": "running", "started_at": 1.0}])
    server.ask("POST", f"/api/v1/jobs/{job}/stop", {}, {"X-Request-Id": "ab12.8"})
    wait_until(lambda: "AttemptStopping" in story(server, job), what="the stop")
    told = story(server, job)
    assert told["JobSubmitted"] == "ab12.7"
    assert re.fullmatch(r"turn:\d+\.\d+", told["AttemptPlaced"])
    assert re.fullmatch(r"n1:1\.\d+", told["AttemptStarted"])
    assert told["AttemptStopping"] == "ab12.8"


@pytest.mark.parametrize("given", ["", "two words", "x" * 101, "-first", "a\u00e9"])
def test_a_call_without_a_good_id_is_given_one(server: Serving, given: str) -> None:
    answer = server.ask("POST", "/api/v1/jobs", JOB, {"X-Request-Id": given} if given else {})
    made = answer.headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{12}", made)
    assert story(server, answer.json["job"]["id"])["JobSubmitted"] == made


def test_a_server_that_follows_passes_the_id_on(server: Serving) -> None:
    with Follower(server) as follower:
        answer = follower.ask("POST", "/api/v1/jobs", JOB)
    assert story(server, answer.json["job"]["id"])["JobSubmitted"] == answer.headers["x-request-id"]


def test_a_line_of_the_log_repeats_the_id_of_the_call_that_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    import structlog

    before = structlog.get_config()
    try:
        write_log()
        token = requests.current.set("ab12.9")
        structlog.get_logger().info("something was done", job="j1")
        requests.current.reset(token)
        structlog.get_logger().info("something else was done")
    finally:
        structlog.configure(**before)
    first, second = capsys.readouterr().out.splitlines()
    assert "request=ab12.9" in first
    assert "request" not in second
