from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from headway_agent.collect import sources
from headway_agent.collect.search import prefix_of
from headway_agent.collect.task_collector import TaskCollector
from tests.agent.collect.records import scalar

PRINTED = Path(__file__).with_name("printed")


@pytest.fixture
def task(tmp_path: Path) -> Path:
    for name in ("output", "checkpoints", "sdk", "work"):
        (tmp_path / "task" / name).mkdir(parents=True)
    (tmp_path / "task/rank0.out").touch()
    return tmp_path / "task"


class Node:
    """Looks at a task as an agent does, and may be killed and started anew."""

    def __init__(self, task: Path, cwd: Path | None = None, shares: bool = False) -> None:
        self.task, self.cwd, self.shares = task, cwd or task / "work", shares
        self.now_s = 0.0
        self.restart()

    def restart(self) -> None:
        self.collector = TaskCollector("job/1/0", str(self.task), str(self.cwd), time.time() - 60)

    def look(self, final: bool = False) -> None:
        self.now_s += 100.0
        self.collector.look(self.now_s, 1000.0 + self.now_s, self.shares, final, lambda: self.now_s)

    def lines(self, rank: int = 0) -> list[dict]:
        spool = self.task / f"rank{rank}.metrics"
        lines = []
        for line in spool.read_bytes().splitlines() if spool.exists() else ():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines

    def points(self, source: str, rank: int = 0) -> list[tuple[str, int | None, float]]:
        return [
            (name, line.get("s"), value)
            for line in self.lines(rank)
            if line.get("f") == source
            for name, value in line["m"].items()
        ]

    def params(self, source: str) -> dict:
        return {
            name: value for line in self.lines() if line.get("f") == source for name, value in line.get("p", {}).items()
        }


def losses(first: int, last: int) -> bytes:
    return b"".join(scalar("loss", step, step) for step in range(first, last))


def test_what_is_printed_and_written_is_found(task):
    node = Node(task)
    (task / "rank0.out").write_bytes(b"step 1 acc=0.5\n")
    (task / "work/runs/a").mkdir(parents=True)
    (task / "work/runs/a/events.out.tfevents.1.host.1.0").write_bytes(losses(1, 4))
    (task / "work/metrics.csv").write_bytes(b"step,val_loss\n3,0.25\n")
    (task / "work/out/checkpoint-2").mkdir(parents=True)
    state = {"log_history": [{"step": 2, "grad_norm": 1.5}]}
    (task / "work/out/checkpoint-2/trainer_state.json").write_text(json.dumps(state))
    (task / "sdk/hypertune-0").write_text('{"timestamp": 5.0, "trial": "0", "score": "0.75", "global_step": "9"}\n')
    (task / "work/.hydra").mkdir()
    (task / "work/.hydra/config.yaml").write_text("lr: 0.1\n")
    node.look()
    assert node.points("stdout") == [("acc", 1, 0.5)]
    assert node.points("tensorboard") == [("loss", step, float(step)) for step in range(1, 4)]
    assert node.points("csv") == [("val_loss", 3, 0.25)]
    assert node.points("trainer_state") == [("grad_norm", 2, 1.5)]
    assert node.points("hypertune") == [("score", 9, 0.75)]
    assert node.params("hydra") == {"lr": 0.1}


def test_a_file_that_grows_is_read_on(task):
    node = Node(task)
    file = task / "work/events.out.tfevents.1.host.1.0"
    data = losses(0, 50)
    for end in range(10, len(data) + 60, 60):
        file.write_bytes(data[:end])
        node.look()
    assert [step for _, step, _ in node.points("tensorboard")] == list(range(50))


@pytest.mark.parametrize("cut", range(0, 400, 23))
def test_an_agent_that_is_killed_while_it_writes_takes_every_point_once(task, cut):
    node = Node(task)
    file = task / "work/events.out.tfevents.1.host.1.0"
    printed = task / "rank0.out"
    file.write_bytes(losses(0, 10))
    printed.write_bytes(b"".join(b"step %d acc=%d\n" % (step, step) for step in range(10)))
    node.look()
    spool = task / "rank0.metrics"
    size = spool.stat().st_size
    file.write_bytes(losses(0, 20))
    printed.write_bytes(b"".join(b"step %d acc=%d\n" % (step, step) for step in range(20)))
    node.look()
    with open(spool, "r+b") as torn:
        torn.truncate(size + cut)
    node.restart()
    node.look()
    node.look(final=True)
    assert sorted(step for _, step, _ in node.points("tensorboard")) == list(range(20))
    assert sorted(step for _, step, _ in node.points("stdout")) == list(range(20))


def test_what_output_meant_is_known_after_a_restart(task):
    data = (PRINTED / "tqdm.txt").read_bytes()
    whole = Node(task)
    (task / "rank0.out").write_bytes(data)
    whole.look(final=True)
    expected = whole.points("stdout")
    (task / "rank0.metrics").unlink()
    node = Node(task)
    for end in range(0, len(data), 1500):
        (task / "rank0.out").write_bytes(data[:end])
        node.look()
        node.restart()
    (task / "rank0.out").write_bytes(data)
    node.look(final=True)
    assert node.points("stdout") == expected


def test_a_file_that_is_cut_and_begun_again_is_read_again(task):
    node = Node(task)
    file = task / "work/events.out.tfevents.1.host.1.0"
    file.write_bytes(losses(0, 9))
    node.look()
    with open(file, "r+b") as cut:
        cut.truncate(0)
        cut.write(losses(5, 7))
    node.look()
    assert [step for _, step, _ in node.points("tensorboard")] == [*range(9), 5, 6]


def test_another_file_by_the_same_name_begins_at_its_first_byte(task):
    node = Node(task)
    file = task / "work/events.out.tfevents.1.host.1.0"
    file.write_bytes(losses(0, 3))
    node.look()
    fresh = task / "work/fresh"
    fresh.write_bytes(losses(10, 14))
    os.replace(fresh, file)
    node.look()
    node.restart()
    node.look()
    assert [step for _, step, _ in node.points("tensorboard")] == [0, 1, 2, 10, 11, 12, 13]


def test_a_file_that_goes_away_harms_nobody(task):
    node = Node(task)
    (task / "work/runs").mkdir()
    (task / "work/runs/events.out.tfevents.1.host.1.0").write_bytes(losses(0, 3))
    node.look()
    shutil.rmtree(task / "work/runs")
    node.look()
    node.look(final=True)
    assert len(node.points("tensorboard")) == 3


def test_files_from_before_the_attempt_are_not_its_own(task):
    old = task / "work/events.out.tfevents.1.host.1.0"
    old.write_bytes(losses(0, 3))
    os.utime(old, (1000, 1000))
    node = Node(task)
    node.look(final=True)
    assert node.lines() == []


def test_where_several_tasks_work_only_what_a_process_of_this_one_holds_is_its_own(task, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "events.out.tfevents.1.host.1.0").write_bytes(losses(0, 3))
    alone, crowded = Node(task, shared), Node(task, shared, shares=True)
    crowded.look(final=True)
    assert crowded.lines() == []
    alone.look(final=True)
    assert len(alone.points("tensorboard")) == 3


def test_a_large_file_is_read_in_several_looks(task, monkeypatch):
    monkeypatch.setattr(sources, "PIECE_BYTES", 1000)
    monkeypatch.setattr(sources, "ROUND_BYTES_MAX", 2000)
    node = Node(task)
    (task / "work/events.out.tfevents.1.host.1.0").write_bytes(losses(0, 500))
    node.look()
    assert node.collector.more
    assert 0 < len(node.points("tensorboard")) < 500
    while node.collector.more:
        node.look()
    assert [step for _, step, _ in node.points("tensorboard")] == list(range(500))


def test_output_that_is_printed_faster_than_it_is_read_is_passed_over(task, monkeypatch):
    monkeypatch.setattr(sources, "BEHIND_BYTES_MAX", 10_000)
    monkeypatch.setattr(sources, "PIECE_BYTES", 1000)
    node = Node(task)
    (task / "rank0.out").write_bytes(b"".join(b"step %d acc=%d\n" % (step, step) for step in range(5000)))
    node.look(final=True)
    assert node.points("stdout")[-1] == ("acc", 4999, 4999.0)
    assert node.collector.passed_over > 10_000


PREFIXES = {
    "a first run": ("runs/a", [], ""),
    "another file of it": ("runs/a", ["runs/a"], ""),
    "a part of the data": ("logs/fit/validation", ["logs/fit/train"], "validation/"),
    "a run below it": ("runs/a/loss_train", ["runs/a"], "loss_train/"),
    "a session of hyperparameters": ("runs/a/1795009819.293609", ["runs/a"], ""),
    "another run beside it": ("lightning_logs/version_1", ["lightning_logs/version_0"], "version_1/"),
}


@pytest.mark.parametrize("what", PREFIXES)
def test_runs_in_several_folders_stay_apart(what):
    folder, others, prefix = PREFIXES[what]
    assert prefix_of(folder, others) == prefix
