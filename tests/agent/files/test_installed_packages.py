"""Which packages a Python has, by where it looks for them; a running job's are in tests/real/test_repeating.py."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from headway_agent.files import installed_packages
from tests.waiting import wait_until


def holds(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
    return folder


def test_names_are_read_as_installers_write_them(tmp_path: Path) -> None:
    first = holds(tmp_path / "first", "Foo_Bar.baz-1.0rc1+cu12.dist-info", "old-2.1-py3.11.egg-info", "plain.egg-info")
    second = holds(tmp_path / "second", "foo_bar_baz-0.9.dist-info", "only-3.dist-info", "package", "x.dist-info.bak")
    found = installed_packages.listed([str(tmp_path / "absent"), str(first), str(second)])
    assert found == {"foo-bar-baz": "1.0rc1+cu12", "old": "2.1", "plain": "", "only": "3"}


@pytest.mark.parametrize("sees", ["true", "false"])
def test_a_virtual_environment_has_its_own_and_those_of_the_system_where_it_says_so(tmp_path: Path, sees: str) -> None:
    exe = tmp_path / "base/bin/python3.11"
    own = tmp_path / "venv"
    (own / "bin").mkdir(parents=True)
    (own / "pyvenv.cfg").write_text(f"home = {exe.parent}\ninclude-system-site-packages = {sees}\n")
    env = {"PYTHONPATH": "mine:/shared", "HOME": "/home/ada", "PYTHONNOUSERSITE": "1"}
    found = installed_packages.places_of(str(own / "bin/python"), str(exe), "3.11", env, "/job")
    assert found[:3] == ["/job/mine", "/shared", f"{own}/lib/python3.11/site-packages"]
    assert (f"{tmp_path}/base/lib/python3.11/site-packages" in found) == (sees == "true")


def test_of_a_system_s_python_the_user_s_own_come_first() -> None:
    found = installed_packages.places_of("/usr/bin/python3", "/usr/bin/python3.11", "3.11", {"HOME": "/home/ada"}, "/")
    assert found[0] == "/home/ada/.local/lib/python3.11/site-packages"
    assert "/usr/lib/python3/dist-packages" in found


@pytest.mark.parametrize(
    ("name", "libraries", "version"),
    [
        ("python3.11", [], "3.11"),
        ("python3", ["python3.12", "libz.so"], "3.12"),
        ("python", ["python3.9"], "3.9"),
        ("python3", ["python3.11", "python3.12"], ""),  # Better none than those of another.
        ("python3", [], ""),
    ],
)
def test_a_version_is_known_by_the_name_or_the_only_library(
    tmp_path: Path, name: str, libraries: list[str], version: str
) -> None:
    for library in libraries:
        (tmp_path / "lib" / library).mkdir(parents=True)
    assert installed_packages.version_of(str(tmp_path / "bin" / name)) == version


def test_a_real_process_has_what_its_own_interpreter_says() -> None:
    """The one that runs these tests, asked from outside and from inside."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = wait_until(lambda: installed_packages.of_process(process.pid), what="the process to begin")
    finally:
        process.communicate(b"\n")
    assert found["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert {"pytest", "ruff", "mypy"} <= found["packages"].keys()
    for name in ("pytest", "ruff"):
        assert found["packages"][name] == metadata.version(name)


def test_what_is_no_python_has_none() -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        assert installed_packages.of_process(process.pid) == {}
    finally:
        process.kill()
        process.wait()
    assert installed_packages.of_process(process.pid) == {}
    assert not installed_packages.note("nobody/1/0", lambda key, content: os.abort())
