"""An interpreter with the libraries that the examples use, and without Headway: made once, beside our own environment.

HEADWAY_TEST_EXAMPLES_PYTHON names one that is there already.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import Living
from tests.real.torching import PACKAGES, torch_python

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
INSTALL_S_MAX = 900


def made(name: str) -> Path:
    """The interpreter with an example's requirements; installed when it is first asked for."""
    given = os.environ.get("HEADWAY_TEST_EXAMPLES_PYTHON")
    if given:
        return Path(given)
    place = ROOT / ".venv/examples" / name
    wanted = (EXAMPLES / name / "requirements.txt").read_text()
    if wanted.split() == [PACKAGES[0]]:
        return Path(torch_python())  # It is large; one for all tests is enough.
    stamp = place / "installed.txt"
    place.parent.mkdir(parents=True, exist_ok=True)
    # Tests run side by side: one installs, the others wait.
    with open(place.parent / f"{name}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True, capture_output=True)
            install = [str(place / "bin/python"), "-m", "pip", "install", "-qq", *wanted.split()]
            done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALL_S_MAX)
            if done.returncode:
                pytest.skip(f"cannot install {wanted.split()}: {done.stderr.strip().splitlines()[-1:]}")
            stamp.write_text(wanted)
    return place / "bin/python"


@pytest.fixture
def living(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    home = Living(headway_home, tmp_path)
    yield home
    home.end()
