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

QUICK = "look_every_s = 0.5\nlocal_nodes = 0\nlease_s_min = 1\nlog_flush_every_s = 0.5\n"
POOL = """
[pool.{name}]
engine = 'slurm'
min = 0
cpus = 1
memory = '512M'
{words}
[pool.{name}.options]
conf = '{lab}/slurm.conf'
node_dir = '{home}'
output = '{home}/slurm-%j.out'
{options}
"""


@pytest.fixture(scope="session")
def lab() -> Iterator[SlurmLab]:
    made = open_lab()
    yield made
    made.end()


Slurmed = Callable[..., Living]


@pytest.fixture
def slurmed(headway_home: Path, tmp_path: Path, lab: SlurmLab) -> Iterator[Slurmed]:
    """A Headway with pools on the Slurm: for each name, words for the pool and words for its options."""
    made: list[Living] = []

    def start(**pools: tuple[str, str]) -> Living:
        config = headway_home / "config"
        config.mkdir(parents=True, exist_ok=True)
        told = {"lab": lab.path, "home": headway_home}
        sections = [POOL.format(name=name, words=words, options=more, **told) for name, (words, more) in pools.items()]
        (config / "config.toml").write_text(QUICK + "".join(sections))
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
