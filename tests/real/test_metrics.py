"""Points that real jobs log: each is there once, whoever is killed; attempts and ranks are kept apart."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

JOBS, POINTS = 4, 1500
# A hundred points a second, until there are enough.
LOGGING = """
import sys, time, headway
for step in range(int(sys.argv[1])):
    headway.log({"loss": step / 7, "twice": 2.0 * step}, step=step)
    time.sleep(0.01)
"""


def points(living: Living, job: str, name: str, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(living.ok("metrics", job, "--plot", name, "--json", *words))["curves"])


def series(living: Living, job: str, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(living.ok("metrics", job, "--json", *words))["series"])


def counted(living: Living, job: str) -> int:
    return sum(row["count"] for row in series(living, job, "--all-attempts"))


def test_every_point_is_there_once_whoever_is_killed(living: Living) -> None:
    living.script("log_points.py", LOGGING)
    jobs = [living.submit("--cpus", "0.1", "log_points.py", str(POINTS)) for _ in range(JOBS)]
    wait_until(lambda: all(counted(living, job) for job in jobs), what="the first points of every job")
    chance = random.Random(15)
    for _ in range(5):
        living.kill(*filter(None, [living.server if chance.random() < 0.5 else living.agent]))  # One may be starting.
        if chance.random() < 0.5 and living.agent:
            living.kill(living.agent)
        before = counted(living, jobs[0])  # The command starts a server where there is none.
        wait_until(
            lambda before=before: counted(living, jobs[0]) > before or living.job(jobs[0])["state"] == "succeeded",
            what="more points, with a new server and agent",
        )
    for job in jobs:
        assert living.wait(job)["state"] == "succeeded"
        assert living.job(job)["attempt"] == 1
        wait_until(lambda job=job: counted(living, job) == 2 * POINTS, what="all points to be counted")
        (curve,) = points(living, job, "loss")
        assert curve["steps"] == list(range(POINTS))
        assert curve["values"] == [step / 7 for step in range(POINTS)]
    living.kill(living.server)
    (curve,) = points(living, jobs[0], "twice")
    assert Counter(curve["steps"]) == Counter(range(POINTS))


def test_a_restarted_attempt_that_repeats_steps_has_a_curve_of_its_own(living: Living) -> None:
    living.script(
        "twice.py",
        "import os, sys, headway\n"
        'attempt = int(os.environ["HEADWAY_ATTEMPT"])\n'
        'for step in range(10): headway.log({"x": attempt * 100.0 + step}, step=step)\n'
        "sys.exit(attempt == 1)\n",
    )
    job = living.submit("--max-retries", "1", "twice.py")
    assert living.wait(job)["state"] == "succeeded"
    wait_until(lambda: counted(living, job) == 20, what="the points of both attempts")
    first, second = points(living, job, "x", "--all-attempts")
    assert (first["values"], second["values"]) == ([100.0 + n for n in range(10)], [200.0 + n for n in range(10)])
    assert [row["attempt"] for row in series(living, job)] == [2]
    assert "x, attempt 2" in living.ok("metrics", job, "--plot", "x", "--all-attempts")


def test_ranks_and_programs_of_other_languages_are_kept_apart(living: Living) -> None:
    script = (
        'echo "{\\"step\\": 3, \\"loss\\": 0.$RANK}" >> "$HEADWAY_METRICS_FILE"; echo noise >> "$HEADWAY_METRICS_FILE"'
    )
    job = living.submit("--ranks-per-node", "3", "--cpus", "0.1", "--", "sh", "-c", script)
    assert living.wait(job)["state"] == "succeeded"
    wait_until(lambda: counted(living, job) == 3, what="the points of all ranks")
    assert [(row["rank"], row["last"], row["last_step"]) for row in series(living, job)] == [
        (0, 0.0, 3),
        (1, 0.1, 3),
        (2, 0.2, 3),
    ]
    assert "3 lines or values say no number" in living.run("metrics", job).stderr
    assert living.log(job) == ""
