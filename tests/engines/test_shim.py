"""The light copy of the SDK that travels with the agent: it stands alone, and gives way to what a job brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.engines import agent_zip
from headway_agent.launch.ranks import launch_of
from headway_wire.claim import Claim
from tests.pythons import find_python

SOURCES = Path(agent_zip.__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Unpacked by the agent's own code, from the agent's own file."""
    pyz = tmp_path / "agent.pyz"
    pyz.write_bytes(agent_zip.build().data)
    program = "import sys; sys.path.insert(0, sys.argv[1]); from headway_agent.launch import sdk_shim; "
    program += (
        "from headway_agent.node import directory; home = directory.NodeDir(sys.argv[2]); "
        "first = sdk_shim.put(home); assert sdk_shim.put(home) == first; print(first)"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(pyz), str(tmp_path)]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def python(place: Path, program: str, *more: str, **env: str) -> str:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join([*more, str(place)]), **env}
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, env=environ, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_bare_interpreter_has_the_sdk(place: Path, tmp_path: Path) -> None:
    program = "import headway; headway.checkpoint(3); headway.log({'loss': 1.0}, step=3); print(headway.__file__)"
    file, more = tmp_path / "sdk/rank0.logged", {"HEADWAY_CHECKPOINT_DIR": str(tmp_path)}
    told = python(place, program, HEADWAY_SDK_DIR=str(tmp_path / "sdk"), HEADWAY_METRICS_FILE=str(file), **more)
    assert told == str(place / "headway/__init__.py")
    assert '"step": 3' in (tmp_path / "sdk/declared.jsonl").read_text()
    assert '"loss":1.0' in file.read_text()


def test_what_the_copy_lacks_is_said_in_a_sentence(place: Path) -> None:
    program = "import headway\ntry: headway.submit\nexcept AttributeError as error: print(error)"
    assert python(place, program) == "headway.submit needs the whole package: pip install headway"


def test_an_installed_headway_keeps_its_other_parts(place: Path) -> None:
    later = f"import sys; sys.path.append({str(SOURCES)!r}); "
    assert python(place, later + "import headway; print(headway.Client.__module__)") == "headway.client.sdk"


def test_what_the_job_brings_goes_first(place: Path) -> None:
    assert python(place, "import headway; print(headway.__file__)", str(SOURCES)) == str(
        SOURCES / "headway/__init__.py"
    )


def test_a_rank_finds_it_last_on_its_search_path() -> None:
    duty = {"task": "j/1/0", "argv": ["x"], "env": {"PYTHONPATH": "/mine"}}
    assert launch_of(Claim.read(duty), "/t", "", 0, 0, None, "/shim")["ranks"][0]["env"]["PYTHONPATH"] == "/mine:/shim"
    duty["env"] = {}
    assert launch_of(Claim.read(duty), "/t", "", 0, 0, None, "/shim")["ranks"][0]["env"]["PYTHONPATH"] == "/shim"


def test_it_imports_on_the_oldest_python_that_is_here(place: Path) -> None:
    found = find_python("3.8")
    if found is None:
        pytest.skip("no python3.8 on this machine")
    program = "import headway; headway.stop_requested(); import headway.training.files"
    program += "; from headway.training import accelerate, pytorch, sharded"
    subprocess.run([found, "-S", "-c", program], check=True, env={"PYTHONPATH": str(place)})
