"""System users of a test alone: as whom local nodes run where people sign in."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

_numbers = itertools.count(1)


@contextmanager
def a_system_user() -> Iterator[str]:
    """The name of a new system user; afterwards it is gone, with all of its processes."""
    if os.geteuid() != 0:
        pytest.skip("NOT ROOT, so no other system user was tried")
    name = f"hwt{os.getpid()}-{next(_numbers)}"
    subprocess.run(["useradd", "--system", "--no-create-home", name], check=True, capture_output=True)
    try:
        yield name
    finally:
        subprocess.run(["pkill", "-KILL", "-u", name], check=False)
        wait_until(lambda: subprocess.run(["pgrep", "-u", name], capture_output=True).returncode != 0, what="their end")
        subprocess.run(["userdel", name], check=True, capture_output=True)


@contextmanager
def a_place_for_nodes() -> Iterator[str]:
    """A directory that is not there yet, where another user may have one."""
    place = Path(tempfile.mkdtemp(prefix="headway-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        yield str(place / "nodes")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def local_nodes_of_another() -> Iterator[dict[str, str]]:
    """Settings for a server where people sign in, and local nodes all the same."""
    with a_system_user() as name, a_place_for_nodes() as place:
        yield {"local_nodes": "1", "local_user": name, "local_dir": place}
