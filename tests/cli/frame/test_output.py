"""What commands say: to people (kept in golden/), to programs, and quietly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from headway.cli.frame import exits
from headway.cli.table import ALIASES, COMMANDS
from tests.client.fake_server import FakeServer


@pytest.fixture
def jobs(fake: FakeServer) -> FakeServer:
    now = time.time()
    fake.add("k3x9m2pq", state="succeeded", name="mnist", sentence="succeeded")
    failed = fake.add(
        "a7bc4d2e",
        state="failed",
        name="resnet-50",
        attempt=2,
        cause="user_code",
        exit_code=3,
        sentence="failed: ValueError: no data (rank 0, exit code 3) in attempt 2",
        hint="the log's last lines show the error",
        tags={"team": "vision"},
        retries={"user": 1, "platform": 1, "capacity": 0},
        log_bytes=3500,
    )
    failed["spec"] |= {
        "workdir": "/home/me/my code",
        "retries": 1,
        "resources": {"cpus": 4.0, "memory": 2**34, "gpus": 2},
        "params": {"lr": 0.5},
        "env": {"A": "private", "PATH": "/bin"},
        "secrets": {"HF_TOKEN": "hf-token", "KEY": {"name": "gcp-key", "file": True}},
        "inputs": {"data": {"url": "s3://bucket/data", "sha256": ""}},
        "volumes": {"scratch": "/scratch"},
        "outputs": ["results"],
        "max_duration": 21600.0,
        "grace": 60.0,
        "limits": {"open_files": None, "output": 2**30, "stalled_after": 1800.0, "pending": None, "pin_cpus": False},
        "after": [{"job": "k3x9m2pq", "when": "ok", "each": False}, {"job": "other", "when": "any", "each": False}],
        "deadline": now + 7200,
    }
    failed["seed"] = 7
    failed["argv"] = ["/usr/bin/python3", "train.py", "--note", "two words", "--lr=0.5"]
    failed["spec"]["command"] = ["/usr/bin/python3", "train.py", "--note", "two words", "--lr=0.1"]
    times = {"started_at": now - 3600, "ended_at": now - 1800}
    failed["attempts"][0] |= {**times, "sentence": "attempt 1 lost its node"}
    failed["attempts"][1] |= {**times, "sentence": failed["sentence"][8:], "exit_code": 3}
    fake.add("zz8yx7wv", state="running", name="llama", sentence="runs: attempt 1 on local-1")
    waiting = "waits: needs 8 gpus; 1 node: lacks gpus"
    fake.add("q2w3e4r5", state="queued", name="big", attempt=0, sentence=waiting)
    return fake


def test_ps_for_people(jobs: FakeServer, headway: Callable, golden: Callable) -> None:
    said = headway("ps")
    assert (said.code, said.err) == (0, "")
    golden("ps.txt", said.out)
    assert headway("ls", "-a").out == said.out


def test_ps_quietly_and_for_programs(jobs: FakeServer, headway: Callable) -> None:
    ids = ["q2w3e4r5", "zz8yx7wv", "a7bc4d2e", "k3x9m2pq"]
    assert headway("ps", "-q").out.split() == ids
    assert headway("ps", "-o", "name").out.split() == ids
    assert [job["id"] for job in headway("ps", "--json").json["jobs"]] == ids
    assert "- id: q2w3e4r5\n" in headway("ps", "-o", "yaml").out
    assert headway("ps", "-q", "--state", "failed,queued").out.split() == ["q2w3e4r5", "a7bc4d2e"]
    assert headway("ps", "-q", "--limit", "2").out.split() == ids[:2]


def test_an_empty_list_says_so_to_people_only(fake: FakeServer, headway: Callable) -> None:
    said = headway("ps")
    assert (said.out, said.err) == ("", "no jobs yet; submit one: headway run train.py\n")
    said = headway("ps", "--json")
    assert (said.json, said.err) == ({"jobs": []}, "")


def test_describe_for_people(jobs: FakeServer, headway: Callable, golden: Callable) -> None:
    said = headway("describe", "a7bc4d2e").out
    golden("describe.txt", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2030-01-31 18:00:00", said))
    assert headway("describe", "a7bc4d2e", "--json").json["exit_code"] == 3


def test_why_is_one_sentence(jobs: FakeServer, headway: Callable) -> None:
    assert headway("why", "q2w3e4r5").out == "q2w3e4r5 waits: needs 8 gpus; 1 node: lacks gpus\n"
    assert headway("why", "q2w3e4r5", "-q").out == "waits: needs 8 gpus; 1 node: lacks gpus\n"


def test_nodes_for_people(fake: FakeServer, headway: Callable, golden: Callable) -> None:
    granted = {"cpus": 8.0, "memory_bytes": 2**35, "gpus": 2}
    free = {"cpus": 6.5, "memory_bytes": 2**34, "gpus": 0}
    shared = {"pool": "local", "granted": granted, "tasks": 2, "heard_s": 1.25, "agent_version": "0.1.0"}
    fake.nodes = [
        {"id": "local-1", "state": "up", "free": free, **shared},
        {"id": "local-2", "state": "silent", "free": None, **shared},
    ]
    golden("nodes.txt", headway("nodes").out)


def test_version_and_config_need_no_server(headway: Callable, golden: Callable, headway_home: Any) -> None:
    assert headway("version", "-q").out == "0.1.0\n"
    assert headway("--version").out == "headway, version 0.1.0\n"
    assert headway("config", "explain", "auto_start_s_max", "--json").json["settings"] == [
        {
            "name": "auto_start_s_max",
            "value": 60.0,
            "source": "built in",
            "says": "how long the command line waits for the embedded server to come up",
        }
    ]
    shown = headway("config", "explain").out
    assert f"state:  {headway_home}/state" in shown
    said = headway("config", "explain", "auto_start")
    assert (said.code, said.err) == (5, 'error: no setting "auto_start"\nhint: did you mean "auto_start_s_max"?\n')


def test_config_explain_tells_where_a_value_comes_from(headway: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_AUTO_START_S_MAX", "1m")
    row = headway("config", "explain", "auto_start_s_max", "--json").json["settings"][0]
    assert (row["value"], row["source"]) == (60.0, "HEADWAY_AUTO_START_S_MAX")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_us_back(headway: Callable, shell: str) -> None:
    said = headway("completion", shell)
    assert (said.code, said.err) == (0, "")
    assert "_HEADWAY_COMPLETE" in said.out


def test_completion_knows_commands_and_jobs(jobs: FakeServer) -> None:
    for line, expected in (("headway lo", "logs"), ("headway stop zz", "zz8yx7wv"), ("headway why lla", "llama")):
        env = {
            **os.environ,
            "_HEADWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
        }
        done = subprocess.run([sys.executable, "-m", "headway.cli.main"], env=env, capture_output=True, text=True)
        assert f"plain,{expected}" in done.stdout.splitlines(), done


def test_help_names_every_command_and_alias(headway: Callable) -> None:
    shown = headway("--help").out
    assert headway().out == shown
    for word in [*COMMANDS, *ALIASES]:
        assert f"\n  {word} " in shown
    for name in COMMANDS:
        assert headway(name, "--help").code == 0


def test_an_unknown_job_is_not_found(fake: FakeServer, headway: Callable) -> None:
    for words in (["describe", "x"], ["why", "x"], ["logs", "x"], ["logs", "-f", "x"], ["stop", "x"], ["wait", "x"]):
        said = headway(*words)
        assert (said.code, said.out) == (5, "")
        assert said.err == 'error: no job "x"\nhint: the newest is …\n'
    error = json.loads(headway("why", "x", "--json").err)["error"]
    assert error == {"kind": "not-found", "message": 'no job "x"', "hint": "the newest is …", "exit_code": 5}


def test_a_wrong_token_is_exit_code_4(fake: FakeServer, headway: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_TOKEN", "x")
    assert headway("ps").code == 4


def test_a_server_that_is_away_is_exit_code_3(
    fake: FakeServer, headway: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_SERVER_WAIT_S", "0.1")
    fake.stop()
    said = headway("ps")
    assert said.code == 3
    assert "connection refused" in said.err
    fake.restart()


def test_several_jobs_are_all_tried_and_the_error_is_kept(jobs: FakeServer, headway: Callable) -> None:
    said = headway("rm", "nope", "k3x9m2pq")
    assert said.code == 5
    assert said.out == "k3x9m2pq (mnist) is forgotten\n"
    assert "k3x9m2pq" not in jobs.jobs


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"state": "succeeded", "exit_code": 0}, 0),
        ({"state": "failed", "cause": "user_code", "exit_code": 7}, 100),
        ({"state": "running"}, 101),
        ({"state": "cancelled", "cause": "cancelled"}, 103),
        ({"state": "failed", "cause": "time_limit"}, 104),
        ({"state": "failed", "cause": "stalled"}, 104),
    ],
)
def test_how_a_job_ended_is_the_exit_code(job: dict[str, Any], code: int) -> None:
    assert exits.for_job(job) == code
    own = job.get("exit_code")
    assert exits.for_job(job, from_job=True) == (code if own is None else own)


def test_an_error_of_ours_is_said_in_one_line(headway: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.client.sdk.Client.jobs", lambda *a, **k: 1 / 0)
    monkeypatch.setenv("HEADWAY_SERVER_URL", "http://127.0.0.1:1")
    said = headway("ps")
    assert said.code == 1
    assert said.err.startswith("error: an error in Headway itself: ZeroDivisionError")
    with pytest.raises(ZeroDivisionError):
        headway("ps", "-v")
