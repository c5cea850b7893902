"""Jobs on a real Slurm: orders, gangs, warm allocations, notices, node failure, restarts; and nothing is left."""

from __future__ import annotations

import pytest

from tests.slurm.conftest import Slurmed
from tests.slurmlab import SlurmLab
from tests.waiting import wait_until

pytestmark = pytest.mark.real


def test_a_job_runs_in_an_allocation_which_the_next_one_uses_too_and_then_nothing_is_left(
    slurmed: Slurmed, lab: SlurmLab
) -> None:
    headway = slurmed("idle = '10m'")
    first = headway.submit("--cpus", "1", "--", "sh", "-c", "echo hello from $HEADWAY_JOB_ID; exit 3")
    done = headway.wait(first)
    assert (done["state"], done["cause"], done["attempts"][0]["exit_code"]) == ("failed", "user_code", 3), done
    assert headway.log(first) == f"hello from {first}\n"
    names = lab.jobs()
    assert len(names) == 1
    second = headway.submit("--cpus", "1", "--", "sh", "-c", "env | grep -c ^SLURM_")
    assert headway.wait(second)["state"] == "failed", "a rank sees nothing of Slurm"
    assert lab.jobs() == names, "the second one ran in the first one's allocation"
    headway.ok("pool", "set", "lab", "idle=1s")
    wait_until(lambda: not lab.jobs(), what="the allocation to be given back")
    wait_until(lambda: not list(headway.home.glob("headway-*/*")), what="an empty node directory")
