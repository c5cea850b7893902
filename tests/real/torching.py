"""A Python with torch for CPUs and the libraries on top of it, made once per machine, shared by all tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

VERSION = "2.13.0"
PACKAGES = (
    f"torch=={VERSION}", "numpy", "keras==3.15.1", "lightning==2.6.6", "transformers==5.22.2", "accelerate==1.15.0",
)  # fmt: skip
INSTALL_S_MAX = 1500


def torch_python() -> str:
    """The interpreter that has torch; installs it if need be, and skips the test where that cannot be done."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "headway-tests" / f"{_name()}-py{sys.version_info.major}{sys.version_info.minor}"
    place.parent.mkdir(parents=True, exist_ok=True)
    python, done = place / "bin/python", place / "installed"
    with open(place.parent / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _install(place, python)
            done.touch()
    return str(python)


def _name() -> str:
    """Another list of packages is another place."""
    return f"torch-{VERSION}-{hashlib.sha256(' '.join(PACKAGES).encode()).hexdigest()[:8]}"


def _install(place: Path, python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True, capture_output=True)
    asked = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]
    try:
        made = subprocess.run(asked, capture_output=True, text=True, timeout=INSTALL_S_MAX)
    except subprocess.TimeoutExpired:
        pytest.skip(f"torch {VERSION} was not installed within {INSTALL_S_MAX} s")
    if made.returncode:
        pytest.skip(f"torch {VERSION} cannot be installed here: {made.stderr.strip()[-200:]}")
