"""A real Open MPI and a real MPICH: Debian's, installed once per machine where that may be done."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

INSTALL_S_MAX = 600


def have_open_mpi() -> None:
    """Install mpirun if need be; skip the test where that cannot be done."""
    _have("mpirun.openmpi", "openmpi-bin")


def have_mpich() -> None:
    """The same for MPICH, which is `mpirun.mpich` beside an Open MPI."""
    _have("mpirun.mpich", "mpich")


def _have(program: str, package: str) -> None:
    with open(Path(tempfile.gettempdir(), "headway-tests-openmpi.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if shutil.which(program):
            return
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            pytest.skip(f"there is no {program} here, and it can be installed only by root with apt-get")
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        asked = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        for words in (["apt-get", "update", "-qq"], asked):
            done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=INSTALL_S_MAX)
        if done.returncode:
            pytest.skip(f"{package} cannot be installed here: {done.stderr.strip()[-200:]}")
