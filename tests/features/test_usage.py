"""What jobs and nodes use now: asked of nodes only while somebody watches, and shown by `headway top`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.cli.main import main
from headway.features.usage.watched_nodes import FOR_S, WatchedNodes, read_use
from headway_agent.limits.usage_reports import TaskUsage, UsageReports
from tests.accounts.people import Shared
from tests.api.serving import TOKEN, Serving
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path) as serving:
        serving.join()
        yield serving


def running(server: Serving, **words: Any) -> str:
    job = server.submit(**words)
    server.start(f"{job}/1/0")
    return job


def test_a_node_is_asked_once_somebody_watches_and_what_it_says_is_shown_by_job(server: Serving) -> None:
    job = running(server, name="burn")
    assert "usage" not in server.sync()
    blank = server.ok("GET", "/usage?wait_s=0")
    assert [(each["id"], each["cpus"]) for each in blank["jobs"]] == [(job, None)]
    assert server.sync()["usage"] == {"for_s": FOR_S}
    said = {"tasks": {f"{job}/1/0": [1.5, 2**30]}, "cpus": 2.5, "memory_bytes": 2**31, "gpus": [[0, 50, 2**20]]}
    assert "usage" not in server.sync(features={"usage": said}), "it is told once, not with each reply"
    found = server.ok("GET", "/usage?wait_s=0")
    assert [(each["id"], each["cpus"], each["memory_bytes"]) for each in found["jobs"]] == [(job, 1.5, 2**30)]
    assert [(each["id"], each["cpus"], each["gpu_load"]) for each in found["nodes"]] == [("n1", 2.5, 50)]


@pytest.mark.parametrize(
    "said",
    [
        None,
        5,
        [],
        {"tasks": 5},
        {"tasks": {"a": 1}},
        {"gpus": [[1]]},
        {"cpus": -1.0},
        {"cpus": "x"},
        {"tasks": {"a": [1]}},
    ],
)
def test_words_that_make_no_sense_say_nothing(server: Serving, said: Any) -> None:
    server.ok("GET", "/usage?wait_s=0")
    server.sync(features={"usage": said})
    assert server.ok("GET", "/usage?wait_s=0")["nodes"][0]["id"] == "n1"


def test_only_jobs_of_ones_own_projects_are_shown(tmp_path: Path) -> None:
    with Shared(tmp_path) as server:
        server.join()
        job = server.job_of("mel", project="vision")
        server.start(f"{job}/1/0")
        assert [each["id"] for each in server.by("vera", "GET", "/usage?wait_s=0").json["jobs"]] == [job]
        assert server.by("sam", "GET", "/usage?wait_s=0").json["jobs"] == []
        assert server.by("nobody", "GET", "/usage?wait_s=0").json["nodes"] == []


def test_a_node_that_says_nothing_is_told_again_and_one_that_does_only_when_its_time_runs_out() -> None:
    watching = WatchedNodes()
    assert watching.tell("n1", 100.0) is None
    watching.until = 200.0
    assert watching.tell("n1", 100.0) == FOR_S
    assert watching.tell("n1", 101.0) is None
    assert watching.tell("n1", 105.0) == FOR_S
    watching.heard["n1"] = read_use({}, 106.0)
    assert watching.tell("n1", 107.0) is None
    watching.heard["n1"] = read_use({}, 105.0 + FOR_S - 2)
    assert watching.tell("n1", 105.0 + FOR_S - 1) == FOR_S
    assert watching.tell("n1", 200.0) is None


def test_steps_per_second_are_those_of_the_last_looks() -> None:
    watching = WatchedNodes()
    assert watching.rate("j1", None, 0.0) is None
    assert watching.rate("j1", 100, 0.0) is None
    assert watching.rate("j1", 140, 2.0) == 20.0
    assert watching.rate("j1", 10, 4.0) is None, "it began again"


def test_top_is_one_page_in_a_pipe(
    server: Serving, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_SERVER_URL", server.url)
    monkeypatch.setenv("HEADWAY_TOKEN", TOKEN)
    job = running(server, name="burn")
    server.ok("GET", "/usage?wait_s=0")
    server.sync(features={"usage": {"tasks": {f"{job}/1/0": [1.5, 2**30]}, "cpus": 2.5, "memory_bytes": 2**31}})
    assert main(["top"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[1].split() == ["n1", "local", "2.5", "of", "8.0", "2.0", "GiB", "of", "1.0", "TiB", "-", "1"]
    assert lines[4].split()[:5] == [job, "local", "1.5", "of", "0.1"]
    assert lines[4].endswith("burn")


def test_a_node_sees_what_the_processes_of_its_tasks_use(tmp_path: Path) -> None:
    tagged = {**os.environ, "HEADWAY_TASK": "j1/1/0", "HEADWAY_NODE_DIR": str(tmp_path)}
    spin = "x = bytearray(50 << 20)\nprint('on', flush=True)\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", spin], env=tagged, stdout=subprocess.PIPE)
    woken: list[bool] = []
    try:
        assert busy.stdout is not None
        busy.stdout.readline()
        usage = TaskUsage(str(tmp_path))
        usage.look()
        wait_until(lambda: usage.look()["tasks"]["j1/1/0"][0] > 0, what="some processor time")
        found = usage.look()
        assert found["tasks"]["j1/1/0"][1] > 50 << 20
        assert TaskUsage("/elsewhere").look()["tasks"] == {}
        reports = UsageReports(str(tmp_path), 0, lambda: woken.append(True))
        reports.hear({"for_s": 30.0})
        wait_until(lambda: woken, what="a look")
        assert reports.due(0.0)
        assert reports.say(None, 0.0)["tasks"].keys() == {"j1/1/0"}  # type: ignore[arg-type]
        reports.hear({"for_s": 0.0})
    finally:
        busy.kill()
        busy.wait()
        assert busy.stdout is not None
        busy.stdout.close()
