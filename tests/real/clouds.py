"""A Python with the libraries of a cloud and an emulator of its services over HTTP, made once per machine."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("boto3>=1.43,<2", "moto[server]==5.2.1")
INSTALL_S_MAX = 600


def cloud_python() -> str:
    """The interpreter that has them; installs them if need be, and skips the test where that cannot be done."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "headway-tests" / f"moto-5.2.1-py{sys.version_info.major}{sys.version_info.minor}"
    place.parent.mkdir(parents=True, exist_ok=True)
    python, done = place / "bin/python", place / "installed"
    with open(place.parent / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True, capture_output=True)
            asked = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]
            try:
                made = subprocess.run(asked, capture_output=True, text=True, timeout=INSTALL_S_MAX)
            except subprocess.TimeoutExpired:
                pytest.skip(f"{PACKAGES} were not installed within {INSTALL_S_MAX} s")
            if made.returncode:
                pytest.skip(f"{PACKAGES} cannot be installed here: {made.stderr.strip()[-200:]}")
            done.touch()
    return str(python)
