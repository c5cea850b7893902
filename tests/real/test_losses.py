"""A job that loses its machine over and over: while it moves on it is never given up, and else after its limit."""

from __future__ import annotations

import os

import pytest

from tests.living import Living
from tests.real.training import Training
from tests.waiting import wait_until

pytestmark = pytest.mark.real
FULL = os.environ.get("HEADWAY_TEST_TRAININGS") == "full"


def until_kept(training: Training, step: int) -> None:
    kept = lambda: (training.living.job(training.job)["checkpoint"] or {}).get("step", 0) >= step  # noqa: E731
    wait_until(kept, what=f"a checkpoint of step {step} or later")


def lose(training: Training, attempt: int) -> None:
    """Its keeper dies, and with it every rank; nothing is left that could tell how they ended."""
    training.living.kill(training.living.keeper)
    training.ended(attempt)


def test_a_job_that_moves_on_is_not_given_up_for_the_machines_it_lost(living: Living) -> None:
    """The limit stands at two losses, or at its usual 20, and more of them come."""
    losses, words = (23, []) if FULL else (5, ["--max-losses", "2"])
    training = Training(living, steps=60 * (losses + 1)).begin(*words)
    resumed = training.began(1)
    for attempt in range(1, losses + 1):
        training.until(attempt, resumed + 15)
        until_kept(training, resumed + 1)
        lose(training, attempt)
        again = training.began(attempt + 1)  # Without a pause, and without a word of ours.
        assert again > resumed
        resumed = again
    told = living.job(training.job)
    assert (told["retries"]["platform"], told["losses"]["platform"]) == (losses, 1)
    training.finished_like_an_undisturbed_one()


def test_a_job_that_never_moves_on_is_given_up_after_its_limit(living: Living) -> None:
    living.script("wait.py", "import time\nprint('begins', flush=True)\ntime.sleep(600)\n")
    job = living.submit("--no-bundle", "--max-losses", "1", "wait.py")
    for attempt in (1, 2):
        begins = lambda: "begins" in living.run("logs", job, "--attempt", str(attempt)).stdout  # noqa: E731, B023
        wait_until(begins, what=f"attempt {attempt}")
        living.kill(living.keeper)
    told = living.wait(job)
    assert told["state"] == "failed"
    assert "not tried again: it lost its machine 2 times without a new step (retry.platform_max)" in told["sentence"]
