"""A command is a list of words, a line of them, or a script; it is held as words."""

from __future__ import annotations

import pytest

from headway.core.spec.command import name_for, script_in
from headway.core.spec.job import read_spec
from headway.core.spec.params import command_with

BASH = ("bash", "-eo", "pipefail", "-c")


@pytest.mark.parametrize(
    ("written", "held"),
    [
        (["python", "train.py", "--lr", 0.1, 3], ("python", "train.py", "--lr", "0.1", "3")),
        ("python train.py --lr 0.1", ("python", "train.py", "--lr", "0.1")),
        ("  echo 'two words' \n", ("echo", "two words")),
        ("echo $HOME", (*BASH, "echo $HOME")),
        ("LR=1 python train.py", (*BASH, "LR=1 python train.py")),
        ("cd /data", (*BASH, "cd /data")),
        ("a\nb\n", (*BASH, "a\nb\n")),
        ("#!/bin/bash -eu\na\n", ("/bin/bash", "-eu", "-c", "#!/bin/bash -eu\na\n")),
        ("#!/usr/bin/env python3.11\na\n", ("/usr/bin/env", "python3.11", "-c", "#!/usr/bin/env python3.11\na\n")),
        ("#!/usr/bin/perl\na", ("/usr/bin/perl", "-e", "#!/usr/bin/perl\na")),
    ],
)
def test_a_command_is_held_as_words(written: object, held: tuple[str, ...]) -> None:
    assert read_spec({"command": written}).command == held


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ((*BASH, "set -u\npython /x/finetune.py --lr 1\n"), "finetune"),
        ((*BASH, "echo a\necho b"), "script"),
        (("python", "-c", "print(1)"), "python"),
    ],
)
def test_a_script_is_named_after_what_it_runs(command: tuple[str, ...], name: str) -> None:
    assert name_for(command) == name


def test_a_script_is_known_among_words() -> None:
    assert script_in([*BASH, "echo $A"]) == "echo $A"
    assert script_in(["python3", "-c", "import x\nx.y()"]) == "import x\nx.y()"
    assert script_in(["python3", "-c", "print(1)"]) == ""


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("a --lr 0.1 --lr-decay 0.5\n", "a --lr 3e-05 --lr-decay 0.5\n"),
        ("a --batch-size=8 \\\n  --lr=$LR\n", "a --batch-size=16 \\\n  --lr=3e-05\n"),
        ("a --name 'two words'; b --lr \"$LR\" && c\n", "a --name 'it'\"'\"'s'; b --lr 3e-05 && c\n"),
        ("a --lr \\\n 0.1 --lr --amp\n", "a --lr \\\n 0.1 --lr --amp\n"),
    ],
)
def test_parameters_stand_in_shell_scripts_too(written: str, used: str) -> None:
    params = (("lr", 3e-5), ("batch_size", 16), ("name", "it's"), ("amp", True))
    assert command_with([*BASH, written], params) == [*BASH, used]
    assert command_with(["/bin/sh", "-ec", written.strip()], params) == ["/bin/sh", "-ec", used.strip()]
    assert command_with(["python3", "-c", written], params) == ["python3", "-c", written]


def test_the_words_behind_a_script_are_words() -> None:
    assert command_with(["bash", "x.sh", "--lr", "0.1"], [("lr", 3e-5)]) == ["bash", "x.sh", "--lr", "3e-05"]
    assert command_with(["sh", "-c", "x $0", "--lr", "1"], [("lr", 2)]) == ["sh", "-c", "x $0", "--lr", "2"]
