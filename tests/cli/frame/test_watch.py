"""What is being waited for is said after a second: a line where lines stay, a mark that turns on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli.frame.output import Output
from headway.cli.frame.watch import Watch
from headway.client.connection.http import TROUBLE, WHOLE
from tests.client.fake_server import FakeServer
from tests.waiting import PATIENCE_S, wait_until

HEADWAY = [sys.executable, "-m", "headway.cli.main"]


class Talk:
    """What a command says on stderr, as it comes."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __contains__(self, text: str) -> bool:
        return text in self.file.read_text()


def asking(place: Path, *words: str) -> tuple[subprocess.Popen[str], Talk]:
    talk = place / "talk"
    with talk.open("w") as err:
        child = subprocess.Popen([*HEADWAY, *words], stdout=subprocess.PIPE, stderr=err, text=True)
    return child, Talk(talk)


def test_a_server_that_does_not_answer_is_named_and_then_its_answer_is_shown(fake: FakeServer, place: Path) -> None:
    fake.add("j1")
    fake.faults.append("hold")
    child, talk = asking(place, "ps")
    wait_until(lambda: f"headway: waiting for the server {fake.url} to answer\n" in talk, what="a word about it")
    fake.held.set()
    out, _ = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out.count("j1")) == (0, 1)
    assert talk.file.read_text().count("waiting") == 1


def test_who_is_quick_says_nothing_of_it(fake: FakeServer, headway: Callable) -> None:
    fake.add("j1")
    assert headway("ps").err == ""


@pytest.mark.parametrize("output", [Output("json"), Output(quiet=True)])
def test_a_program_hears_nothing_of_it(output: Output, capfd: pytest.CaptureFixture[str]) -> None:
    said = ""

    def heard() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "for people" in said

    with Watch(output).over("for programs", 0.0), Watch(Output()).over("for people", 0.0):
        wait_until(heard, what="the word for people")
    assert "for programs" not in said


def test_a_job_that_starts_says_how_far_it_has_come(fake: FakeServer, place: Path) -> None:
    fake.add("j1", state="starting", sentence="starts: local-1 builds the environment")
    child, talk = asking(place, "logs", "-f", "j1")
    wait_until(lambda: "headway: job j1 starts: local-1 builds the environment\n" in talk, what="the first stage")
    fake.change("j1", state="running", sentence="runs: attempt 1 on local-1")
    wait_until(lambda: "headway: job j1 runs: attempt 1 on local-1\n" in talk, what="the second stage")
    fake.write("j1", b"epoch 1\n")
    fake.change("j1", state="succeeded", sentence="succeeded", ended_at=time.time())
    out, _ = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (0, "epoch 1\n")


def test_on_a_terminal_a_mark_turns_and_goes_away(fake: FakeServer) -> None:
    fake.add("j1")
    fake.faults.append("hold")
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*HEADWAY, "ps"], stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    while seen.count(b"waiting for the server") < 3:
        seen += os.read(ours, 4096)
    fake.held.set()
    out, _ = child.communicate(timeout=PATIENCE_S)
    seen += os.read(ours, 4096)
    os.close(ours)
    assert (child.returncode, b"j1" in out) == (0, True)
    assert seen.endswith(b"\r\x1b[K")
    assert b"\n" not in seen


@pytest.fixture
def watch() -> Watch:
    return Watch(Output())


def test_of_what_lasts_the_innermost_is_said_unless_another_weighs_more(
    watch: Watch, capfd: pytest.CaptureFixture[str]
) -> None:
    said = ""

    def heard(text: str) -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return text in said

    with watch.over("outer", 0.0):
        wait_until(lambda: heard("headway: outer\n"), what="the outer wait")
        with watch.over("inner", 0.0):
            wait_until(lambda: heard("headway: inner\n"), what="the inner wait")
        with watch.over("part", None):
            wait_until(lambda: heard("headway: part\n"), what="a part, which is due when the whole is")
    with watch.over("upload", 0.0, weight=WHOLE), watch.over("one request", 0.0):
        wait_until(lambda: heard("headway: upload\n"), what="the whole upload")
        with watch.over("no answer", 0.0, weight=TROUBLE):
            wait_until(lambda: heard("headway: no answer\n"), what="the trouble with it")
    assert "one request" not in said


def test_numbers_that_count_are_no_new_line_each_time(watch: Watch, capfd: pytest.CaptureFixture[str]) -> None:
    number, said = 0, ""

    def heard(text: str) -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return text in said

    with watch.over(lambda: f"{number} of 900 MB", 0.0):
        wait_until(lambda: heard("headway: 0 of 900 MB\n"), what="the first line")
        number = 1
        with watch.over("another matter", 0.0):
            wait_until(lambda: heard("another matter\n"), what="what comes after it")
    assert "1 of 900" not in said
