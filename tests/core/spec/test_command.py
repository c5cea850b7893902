"""A command is a list of words, a line of them, or a script; it is held as words."""

from __future__ import annotations

import pytest

from headway.core.spec.command import name_for, script_in
from headway.core.spec.job import read_spec

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
        ((*BASH, "echo a\necho b"), "bash"),
        (("python", "-c", "print(1)"), "python"),
    ],
)
def test_a_script_is_named_after_what_it_runs(command: tuple[str, ...], name: str) -> None:
    assert name_for(command) == name


def test_a_script_is_known_among_words() -> None:
    assert script_in([*BASH, "echo $A"]) == "echo $A"
    assert script_in(["python3", "-c", "import x\nx.y()"]) == "import x\nx.y()"
    assert script_in(["python3", "-c", "print(1)"]) == ""
