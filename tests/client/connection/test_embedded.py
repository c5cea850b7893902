"""Finding the server of this machine: only the very process that server.json names counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from headway import settings
from headway.client.connection import embedded
from headway.core.errors import Unavailable
from tests.waiting import wait_until


@pytest.fixture
def home() -> settings.Home:
    found = settings.home_from(os.environ)
    found.state.mkdir(parents=True)
    return found


def named(home: settings.Home, pid: int, start: object) -> None:
    home.server_file.write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": pid, "start": start}))


def test_the_process_that_is_named_is_found(home: settings.Home) -> None:
    named(home, os.getpid(), embedded.process_start(os.getpid()))
    running = embedded.read_running(home)
    assert running
    assert running.pid == os.getpid()


def test_a_number_that_was_given_to_another_process_does_not_count(home: settings.Home) -> None:
    named(home, os.getpid(), 1)
    assert embedded.read_running(home) is None
    assert embedded.stop(home) is None


def test_a_process_that_only_waits_to_be_reaped_does_not_count(home: settings.Home) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    named(home, child.pid, embedded.process_start(child.pid))
    assert embedded.read_running(home)
    assert child.stdin
    child.stdin.close()
    wait_until(lambda: embedded.read_running(home) is None, what="the child's end")
    child.wait()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}', '{"url": "x", "pid": "a", "start": 1}', "null"])
def test_a_broken_file_is_no_server(home: settings.Home, text: str) -> None:
    home.server_file.write_text(text)
    assert embedded.read_running(home) is None


def test_a_server_that_ends_at_once_is_told_with_its_log(home: settings.Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.server_log.write_text("of an earlier start\n")
    monkeypatch.setattr(sys, "executable", "/bin/ls")
    with pytest.raises(Unavailable) as failed:
        embedded.start(home, os.environ, wait_s_max=300.0)
    assert "ended at once (exit code 2)" in failed.value.message
    assert "--foreground" in failed.value.message
    assert "of an earlier start" not in failed.value.message


def test_a_large_log_is_put_aside(home: settings.Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LOG_BYTES_MAX", 10)
    home.server_log.write_text("more than ten bytes\n")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Unavailable, match="says nothing"):
        embedded.start(home, os.environ, wait_s_max=300.0)
    assert (home.state / "server.log.1").read_text() == "more than ten bytes\n"


def test_relative_paths_are_made_absolute_for_a_process_that_runs_elsewhere() -> None:
    env = embedded._absolute({"HEADWAY_HOME": "here", "PYTHONPATH": "src:/abs", "OTHER": "x"})
    here = os.getcwd()
    assert env == {"HEADWAY_HOME": f"{here}/here", "PYTHONPATH": f"{here}/src:/abs", "OTHER": "x"}
