"""The wheel: it installs into an empty environment and runs there, and its version tells one build from another."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from hatch_build import version
from tests.living import PATIENT, Living

ROOT = Path(__file__).parents[2]
INIT = 'x = 1\n_NUMBER = "1.2.3"  # Of the next release.\n'


def git(place: Path, *words: str) -> None:
    said = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(place), *said, *words], check=True, capture_output=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "src/headway").mkdir(parents=True)
    (tmp_path / "src/headway/__init__.py").write_text(INIT)
    return tmp_path


def test_without_git_the_plain_number_is_the_version(source: Path) -> None:
    assert version(source) == "1.2.3"


def test_a_copy_within_another_repository_is_not_taken_for_it(source: Path) -> None:
    git(source, "init")
    git(source, "commit", "--allow-empty", "-m", "x")
    inner = source / "vendor"
    (inner / "src/headway").mkdir(parents=True)
    (inner / "src/headway/__init__.py").write_text(INIT)
    assert version(inner) == "1.2.3"


def test_every_commit_and_every_change_has_a_version_of_its_own(source: Path) -> None:
    git(source, "init")
    git(source, "add", ".")
    git(source, "commit", "-m", "one")
    first = version(source)
    assert first.startswith("1.2.3.dev1+g")
    (source / "src/headway/__init__.py").write_text(f"{INIT}y = 1\n")
    changed = version(source)
    assert changed.startswith(f"{first}.d")
    (source / "src/headway/__init__.py").write_text(f"{INIT}y = 2\n")
    assert version(source) not in (first, changed)
    git(source, "commit", "-am", "two")
    assert version(source).startswith("1.2.3.dev2+g")
    git(source, "tag", "v1.2.3")
    assert version(source) == "1.2.3"


def test_an_sdist_keeps_the_version_that_it_was_made_with(source: Path) -> None:
    (source / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: headway\nVersion: 1.2.3.dev7+gabc\n")
    assert version(source) == "1.2.3.dev7+gabc"


def test_who_builds_may_say_the_version(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_VERSION", "2.0.0")
    assert version(source) == "2.0.0"


@pytest.mark.real
def test_the_wheel_runs_in_an_environment_of_its_own(headway_home: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-qq", "--no-deps", "--no-index", str(wheel)], check=True)
    # What it depends on is taken from here, without what lies beside it: a line of a path file leads to no other.
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    env = {**PATIENT, **os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    env.pop("PYTHONPATH", None)

    def said(*words: str) -> str:
        return subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert str(site) in said(str(python), "-c", "import headway; print(headway.__file__)")
    built = wheel.name.split("-")[1]
    assert said("headway", "version", "-q").strip() == built.replace("_", "+")
    living = Living(headway_home, tmp_path)
    try:
        assert said("headway", "run", "--", "echo", "from the wheel") == "from the wheel\n"
        assert f"version {said('headway', 'version', '-q').strip()}" in said("headway", "doctor")
    finally:
        living.end()
