"""What is found in the output and the files of real jobs: each point once, whoever is killed, and in its own job."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.agent.collect.records import scalar
from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

STEPS = 800
# Prints a line for each step, and writes an event file as buffers are flushed: in pieces that end anywhere.
TRAINING = """
import os, random, sys, time
data, steps = open(sys.argv[1], "rb").read(), int(sys.argv[2])
os.makedirs("runs/first", exist_ok=True)
with open(f"runs/first/events.out.tfevents.1.{os.uname().nodename}.{os.getpid()}.0", "wb", buffering=0) as file:
    written = 0
    for step in range(steps):
        print(f"step {step} acc={step / 1000}", flush=True)
        until = len(data) if step == steps - 1 else min(len(data), len(data) * step // steps + random.randrange(90))
        file.write(data[written:until])
        written = max(written, until)
        time.sleep(float(sys.argv[3]))
"""


def series(living: Living, job: str) -> dict[str, dict[str, Any]]:
    rows = json.loads(living.ok("metrics", job, "--json"))["series"]
    return {row["name"]: row for row in rows}


def count(living: Living, job: str) -> int:
    return sum(row["count"] for row in series(living, job).values())


def steps(living: Living, job: str, name: str) -> list[int]:
    (curve,) = json.loads(living.ok("metrics", job, "--plot", name, "--json"))["curves"]
    return list(curve["steps"])


def test_every_point_that_is_found_is_there_once_whoever_is_killed(living: Living) -> None:
    living.script("training.py", TRAINING)
    events = b"".join(scalar("loss", step, step) for step in range(STEPS))
    (living.place / "events").write_bytes(events)
    job = living.submit("--cpus", "0.1", "training.py", "events", str(STEPS), "0.02")
    wait_until(lambda: count(living, job) > 0, what="the first points")
    chance = random.Random(15)
    for _ in range(4):
        living.kill(living.agent if chance.random() < 0.7 else living.server)
        before = count(living, job)
        wait_until(
            lambda before=before: count(living, job) > before or living.job(job)["state"] == "succeeded",
            what="more points, with a new server and agent",
        )
    assert living.wait(job)["state"] == "succeeded"
    wait_until(lambda: count(living, job) >= 2 * STEPS, what="all points to be counted")
    found = series(living, job)
    assert {name: (row["source"], row["count"]) for name, row in found.items()} == {
        "acc": ("stdout", STEPS),
        "loss": ("tensorboard", STEPS),
    }
    assert sorted(steps(living, job, "acc")) == list(range(STEPS))
    assert sorted(steps(living, job, "loss")) == list(range(STEPS))


def test_jobs_that_work_in_one_directory_have_their_own_files(living: Living) -> None:
    living.script("training.py", TRAINING)
    for name in ("a", "b"):
        events = b"".join(scalar(name, step, step) for step in range(200))
        (living.place / f"events-{name}").write_bytes(events)
    jobs = {name: living.submit("--cpus", "0.1", "training.py", f"events-{name}", "200", "0.02") for name in ("a", "b")}
    for name, job in jobs.items():
        assert living.wait(job)["state"] == "succeeded"
        wait_until(lambda job=job: count(living, job) >= 400, what="all points to be counted")
        assert set(series(living, job)) == {"acc", name}
