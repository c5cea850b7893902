"""A new user's first day, typed command after command: first_day.txt says what, and what must come of it."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from headway import __file__ as package
from headway.cli.main import headway as root
from tests.living import PATIENT, Living

DAY = Path(__file__).with_name("first_day.txt")
SILENT_S_MAX = 20.0  # Generous: the machine may be busy. What was really waited is in the report.
COMMAND_S_MAX = 300.0
RAW = ("an error in Headway itself", f'File "{Path(package).parent}', "headway.core.errors")
# What a hint leaves open for its reader.
OPEN = re.compile(r"[A-Z]{2,}|…|\[|\.\.\.")
SAVER = """
import os, time
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
for step in (1, 2, 3):
    open(f"{place}/step-{step}.pt", "w").write(str(step))
    time.sleep(1.2)
"""
FILES = {
    "hello.py": "import sys\nprint('hello world ' * (2 if '--twice' in sys.argv else 1))\n",
    "broken.py": "raise ValueError('bad shape')\n",
    "shy.sh": "#!/bin/bash -eu\nfalse\necho done\n",
    "pysh.sh": "#!/usr/bin/env python3\nprint('python says hi')\n",
    "maker.py": "import os\nos.mkdir('results')\nopen('results/model.txt', 'w').write('weights\\n')\n",
    "saver.py": SAVER,
    "job.yaml": "name: filed\ncommand: [echo, from the file]\n",
    "wrong.yaml": "name: wrong\ncomand: [echo, hi]\n",
    "torn.yaml": "name: [torn\n",
}


@dataclass
class Typed:
    """One line of the day, and what must come of it."""

    line: str
    chapter: str
    code: int = 0
    says: list[str] = field(default_factory=list)
    says_not: list[str] = field(default_factory=list)


def read_day(text: str) -> list[Typed]:
    found: list[Typed] = []
    chapter = ""
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "##":
            chapter = rest
        elif mark == "$":
            found.append(Typed(rest, chapter))
        elif mark == "=":
            found[-1].code = int(rest)
        elif mark == ">":
            found[-1].says.append(rest)
        elif mark == "!":
            found[-1].says_not.append(rest)
        else:
            assert not mark or mark == "#", f"what is {line!r}?"
    return found


@dataclass
class Came:
    """What came of a line: what it said, its exit code, and how long it took until its first word."""

    said: str
    code: int
    silent_s: float


def type_in(line: str, env: dict[str, str], place: Path) -> Came:
    typed_at = time.monotonic()
    running = subprocess.Popen(
        ["bash", "-c", line],
        cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert running.stdout is not None
    pieces, silent_s = [], 0.0
    with selectors.DefaultSelector() as watch, running:
        watch.register(running.stdout, selectors.EVENT_READ)
        while True:
            assert watch.select(COMMAND_S_MAX), f"{line}: nothing for {COMMAND_S_MAX:g} s"
            piece = os.read(running.stdout.fileno(), 65536)
            silent_s = silent_s or time.monotonic() - typed_at
            if not piece:
                break
            pieces.append(piece)
    return Came(b"".join(pieces).decode(), running.wait(), silent_s)


def hinted(said: str) -> Iterator[list[str]]:
    """The commands that hints name, complete enough to be typed."""
    for hint in re.findall(r"^hint: (.*)$", said, re.MULTILINE):
        for command in re.findall(r"\bheadway [a-z][^`;,:…]*", hint):
            if not OPEN.search(command):
                yield shlex.split(command)


def check_parses(words: list[str]) -> None:
    """The words of a hint are taken by the real parser, down to the command."""
    context, command = root.make_context("headway", words[1:]), root
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, found, after = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, after, parent=context, resilient_parsing=True)


def wrong_with(typed: Typed, came: Came) -> list[str]:
    found = [f"says {text!r}" for text in [*RAW, *typed.says_not] if text in came.said]
    found += [f"does not say {text!r}" for text in typed.says if text not in came.said]
    found += [f"exit code {came.code}, not {typed.code}"] if came.code != typed.code else []
    found += [f"silent for {came.silent_s:.1f} s"] if came.silent_s > SILENT_S_MAX else []
    for words in hinted(came.said):
        try:
            check_parses(words)
        except click.ClickException as error:
            found.append(f"hints at {shlex.join(words)!r}: {error.format_message()}")
    return found


@pytest.mark.real
def test_a_first_day_has_no_raw_error_no_wrong_hint_and_no_long_silence(living: Living) -> None:
    for name, text in FILES.items():
        living.script(name, text)
    bin_dir = Path(sys.executable).parent
    env = {**PATIENT, **os.environ, **living.env, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    day = read_day(DAY.read_text())
    assert len(day) >= 150
    wrong, silences = [], []
    for typed in day:
        came = type_in(typed.line, env, living.place)
        silences.append((came.silent_s, typed.line))
        for each in wrong_with(typed, came):
            wrong.append(
                f"{typed.chapter}: $ {typed.line}\n    {each}\n    " + came.said[-600:].replace("\n", "\n    ")
            )
    slowest = sorted(silences)[:-11:-1]
    print("the longest until the first word:", *(f"\n  {took:.1f} s  {line}" for took, line in slowest))
    assert not wrong, "\n".join(wrong)
