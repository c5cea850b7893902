"""Following a job at the terminal: what goes where, Ctrl-C, and a reader that goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.client.fake_server import FakeServer
from tests.waiting import PATIENCE_S, wait_until

HEADWAY = [sys.executable, "-m", "headway.cli.main"]


def test_the_log_goes_to_stdout_and_the_outcome_to_stderr(fake: FakeServer, headway: Callable) -> None:
    fake.add("j1", state="failed", cause="user_code", exit_code=3, hint="look", sentence="failed: attempt 1 failed")
    fake.write("j1", b"epoch 1\nno newline at the end")
    said = headway("logs", "-f", "j1")
    assert said.code == 100
    assert said.out == "epoch 1\nno newline at the end"
    assert said.err == "headway: job j1 (train) failed: attempt 1 failed\nhint: look\n"
    assert headway("logs", "j1").out == "epoch 1\nno newline at the end"
    assert headway("wait", "j1", "--exit-code-from-job").code == 3


def test_a_program_gets_the_outcome_on_stdout_and_the_log_beside_it(fake: FakeServer, headway: Callable) -> None:
    fake.add("j1", state="succeeded")
    fake.write("j1", b"epoch 1\n")
    said = headway("logs", "-f", "--json", "j1")
    assert (said.json["state"], said.err) == ("succeeded", "epoch 1\n")


def test_waiting_no_longer_than_asked(fake: FakeServer, headway: Callable) -> None:
    fake.add("j1", state="running")
    assert headway("wait", "j1", "--timeout", "0.05").code == 101


def test_detached_and_named_it_prints_the_id_alone(fake: FakeServer, headway: Callable, place: Path) -> None:
    said = headway("run", "-d", "-o", "name", "train.py")
    assert (said.code, said.out, said.err) == (0, "job1\n", "")
    said = headway("submit", "train.py")
    assert said.out == "job2\n"
    assert said.err.endswith("headway: job job2 (train) is submitted; follow it: headway logs -f job2\n")
    assert headway("launch", "-d", "--json", "train.py").json["id"] == "job3"


def following(fake: FakeServer, job: str) -> subprocess.Popen[str]:
    command = [*HEADWAY, "logs", "-f", job]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_lets_go_and_says_how_to_come_back(fake: FakeServer) -> None:
    fake.add("j1", state="running")
    fake.write("j1", b"epoch 1\n")
    child = following(fake, "j1")
    assert child.stdout
    assert child.stdout.readline() == "epoch 1\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (130, "")
    assert "headway logs -f j1" in err
    assert "headway stop j1" in err
    assert "POST /jobs/j1/stop" not in fake.asked


def test_a_second_ctrl_c_asks_the_job_to_stop(fake: FakeServer) -> None:
    fake.add("j1", state="running")
    fake.write("j1", b"epoch 1\n")
    child = following(fake, "j1")
    assert child.stdout
    assert child.stderr
    assert child.stdout.readline() == "epoch 1\n"
    child.send_signal(signal.SIGINT)
    said = iter(child.stderr.readline, "")
    assert any("press Ctrl-C again" in line for line in said), "it ended without a word"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert "was asked to stop" in err
    assert "POST /jobs/j1/stop" in fake.asked


def test_a_reader_that_goes_away_ends_it_quietly(fake: FakeServer) -> None:
    fake.add("j1", state="succeeded")
    fake.write("j1", b"x" * 5_000_000)
    read, write = os.pipe()
    child = subprocess.Popen([*HEADWAY, "logs", "j1"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, err) == (141, b"")


def test_a_job_that_waits_says_why(fake: FakeServer) -> None:
    fake.add("j1", state="queued", attempt=0, sentence="waits: needs 8 gpus; 1 node: lacks gpus")
    child = following(fake, "j1")
    assert child.stderr
    assert child.stderr.readline() == "headway: job j1 waits: needs 8 gpus; 1 node: lacks gpus\n"
    fake.change("j1", state="cancelled", ended_at=1.0, sentence="cancelled: the job was stopped on request")
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 103
    assert err == "headway: job j1 (train) cancelled: the job was stopped on request\n"


def test_following_goes_on_when_the_server_comes_back(fake: FakeServer) -> None:
    fake.add("j1", state="running")
    fake.write("j1", b"1\n")
    child = following(fake, "j1")
    assert child.stdout
    assert child.stdout.readline() == "1\n"
    asked = len(fake.asked)
    wait_until(lambda: len(fake.asked) > asked, what="the next long poll")
    fake.stop()
    fake.write("j1", b"2\n")
    fake.restart()
    assert child.stdout.readline() == "2\n"
    fake.change("j1", state="succeeded", ended_at=1.0, exit_code=0, sentence="succeeded")
    out, _ = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (0, "")


def test_an_error_while_following_for_a_program_is_json(fake: FakeServer, headway: Callable) -> None:
    said = headway("logs", "-f", "--json", "nope")
    assert said.code == 5
    assert json.loads(said.err)["error"]["kind"] == "not-found"


def test_what_was_to_be_kept_and_is_not_there_is_told_at_the_end(fake: FakeServer, headway: Callable) -> None:
    outcome = {"unkept": "reslts: nothing is there"}
    fake.add("j1", state="succeeded", attempts=[{"number": 1, "tasks": [{"node": "n", "outcome": outcome}]}])
    assert headway("logs", "-f", "j1").err.endswith("\nwarning: not kept: reslts: nothing is there\n")
