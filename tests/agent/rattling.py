"""What lets a node without conda make conda environments in tests: rattler's wheels, fetched once per machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway_agent.prepare import conda

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_uv = pytest.mark.skipif(UV is None, reason="NOT TESTED: there is no uv on this machine")
DOWNLOAD_S_MAX = 600


def rattler_wheels() -> Path:
    """A folder with all that the header of conda_script.py names; skips the test where that cannot be had."""
    script = Path(conda.__file__).with_name("conda_script.py").read_text()
    needed = re.findall(r'"([^"]+)"', script.split("# dependencies = ")[1].splitlines()[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway-tests"
    listed = hashlib.sha256(" ".join(needed).encode()).hexdigest()[:8]
    place = cache / f"rattler-{listed}-py{sys.version_info.major}{sys.version_info.minor}"
    place.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "whole").exists():
            _download(place, needed)
            (place / "whole").touch()
    return place


def _download(place: Path, needed: list[str]) -> None:
    asked = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    try:
        done = subprocess.run(
            [*asked, "-d", str(place), *needed], capture_output=True, text=True, timeout=DOWNLOAD_S_MAX
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"NOT TESTED: rattler was not fetched within {DOWNLOAD_S_MAX} s")
    if done.returncode:
        pytest.skip(f"NOT TESTED: rattler cannot be fetched here: {done.stderr.strip()[-200:]}")


def a_conda_node(home: Path) -> dict[str, str]:
    """The environment of a node that has uv and no conda, and whose only index is a folder: `home/wheels`."""
    (home / "wheels").mkdir(exist_ok=True)
    return {
        "HEADWAY_AGENT_UV": str(UV),
        "HEADWAY_AGENT_CONDA": "rattler",
        "UV_FIND_LINKS": f"{rattler_wheels()},{home / 'wheels'}",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(home / "uv-cache"),
        "RATTLER_CACHE_DIR": str(home / "rattler-cache"),
    }


def solver_of(word: str) -> int:
    """The process that solves and installs, by a word of its command; not the uv that has started it."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--script" not in words and word.encode() in words:
            return int(name)
    raise AssertionError("no solver runs")
