"""A node of an order: which of the platform's signals means what, in words for people."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from headway_agent.decide.decide import (
    Held,
    KeeperListed,
    NodeState,
    NoticeHeard,
    Spawned,
    TaskOver,
    decide,
)
from headway_agent.entrypoints import ordered_node
from headway_agent.files.watch import machine_why
from headway_agent.node.directory import NodeDir
from tests.agent.spoken import answered, sync_of

SAID = {"node": "lab-1-0", "pool": "lab", "urls": "http://127.0.0.1:1", "notice_s": 60.0, "grace_s": 20.0}


def a_node(place: Path, monkeypatch: pytest.MonkeyPatch, **said: Any) -> ordered_node.OrderedNode:
    node = ordered_node.OrderedNode(NodeDir(str(place)), {**SAID, **said}, {})
    (place / "tasks" / "j1-1-0").mkdir(parents=True)
    node.agent = 1
    monkeypatch.setattr("headway_agent.entrypoints.ordered_node.os.kill", lambda *_: None)
    return node


@pytest.mark.parametrize(
    ("life_s", "number", "why"),
    [
        (50.0, signal.SIGUSR1, ordered_node.LIMIT),
        (86400.0, signal.SIGUSR1, ordered_node.EVICTED),
        (None, signal.SIGUSR1, ordered_node.WARNED),
        (86400.0, signal.SIGTERM, ordered_node.ENDED),
    ],
)
def test_the_notice_says_why_the_machine_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, life_s: float | None, number: int, why: str
) -> None:
    node = a_node(tmp_path, monkeypatch, life_s=life_s)
    node.began_s = time.monotonic()
    node._hear(number)
    assert json.loads((tmp_path / "notice.json").read_text())["why"] == why
    assert machine_why(str(tmp_path)) == why


def test_a_machine_of_which_nobody_says_why_it_goes_just_goes(tmp_path: Path) -> None:
    assert machine_why(str(tmp_path)) == ""


def test_the_reason_travels_with_the_notice_and_with_the_end_of_each_task() -> None:
    state = NodeState(node="n1", pool="lab", boot_id="b")
    decide(state, KeeperListed([]), 0.0)
    seq = sync_of(state, {}, 0.0)["seq"]
    duty = {"task": "j1/1/0", "do": "claim", "argv": ["true"]}
    decide(state, answered({"leader_epoch": 1, "lease_left_s": 600.0, "duties": [duty]}, seq), 0.0)
    decide(state, Held("j1/1/0", "h", 1), 0.0)
    seq = sync_of(state, {}, 0.1)["seq"]
    decide(
        state,
        answered({"leader_epoch": 1, "said": 1, "lease_left_s": 600.0, "duties": [{**duty, "do": "go"}]}, seq),
        0.2,
    )
    decide(state, Spawned("j1/1/0", 1.0), 0.3)
    decide(state, NoticeHeard("reclaimed", 20.0, ordered_node.LIMIT), 1.0)
    assert sync_of(state, {}, 1.0)["notice"] == {
        "cause": "reclaimed",
        "seconds_left": 20.0,
        "why": ordered_node.LIMIT,
    }
    decide(state, TaskOver("j1/1/0", {}, "", False, {}), 2.0)
    assert state.tasks["j1/1/0"].outcome.detail == ordered_node.LIMIT  # type: ignore[union-attr]
