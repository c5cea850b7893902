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
