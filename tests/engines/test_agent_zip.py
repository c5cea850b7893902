"""The agent's one file: the same bytes from the same sources, and runnable."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

from headway.engines import agent_zip


def test_the_same_sources_give_the_same_bytes() -> None:
    first, second = agent_zip.build(), agent_zip.build()
    assert first == second
    assert first.version == hashlib.sha256(first.data).hexdigest()


def test_the_order_of_the_sources_does_not_matter_and_their_content_does() -> None:
    one = agent_zip.pack({"a.py": b"1", "b.py": b"2"})
    assert agent_zip.pack({"b.py": b"2", "a.py": b"1"}) == one
    assert agent_zip.pack({"a.py": b"1", "b.py": b"3"}).version != one.version


def test_it_holds_the_whole_package_and_nothing_compiled() -> None:
    names = zipfile.ZipFile(io.BytesIO(agent_zip.build().data)).namelist()
    assert {"__main__.py", "headway_agent/__init__.py", "headway_agent/decide/decide.py"} <= set(names)
    about = ("/INDEX", ".dist-info/METADATA", ".dist-info/entry_points.txt")
    assert all(name.endswith((".py", *about)) for name in names)


def test_libraries_that_ask_installed_packages_find_our_part_beside_the_sdk(tmp_path: Path) -> None:
    for name, content in agent_zip.shim().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "headway").mkdir()  # A job's own, which goes first.
    (tmp_path / "headway/__init__.py").touch()
    asked = "import importlib.metadata as m; g = 'lightning.pytorch.callbacks_factory'\n"
    asked += "print([each.load()() for each in m.entry_points(group=g)], m.version('headway-shim'))"
    env = {"PYTHONPATH": f"{tmp_path}:{tmp_path / agent_zip.SHIM}", "PATH": ""}
    for more in ({}, {"HEADWAY_SDK_DIR": str(tmp_path)}):  # Outside a job, and in one: it must end no training.
        asks = [sys.executable, "-S", "-c", asked]
        done = subprocess.run(asks, env={**env, **more}, capture_output=True, text=True, check=True)
        assert done.stdout == "[[]] 0\n"


def test_a_bare_python_runs_it(tmp_path: Path) -> None:
    path = tmp_path / "agent.pyz"
    path.write_bytes(agent_zip.pack({"__main__.py": b"import sys; print(sys.argv[1:])"}).data)
    done = subprocess.run([sys.executable, "-I", "-S", path, "agent"], capture_output=True, text=True, check=True)
    assert done.stdout == "['agent']\n"
