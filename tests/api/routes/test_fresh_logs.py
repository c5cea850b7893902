"""A look at a running job's log asks its node for what it has not told yet, and waits a moment for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.api.serving import Serving
from tests.waiting import PATIENCE_S, wait_until

LONG_S = 5  # The most that may be asked for; only an answer that waits in vain takes so long.


def a_running_job(server: Serving) -> str:
    server.join()
    job = server.submit()
    server.until("n1", lambda duties: f"{job}/1/0" in duties)
    server.sync(reports=[{"task": f"{job}/1/0", "phase": "claimed", "address": "127.0.0.1", "port": 1}])
    wait_until(lambda: server.ok("GET", f"/jobs/{job}")["state"] == "running", what="the job")
    return job


def sizes(index: Any) -> list[int]:
    return [file["bytes"] for attempt in index["attempts"] for file in attempt["files"]]


def test_the_node_is_told_to_ship_and_the_answer_has_what_it_shipped(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        job = a_running_job(server)
        assert sizes(server.ok("GET", f"/jobs/{job}/logs")) == []
        answers: list[Any] = []
        ask = threading.Thread(target=lambda: answers.append(server.ok("GET", f"/jobs/{job}/logs?fresh_s={LONG_S}")))
        ask.start()
        wait_until(lambda: server.sync(duties_digest="none")["follow"] == [f"{job}/1/0"], what="the word to ship")
        server.storage.put("logs/n1/1-1", b"line 0\n")
        piece = {"task": f"{job}/1/0", "rank": 0, "stream": "out", "start": 0, "end": 7}
        server.sync(logs=[{**piece, "key": "logs/n1/1-1", "key_offset": 0}])
        ask.join(timeout=PATIENCE_S)
        assert sizes(answers[0]) == [7]


def test_a_silent_node_keeps_nobody_waiting_for_long_and_an_ended_job_nobody_at_all(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        job = a_running_job(server)
        assert sizes(server.ok("GET", f"/jobs/{job}/logs?fresh_s=0.2")) == []
        server.sync(reports=[{"task": f"{job}/1/0", "phase": "ended", "outcome": {"exit_code": 0, "cause": None}}])
        wait_until(lambda: server.ok("GET", f"/jobs/{job}")["state"] == "succeeded", what="its end")
        assert sizes(server.ok("GET", f"/jobs/{job}/logs?fresh_s={LONG_S}")) == []
        assert server.ask("GET", f"/api/v1/jobs/{job}/logs?fresh_s=999").status == 422


def test_bytes_are_told_with_the_time_at_which_they_were_written(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        job = a_running_job(server)
        server.storage.put("logs/n1/1-1", b"line 0\nline 1\n")
        piece = {"task": f"{job}/1/0", "rank": 0, "stream": "out", "key": "logs/n1/1-1"}
        before = {**piece, "start": 0, "end": 7, "key_offset": 0, "written_ago_s": 3600.0}
        server.sync(logs=[before, {**piece, "start": 7, "end": 14, "key_offset": 7, "written_ago_s": 60.0}])
        (file,) = server.ok("GET", f"/jobs/{job}/logs?times=true")["attempts"][0]["files"]
        (_, first, hour), (_, second, minute) = file["ranges"]
        assert (first, second) == (7, 14)
        assert 3500 < minute - hour < 3600
        answer = server.ask("GET", f"/api/v1/jobs/{job}/logs/raw?attempt=1")
        told = {name.lower(): value for name, value in answer.headers.items()}["headway-times"]
        assert told == f"7:{hour:.1f} 14:{minute:.1f}"
