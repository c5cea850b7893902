"""Real agents and scripts that save as people do: in place, under fresh names, in several files, without a word.

The script keeps a journal of its own; what is cut, mixed or missing in what was stored is told by the bytes alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.home import Node, a_node, alive
from tests.waiting import wait_until

pytestmark = pytest.mark.real

SCRIPT = """
import hashlib, os, pickle, sys, time
habit, journal, size, step_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
place = os.environ["HEADWAY_CHECKPOINT_DIR"]

def note(*words):
    with open(journal, "a") as file:
        print(*words, file=file)

def body(step):
    content = os.urandom(size)
    return {"step": step, "sum": hashlib.sha256(content).hexdigest(), "content": content}

def write(name, data, mode="wb"):
    with open(os.path.join(place, name), mode) as file:
        for start in range(0, len(data), 1 << 18):
            file.write(data[start : start + (1 << 18)])
            file.flush()
            time.sleep(0.002)

def raw(step):
    content = os.urandom(size)
    return step.to_bytes(8, "big") + hashlib.sha256(content).digest() + size.to_bytes(8, "big") + content

def save(step):
    if habit == "pickle":
        write("snapshot.pkl", pickle.dumps(body(step)))
    elif habit == "raw":
        write("state.raw", raw(step))
    elif habit == "fresh":
        write(f"ckpt_{step:06d}.pkl", pickle.dumps(body(step)))
        if step > 15:
            os.unlink(os.path.join(place, f"ckpt_{step - 15:06d}.pkl"))
    elif habit == "two":
        write("model.pkl", pickle.dumps(body(step)))
        write("optimizer.pkl", pickle.dumps(body(step)))
    elif habit == "folder":
        os.makedirs(os.path.join(place, f"checkpoint-{step}"))
        for name in ("a.pkl", "b.pkl", ".hidden.pkl"):
            write(f"checkpoint-{step}/{name}", pickle.dumps(body(step)))
    elif habit == "grows":
        write("all.pkl", pickle.dumps(body(step)), "ab")
    elif habit == "open":
        global stream
        stream = globals().get("stream") or open(os.path.join(place, "all.pkl"), "ab")
        stream.write(pickle.dumps(body(step)))
        stream.flush()

for step in range(1, 10_000):
    time.sleep(step_s)
    print("step", step, flush=True)
    if step % 5 == 0:
        note("begins", step, os.getpid())
        save(step)
        note("saved", step, os.getpid())
"""
SIZES = {"pickle": 3_000_000, "raw": 3_000_000, "fresh": 2_000_000, "two": 1_500_000, "folder": 500_000}


@pytest.fixture(params=["folder", "http"])
def either(request: pytest.FixtureRequest, headway_home: Path, program: Path) -> Iterator[Node]:
    with a_node(headway_home, program, direct=request.param == "folder") as node:
        yield node


def stored(node: Node, key: str) -> bytes:
    return (node.storage / key).read_bytes() if node.storage else node.server.objects[key]


def files_of(node: Node, key: str) -> dict[str, bytes]:
    """What a restore from this manifest would bring."""
    manifest = json.loads(stored(node, key))
    return {
        file["path"]: b"".join(
            stored(node, part["key"])[part["offset"] : part["offset"] + part["size"]] for part in file["parts"]
        )
        for file in manifest["files"]
    }


def steps_in(content: bytes) -> list[int]:
    """The steps of the records in a file; fails where one is cut."""
    if content[:1] != b"\x80":
        size = int.from_bytes(content[40:48], "big")
        assert hashlib.sha256(content[48:]).digest() == content[8:40], f"{len(content)} of {size + 48} bytes"
        return [int.from_bytes(content[:8], "big")]
    found, rest = [], content
    while rest:
        record = pickle.loads(rest)
        assert hashlib.sha256(record["content"]).hexdigest() == record["sum"]
        found.append(record["step"])
        rest = rest[len(pickle.dumps(record)) :]
    return found


def newest_step(habit: str, files: dict[str, bytes]) -> int:
    """The step from which a script would go on; fails where what it needs is cut, mixed or missing."""
    if habit == "folder":
        newest = max({path.split("/")[0] for path in files}, key=lambda name: int(name.split("-")[1]))
        files = {path: content for path, content in files.items() if path.startswith(f"{newest}/")}
        assert {path.split("/")[1] for path in files} == {"a.pkl", "b.pkl", ".hidden.pkl"}
    if habit == "two":
        assert set(files) == {"model.pkl", "optimizer.pkl"}
    steps = [steps_in(content)[-1] for content in files.values()]
    if habit in ("two", "folder"):
        assert len(set(steps)) == 1, f"mixed: {steps}"
    return max(steps)


def journal_of(path: Path) -> list[tuple[str, int, int]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [(word, int(step), int(pid)) for word, step, pid in (line.split() for line in lines)]


def saved(path: Path) -> int:
    return max((step for word, step, _ in journal_of(path) if word == "saved"), default=0)


def train(node: Node, habit: str, journal: Path, task: str = "job1/1/0") -> str:
    step_s = 0.05 if habit in CONTENT_TELLS else 0.1  # On a machine that is busy what is printed is heard of late.
    return node.server.give(
        task, "python3", "-c", SCRIPT, habit, str(journal), str(SIZES.get(habit, 1000)), str(step_s)
    )


def check(node: Node, habit: str, told: list[dict[str, Any]]) -> int:
    """Every checkpoint that was ever told of is whole; returns the step of the newest."""
    newest = 0
    for each in told:
        step = newest_step(habit, files_of(node, each["key"]))
        assert each["step"] >= newest, f"told as {each['step']} after {newest}"
        # Where the step is only printed, what is printed in the moment after the close counts too, which is longer on
        # a machine that is busy: but never so much that it is taken for the next save.
        assert 0 <= each["step"] - step <= (0 if habit in CONTENT_TELLS else 4), (
            f"told as {each['step']}, and is {step}"
        )
        newest = step
    return newest


CONTENT_TELLS = ("pickle", "fresh", "two", "folder")
HABITS = ["pickle", "raw", "fresh", "two", "folder", "grows", "open"]


@pytest.mark.parametrize("habit", HABITS)
def test_a_rank_killed_at_any_time_leaves_its_last_whole_save(either: Node, tmp_path: Path, habit: str) -> None:
    node, journal = either, tmp_path / "journal"
    chance = random.Random(f"{habit} {os.environ.get('HEADWAY_TEST_SEED', 1)}")
    node.start()
    task = train(node, habit, journal)
    wait_until(lambda: len(node.server.checkpoints) >= 3, every_s=0.01, what="three checkpoints")
    begun = len(journal_of(journal))
    wait_until(lambda: len(journal_of(journal)) > begun + chance.randrange(4), every_s=0.001)
    os.kill(journal_of(journal)[0][2], signal.SIGKILL)
    assert node.server.outcome(task)["signal"] == 9
    kept = check(node, habit, node.server.checkpoints)
    # A format that nobody knows proves nothing in the second before the death of its writer.
    least = saved(journal) - (35 if habit == "raw" else 5 if habit == "two" else 0)
    assert kept >= least, (kept, journal_of(journal)[-3:])


@pytest.mark.parametrize("habit", HABITS)
def test_a_rank_that_ends_on_notice_leaves_its_last_save(either: Node, tmp_path: Path, habit: str) -> None:
    node, journal = either, tmp_path / "journal"
    node.start()
    task = train(node, habit, journal)
    wait_until(lambda: len(node.server.checkpoints) >= 2, every_s=0.01, what="two checkpoints")
    node.server.tell(task, "stop", cause="preempted", grace_s=20.0)
    node.server.outcome(task)
    assert check(node, habit, node.server.checkpoints) >= saved(journal) - (35 if habit == "raw" else 0)


@pytest.mark.parametrize("habit", ["pickle", "fresh", "folder"])
def test_what_was_written_while_the_agent_was_dead_is_looked_into(node: Node, tmp_path: Path, habit: str) -> None:
    journal = tmp_path / "journal"
    node.start()
    task = train(node, habit, journal)
    wait_until(lambda: len(node.server.checkpoints) >= 2, every_s=0.01, what="two checkpoints")
    node.kill_agent()
    before = saved(journal)
    wait_until(lambda: saved(journal) >= before + 10, every_s=0.01)
    rank = journal_of(journal)[0][2]
    os.kill(rank, signal.SIGKILL)
    wait_until(lambda: not alive(rank), every_s=0.01)
    node.start()
    assert node.server.outcome(task)["signal"] == 9
    kept = check(node, habit, node.server.checkpoints)
    cut = journal_of(journal)[-1][0] == "begins"
    assert kept >= (saved(journal) if habit != "pickle" or not cut else before), journal_of(journal)[-3:]
