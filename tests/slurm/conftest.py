"""One Slurm for all tests here; each has a Headway of its own that orders its nodes from it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.living import Living
from tests.slurmlab import SlurmLab, open_lab
from tests.waiting import wait_until

QUICK = "look_every_s = 0.5\nlocal_nodes = 0\nlog_flush_every_s = 0.5\n"


@pytest.fixture(scope="session")
def lab() -> Iterator[SlurmLab]:
    made = open_lab()
    yield made
    made.end()


Slurmed = Callable[..., Living]


@pytest.fixture
def slurmed(headway_home: Path, tmp_path: Path, lab: SlurmLab) -> Iterator[Slurmed]:
    """A Headway with one pool "lab" on the Slurm; words for the pool and its options are given by the test."""
    made: list[Living] = []

    def start(pool: str = "", options: str = "") -> Living:
        config = headway_home / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text(
            f"{QUICK}\n[pool.lab]\nengine = 'slurm'\nmin = 0\ncpus = 2\nmemory = '1G'\n{pool}\n"
            f"[pool.lab.options]\nconf = '{lab.path}/slurm.conf'\nnode_dir = '{headway_home}'\n"
            f"output = '{headway_home}/slurm-%j.out'\n{options}\n"
        )
        made.append(Living(headway_home, tmp_path))
        return made[-1]

    yield start
    for living in made:
        if living.server:
            os.kill(living.server, signal.SIGKILL)
        jobs = lab.run("squeue", "-h", "-o", "%i").stdout.split()
        if jobs:
            lab.run("scancel", *jobs)
        living.end()
    wait_until(lambda: not lab.jobs(), what="an empty Slurm")
