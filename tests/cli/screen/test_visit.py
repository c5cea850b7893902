"""On a terminal: colours, and tables that fit. Nowhere else."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest

from tests.client.fake_server import FakeServer


def on_terminal(words: list[str], **env: str) -> str:
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "headway.cli.main", *words]
    child = subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", **env})
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # The other side of a terminal was closed.
            break
        if not part:
            break
        said += part
    os.close(ours)
    child.wait()
    return said.decode()


def test_a_table_has_colours_and_fits(fake: FakeServer) -> None:
    fake.add("j1", state="failed", sentence="failed: " + "very " * 50 + "badly")
    said = on_terminal(["ps"])
    assert "\x1b[31mfailed" in said
    plain = said.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "…" in plain


@pytest.mark.parametrize(("words", "env"), [(["ps", "--no-color"], {}), (["ps"], {"NO_COLOR": "1"})])
def test_colours_can_be_turned_off(fake: FakeServer, words: list[str], env: dict[str, str]) -> None:
    fake.add("j1", state="failed")
    assert "\x1b" not in on_terminal(words, **env)
    assert "\x1b" not in on_terminal(["why", "nope"], NO_COLOR="1")


HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J<b>x</b>\x9b31m\u202egnp.exe\nroot  succeeded"


@pytest.mark.parametrize("words", [["ps"], ["describe", "j1"], ["why", "j1"], ["ps", "-q"], ["ps", "--json"]])
def test_what_a_terminal_would_obey_is_spelled_out(fake: FakeServer, words: list[str]) -> None:
    fake.add("j1", state="failed", name=HOSTILE, sentence=f"failed: {HOSTILE}", tags={"a": HOSTILE})
    said = on_terminal(words, NO_COLOR="1")
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said), said
    assert "j1" in said
    if words != ["ps", "-q"]:
        assert "<b>x</b>" in said


def test_names_that_a_program_reads_are_exact() -> None:
    from headway.cli.frame.output import Output, harmless

    assert harmless("a\x1b[2Jb\nc") == "a\\x1b[2Jb\\nc"
    assert harmless("two\nlines\t\x00", lines=True) == "two\nlines\t\\x00"
    assert harmless("größe 数 🚂") == "größe 数 🚂"
    (heads, row) = Output().table(("SIZE", "PATH"), [("1", HOSTILE)]).splitlines()
    assert heads.split() == ["SIZE", "PATH"]
    assert row.startswith("1     \\x1b]52")
