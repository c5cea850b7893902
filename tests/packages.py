"""Programs of the system that tests need, from Debian's packages where they may be installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence

from tests.leftovers import shared_tmp

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
INSTALL_S_MAX = 900


def missing(programs: Sequence[str], *packages: str) -> str:
    """Why one of these programs is not there; empty when all are, perhaps after their packages were installed."""
    lacking = [name for name in programs if not shutil.which(name, path=PATH)]
    said = ""
    if lacking and os.geteuid() == 0 and shutil.which("apt-get"):
        # One at a time: of two that install at once, one would be refused.
        with open(shared_tmp() / "headway-apt.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if any(not shutil.which(name, path=PATH) for name in programs):
                said = _install(packages)
    lacking = [name for name in programs if not shutil.which(name, path=PATH)]
    return f"{', '.join(lacking)} cannot be had here ({' '.join(packages)}): {said}" if lacking else ""


def _install(packages: Sequence[str]) -> str:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    patient = ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    done = None
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        try:
            done = subprocess.run(
                ["apt-get", *patient, *words], env=env, capture_output=True, text=True, timeout=INSTALL_S_MAX
            )
        except subprocess.TimeoutExpired:
            return f"apt-get {words[0]} took longer than {INSTALL_S_MAX} s"
    return done.stderr.strip()[-300:] if done is not None else ""
