"""How a script becomes a job: interpreter, directory, and what of the caller's environment goes along."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headway.client.code.script import describe_job, interpreter
from headway.core.errors import BadInput
from headway.core.spec.job import read_spec


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "go.sh").write_text("echo 1\n")
    executable(tmp_path / "program")
    return tmp_path


def test_the_active_environment_wins(tmp_path: Path) -> None:
    venv = executable(tmp_path / "venv/bin/python")
    conda = executable(tmp_path / "conda/bin/python")
    other = executable(tmp_path / "other/bin/python3")
    env = {"PATH": str(other.parent), "CONDA_PREFIX": str(tmp_path / "conda"), "VIRTUAL_ENV": str(tmp_path / "venv")}
    assert interpreter(env) == str(venv)
    del env["VIRTUAL_ENV"]
    assert interpreter(env) == str(conda)
    del env["CONDA_PREFIX"]
    assert interpreter(env) == str(other)


def test_the_first_python_on_the_path_runs_the_script_also_when_headway_lives_there(tmp_path: Path) -> None:
    own = os.path.join(sys.prefix, "bin")
    other = executable(tmp_path / "python3")
    assert interpreter({"PATH": f"{own}:{tmp_path}"}) == os.path.join(own, "python3")
    assert interpreter({"PATH": f"{tmp_path}:{own}"}) == str(other)
    assert interpreter({"PATH": f"{tmp_path}:{own}", "VIRTUAL_ENV": sys.prefix}) == os.path.join(own, "python")
    assert interpreter({"PATH": str(tmp_path / "empty")}) == sys.executable


def test_a_script_runs_in_place_with_its_arguments_untouched(place: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "/nowhere", "AWS_SECRET_ACCESS_KEY": "s", "LANG": "C.UTF-8"}
    raw = describe_job(["train.py", "--name", "x", "-f", "-o", "json"], {"gpus": 1}, env, str(place))
    assert raw["command"][1:] == ["train.py", "--name", "x", "-f", "-o", "json"]
    assert raw["workdir"] == str(place)
    assert raw["env"] == {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "/nowhere", "LANG": "C.UTF-8"}
    spec = read_spec(raw)
    assert (spec.name, spec.resources.gpus) == ("train", 1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["go.sh", "a"], ["bash", "go.sh", "a"]),
        (["./program", "-x"], ["./program", "-x"]),
        (["ls", "-l"], ["ls", "-l"]),
        (["go.sh", "--", "--lr", "1"], ["bash", "go.sh", "--lr", "1"]),
        (["go.sh", "--", "--", "1"], ["bash", "go.sh", "--", "1"]),
        (["go.sh", "a", "--", "1"], ["bash", "go.sh", "a", "--", "1"]),
    ],
)
def test_words_become_a_command(place: Path, words: list[str], expected: list[str]) -> None:
    command = describe_job(words, {}, os.environ, str(place))["command"]
    assert [os.path.basename(command[0]), *command[1:]] == [os.path.basename(expected[0]), *expected[1:]]


def test_words_after_the_separator_are_taken_as_they_are(place: Path) -> None:
    assert describe_job(["no-such", "--", "x"], {}, {}, str(place), verbatim=True)["command"] == ["no-such", "--", "x"]


def test_a_directory_that_may_not_be_entered_is_told_as_that() -> None:
    if os.geteuid() != 0:
        pytest.skip("NOT ROOT, so nobody else could be tried")
    with TemporaryDirectory(dir="/tmp") as top:
        Path(top).chmod(0o755)
        (Path(top) / "shut/inner").mkdir(parents=True)
        (Path(top) / "shut").chmod(0o600)
        os.setresuid(65534, 65534, 0)  # For a moment: root may enter everything.
        try:
            for asked in ("shut", "shut/inner"):
                with pytest.raises(BadInput, match=f'workdir: "{asked}" may not be entered by you: permission denied'):
                    describe_job(["ls"], {"workdir": asked}, {"PATH": "/bin"}, top)
        finally:
            os.setresuid(0, 0, 0)


def test_a_script_that_only_the_callers_directory_has_is_named_by_its_full_path(place: Path) -> None:
    (place / "inner").mkdir()
    raw = describe_job(["train.py"], {"workdir": "inner"}, os.environ, str(place))
    assert raw["workdir"] == str(place / "inner")
    assert raw["command"][1] == str(place / "train.py")


@pytest.mark.parametrize(
    ("words", "wishes", "message", "hint"),
    [
        (["trian.py"], {}, 'no file "trian.py"', 'did you mean "train.py"?'),
        (["inner/x.py"], {}, 'no file "inner/x.py"', ""),
        ([".py"], {}, 'no file ".py"', ""),
        (["book.ipynb"], {}, "is a notebook", "convert it first"),
        (["programm"], {}, "neither a script here nor a program", 'did you mean "program"?'),
        (["./programm"], {}, 'no file "./programm"', 'did you mean "program"?'),
        (["/"], {}, "is a directory", "name the script"),
        (["train.py"], {"workdir": "nowhere"}, 'workdir: "nowhere" does not exist', ""),
        (["train.py"], {"workdir": "train.py"}, "is not a directory", ""),
        (["x" * 10_000 + ".py"], {}, "no file", ""),
        (["a\0b.py"], {}, "NUL", ""),
    ],
)
def test_what_does_not_exist_is_refused_with_the_nearest_that_does(
    place: Path, words: list[str], wishes: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(BadInput) as refused:
        describe_job(words, wishes, os.environ, str(place))
    assert message in refused.value.message
    assert hint in refused.value.hint
    assert len(refused.value.message) < 600
