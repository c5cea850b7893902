"""Where the machine refuses, every command ends with a sentence: a directory that is gone, a home that is closed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli.frame.system_errors import from_system

HEADWAY = [sys.executable, "-m", "headway.cli.main"]
MANY = [
    ("ps",),
    ("doctor",),
    ("run", "--", "true"),
    ("run", "train.py"),
    ("submit", "--", "true"),
    ("plan", "--", "true"),
    ("doctor", "checkpoint", "--", "true"),
    ("server", "status"),
    ("server", "stop"),
    ("server", "migrate"),
    ("server", "rotate-keys"),
    ("logout", "--server", "http://127.0.0.1:1"),
]


def told(done: subprocess.CompletedProcess[str]) -> str:
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "in Headway itself" not in said
    return said


@pytest.mark.parametrize("words", [each for each in MANY if each[0] in ("run", "submit", "plan")])
def test_in_a_directory_that_is_gone_a_command_says_so(place: Path, headway: Callable, words: tuple[str, ...]) -> None:
    gone = place / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    said = headway(*words)
    os.chdir(place)
    assert said.code != 0
    assert said.err == "error: the directory that this command runs in is gone\nhint: cd to one that exists\n"


@pytest.mark.parametrize("words", MANY)
def test_with_a_home_that_is_a_file_every_command_ends_with_a_sentence(place: Path, words: tuple[str, ...]) -> None:
    env = {**os.environ, "HEADWAY_HOME": str(place / "train.py")}
    told(subprocess.run([*HEADWAY, *words], env=env, capture_output=True, text=True))


@pytest.mark.parametrize("closed", ["", "state", "config"])
@pytest.mark.parametrize("words", [("ps",), ("doctor",), ("server", "migrate"), ("logout", "--server", "http://x:1")])
def test_with_a_home_that_is_closed_every_command_ends_with_a_sentence(
    place: Path, words: tuple[str, ...], closed: str
) -> None:
    home = place / "home"
    for part in ("config", "data", "state", "cache"):
        (home / part).mkdir(parents=True)
    (home / closed).chmod(0)
    as_anybody = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("nothing is closed to root here")
        as_anybody = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    env = {**os.environ, "HEADWAY_HOME": str(home), "HEADWAY_AUTO_START_S_MAX": "30"}
    try:
        done = subprocess.run([*as_anybody, *HEADWAY, *words], env=env, capture_output=True, text=True)
    finally:
        (home / closed).chmod(0o700)
    said = told(done).lower()
    assert done.returncode == 0 or "permission denied" in said or "cannot be read" in said


def test_only_what_the_machine_can_repair_is_told_as_its_fault() -> None:
    full = from_system(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
    assert full is not None
    assert (full.message, full.hint[:9]) == ("/data/x: no space left on device", "make room")
    assert from_system(OSError(errno.EBADF, "Bad file descriptor")) is None
