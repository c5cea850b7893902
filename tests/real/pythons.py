"""Pythons with heavy packages, each made once per machine and shared by all tests that name the same packages."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest


def python_with(packages: tuple[str, ...], name: str, within_s: float) -> str:
    """The interpreter that has these; installs them if need be, and skips the test where that cannot be done."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    listed = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8]  # Another list of packages is another place.
    place = cache / "headway-tests" / f"{name}-{listed}-py{sys.version_info.major}{sys.version_info.minor}"
    place.parent.mkdir(parents=True, exist_ok=True)
    python, done = place / "bin/python", place / "installed"
    with open(place.parent / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True, capture_output=True)
            _install(python, packages, name, within_s)
            done.touch()
    return str(python)


def _install(python: Path, packages: tuple[str, ...], name: str, within_s: float) -> None:
    asked = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    try:
        made = subprocess.run(asked, capture_output=True, text=True, timeout=within_s)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} was not installed within {within_s:g} s")
    if made.returncode:
        pytest.skip(f"{name} cannot be installed here: {made.stderr.strip()[-200:]}")
