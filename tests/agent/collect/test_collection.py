from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from headway_agent.collect.collection import Collection
from headway_wire.claim import Claim
from tests.agent.collect.records import scalar
from tests.waiting import wait_until


@pytest.fixture
def task(tmp_path: Path) -> Path:
    for name in ("output", "checkpoints", "sdk", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "rank0.out").touch()
    return tmp_path


def points(task: Path, source: str) -> list[tuple[str, int | None, float]]:
    spool = task / "rank0.metrics"
    lines = [json.loads(line) for line in spool.read_bytes().splitlines()] if spool.exists() else []
    return [
        (name, line.get("s"), value) for line in lines if line.get("f") == source for name, value in line["m"].items()
    ]


def test_a_running_task_is_looked_at_and_has_a_last_look(task):
    collection = Collection()
    (task / "rank0.out").write_bytes(b"step 1 loss=0.5\n")
    collection.begin("job/1/0", str(task), str(task / "work"), time.time() - 1)
    wait_until(lambda: points(task, "stdout") == [("loss", 1, 0.5)], what="the first look")
    (task / "rank0.out").write_bytes(b"step 1 loss=0.5\nstep 2 loss=0.25")
    size = collection.finish("job/1/0", str(task), lambda: os.stat(task / "rank0.metrics").st_size)
    assert points(task, "stdout") == [("loss", 1, 0.5), ("loss", 2, 0.25)]
    assert size == os.stat(task / "rank0.metrics").st_size
    assert not collection.is_wanted("job/1/0", str(task))


def test_an_agent_that_finds_a_task_over_looks_where_it_worked(task):
    first, events = Collection(), task / "work/events.out.tfevents.1.host.1.0"
    events.write_bytes(scalar("loss", 1, 1))
    first.begin("job/1/0", str(task), str(task / "work"), time.time() - 1)
    wait_until(lambda: len(points(task, "tensorboard")) == 1, what="the first look")
    first.forget("job/1/0")
    events.write_bytes(scalar("loss", 1, 1) + scalar("loss", 2, 2))
    Collection().finish("job/1/0", str(task), bool)
    assert points(task, "tensorboard") == [("loss", 1, 1.0), ("loss", 2, 2.0)]


def test_what_an_earlier_attempt_has_logged_is_not_taken_again(task):
    claim = Claim.read({"task": "job/2/0", "argv": ["python"], "resume": {"key": "a", "step": 2, "own": True}})
    collection = Collection()
    collection.held(claim, str(task), str(task / "work"))
    (task / "work/out/checkpoint-4").mkdir(parents=True)
    history = [{"step": step, "loss": step / 10} for step in (1, 2, 3, 4)]
    (task / "work/out/checkpoint-4/trainer_state.json").write_text(json.dumps({"log_history": history}))
    collection.begin("job/2/0", str(task), str(task / "work"), time.time() - 1)
    collection.finish("job/2/0", str(task), bool)
    assert points(task, "trainer_state") == [("loss", 3, 0.3), ("loss", 4, 0.4)]


def test_a_task_that_says_nothing_is_not_wanted(task):
    assert not Collection().is_wanted("job/1/0", str(task))
    (task / "rank0.out").write_bytes(b"one line\n")
    assert not Collection().is_wanted("job/1/0", str(task))
    (task / "rank0.out").write_bytes(b"loss=1\n")
    assert Collection().is_wanted("job/1/0", str(task))


def test_parameters_of_the_command_are_noted(task):
    claim = Claim.read({"task": "job/1/0", "argv": ["python", "t.py", "--lr", "0.1"]})
    Collection().held(claim, str(task), str(task / "work"))
    told = [json.loads(line) for line in (task / "rank0.metrics").read_bytes().splitlines()]
    assert (told[0]["p"], told[0]["f"]) == ({"lr": 0.1}, "arguments")
