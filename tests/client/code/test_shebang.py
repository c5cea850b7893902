"""The first line of a script decides what runs it, as for the kernel and for sbatch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headway.client.code.script import describe_job
from headway.client.code.shebang import names_python, words_of
from headway.core.errors import BadInput

PYTHON = "/here/bin/python"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#!/bin/bash", ["/bin/bash"]),
        ("#!/bin/bash -eu", ["/bin/bash", "-eu"]),
        ("#! /bin/bash -e -u ", ["/bin/bash", "-e -u"]),  # One word, as the kernel takes it.
        ("#!/bin/bash\t-eu", ["/bin/bash", "-eu"]),
        ("#!/usr/bin/env python3", ["python3"]),
        ("#!/usr/bin/env python3 -u", ["python3", "-u"]),
        ("#!/usr/bin/env -S bash -eu -o pipefail", ["bash", "-eu", "-o", "pipefail"]),
        ("#!/usr/bin/env -Sperl -w", ["perl", "-w"]),
        ("#!/usr/bin/env --split-string='my program' x", ["my program", "x"]),
        ("#!/usr/bin/env -S uv run --script", ["uv", "run", "--script"]),
        ("#!/usr/bin/env -S LANG=C bash", ["/usr/bin/env", "LANG=C", "bash"]),
        ("#!/usr/bin/env -i bash", ["/usr/bin/env", "-i", "bash"]),
        ("#!/usr/bin/env", ["/usr/bin/env"]),
        ("#!/usr/bin/env python3\r", ["python3"]),
        ("#!", []),
        ("# /bin/bash", []),
        ("", []),
    ],
)
def test_a_first_line_becomes_words(line: str, expected: list[str]) -> None:
    assert words_of(line, "x") == expected


def test_what_the_interpreter_could_not_read_is_refused() -> None:
    with pytest.raises(BadInput, match=r'"x\.sh" has the line ends of Windows'):
        words_of("#!/bin/bash -eu\r", "x.sh")
    with pytest.raises(BadInput, match="a quotation mark without its other half"):
        words_of("#!/usr/bin/env -S bash 'a", "x.sh")


@pytest.mark.parametrize(
    ("words", "any_python"),
    [
        (["python3"], True),
        (["/usr/bin/python3.11", "-u"], True),
        (["/opt/venv/bin/python"], False),
        (["uv", "run"], False),
        ([], False),
    ],
)
def test_the_machines_python_is_any_python(words: list[str], any_python: bool) -> None:
    assert names_python(words) is any_python


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("a.sh", "#!/bin/bash -eu", ["/bin/bash", "-eu", "a.sh", "x"]),
        ("a.sh", "#!/usr/bin/env python3", ["python3", "a.sh", "x"]),
        ("a.py", "", [PYTHON, "a.py", "x"]),
        ("a.py", "#!/usr/bin/env python3", [PYTHON, "a.py", "x"]),
        ("a.py", "#!/usr/bin/python3 -u", [PYTHON, "-u", "a.py", "x"]),
        ("a.py", "#!/opt/venv/bin/python", ["/opt/venv/bin/python", "a.py", "x"]),
        ("a.py", "#!/usr/bin/env -S uv run --script", ["uv", "run", "--script", "a.py", "x"]),
        ("job.slurm", "#!/bin/bash -l", ["/bin/bash", "-l", "job.slurm", "x"]),
        ("./job.slurm", "#!/bin/bash -l", ["/bin/bash", "-l", "./job.slurm", "x"]),
    ],
)
def test_the_first_line_decides_what_runs_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: str, expected: list[str]
) -> None:
    monkeypatch.setattr("headway.client.code.script.interpreter", lambda env: PYTHON)
    (tmp_path / name).write_text(f"{line}\nexit\n")
    assert describe_job([name, "x"], {}, {"PATH": "/usr/bin:/bin"}, str(tmp_path))["command"] == expected


def test_a_failing_line_of_a_strict_script_fails_it(tmp_path: Path) -> None:
    (tmp_path / "strict.sh").write_text("#!/bin/bash -eu\nfalse\necho went on\n")
    command = describe_job(["strict.sh"], {}, {"PATH": "/usr/bin:/bin"}, str(tmp_path))["command"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_a_program_that_can_be_run_is_left_to_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("#!/bin/sh\n")
    (tmp_path / "job").chmod(0o755)
    assert describe_job(["./job"], {}, {"PATH": "/bin"}, str(tmp_path))["command"] == ["./job"]
