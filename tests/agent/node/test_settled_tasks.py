"""What tasks left, across a restart of the machine: only what was noted to be on the disk is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_agent.node import settled_tasks
from headway_agent.node.directory import NodeDir
from tests.waiting import wait_until


@pytest.fixture
def node_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeDir:
    made = NodeDir(str(tmp_path / "n1"))
    made.make()
    monkeypatch.setenv("HEADWAY_AGENT_BOOT_ID", "first")
    assert settled_tasks.boot_noted(made) == "first"
    return made


def task(node_dir: NodeDir, key: str) -> str:
    Path(node_dir.task(key)).mkdir()
    return node_dir.task(key)


def test_after_a_restart_only_what_was_on_the_disk_is_whole(node_dir: NodeDir, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, young = task(node_dir, "a/1/0"), task(node_dir, "b/1/0")
    settled_tasks.settle([whole])
    assert settled_tasks.boot_noted(node_dir) == "first"
    assert not settled_tasks.is_torn(young), "only its agent was started anew"
    monkeypatch.setenv("HEADWAY_AGENT_BOOT_ID", "second")
    settled_tasks.boot_noted(node_dir)
    later = task(node_dir, "c/1/0")
    settled_tasks.boot_noted(node_dir)
    assert [settled_tasks.is_torn(each) for each in (whole, young, later)] == [False, True, False]


def power_gone(*_: object) -> None:
    raise OSError("power")


def test_an_agent_that_dies_while_it_marks_what_is_torn_leaves_the_rest_to_the_next(
    node_dir: NodeDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    young = task(node_dir, "b/1/0")
    monkeypatch.setenv("HEADWAY_AGENT_BOOT_ID", "second")
    with monkeypatch.context() as dying:
        dying.setattr(settled_tasks, "write_durably", power_gone)
        with pytest.raises(OSError, match="power"):
            settled_tasks.boot_noted(node_dir)
    settled_tasks.boot_noted(node_dir)
    assert settled_tasks.is_torn(young)


def test_many_are_settled_at_once_and_one_that_is_gone_harms_nobody(
    node_dir: NodeDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(settled_tasks.os, "sync", lambda: syncs.append(1))
    places = [task(node_dir, f"{number}/1/0") for number in range(50)]
    settler = settled_tasks.Settler()
    for place in [*places, "/nowhere/at/all", *places]:
        settler.ask(place)
    wait_until(lambda: all(Path(place, settled_tasks.SETTLED).exists() for place in places), what="all to be noted")
    assert len(syncs) < len(places)
