"""The control thread lives on whatever its callers do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from headway.control.jobs.commands import Stop, Submit
from headway.control.leader.cycle import Cycle
from headway.control.leader.thread import ControlThread
from headway.core.errors import BadInput, NotFound, Unavailable
from headway.core.model import Pool, State
from headway.core.protocol import read_sync
from headway.settings import Settings
from headway.store.memory.store import MemoryStore
from tests.builders import a_spec
from tests.control.leading import Leader
from tests.waiting import wait_until


@pytest.fixture
def control() -> Iterator[ControlThread]:
    cycle = Cycle(MemoryStore(), Settings(), [Pool("local", "local")], 0, time.monotonic(), lambda said: None)
    control = ControlThread(cycle, lambda: None)
    control.start()
    yield control
    control.stop()


def submit(job: str) -> Submit:
    return Submit((a_spec(),), "ada", lambda: job)


def test_a_command_is_done_and_saved(control: ControlThread) -> None:
    assert control.do(submit("j1")).result(timeout=300) == ["j1"]
    assert control.cycle.store.jobs(["j1"])


def test_a_caller_who_goes_away_while_his_command_waits_harms_nobody(control: ControlThread) -> None:
    class Slow:
        def apply(self, tx: Any) -> None:
            released.wait(300)

    released = threading.Event()

    async def give_up() -> None:
        waiting = asyncio.ensure_future(asyncio.wrap_future(control.do(submit("j1"))))
        await asyncio.sleep(0)
        waiting.cancel()

    slow = control.do(Slow())
    asyncio.run(give_up())
    released.set()
    slow.result(timeout=300)
    assert control.do(submit("j2")).result(timeout=300) == ["j2"]
    assert control.alive
    assert len(control.cycle.store.jobs(["j1", "j2"])) == 2


ME = {"node": "n1", "pool": "local", "boot_id": "b", "agent_epoch": 1, "protocol": 1}
UNREADABLE: dict[str, dict[str, Any]] = {
    "empty": {},
    "bare": {"node": "n1"},
    "no number": {**ME, "agent_epoch": "x"},
    "no patience": {**ME, "wait_s": "x"},
    "no list": {**ME, "reports": 7},
    "no report": {**ME, "reports": [7]},
    "no task": {**ME, "reports": [{"task": "a/b", "phase": "claimed"}]},
    "no range": {**ME, "logs": [{"task": "j1/1/0"}]},
    "no facts": {**ME, "full": True, "facts": {"cpus": "many"}},
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_sync_that_cannot_be_read_is_refused_and_nothing_else_happens(
    control: ControlThread, body: dict[str, Any]
) -> None:
    with pytest.raises(Exception) as refused:
        control.sync(read_sync(body)).result(timeout=300)
    assert not isinstance(refused.value, TimeoutError)
    assert control.alive
    assert control.do(submit("j1")).result(timeout=300) == ["j1"]


def test_a_command_that_is_refused_says_why(control: ControlThread) -> None:
    with pytest.raises(NotFound, match='no job "nobody"'):
        control.do(Stop("nobody", "ada")).result(timeout=300)


def test_after_the_stop_nothing_is_taken(control: ControlThread) -> None:
    control.stop()
    with pytest.raises(Unavailable, match="stopping"):
        control.do(submit("j1"))


def test_an_agent_of_another_protocol_is_told_so(control: ControlThread) -> None:
    with pytest.raises(BadInput, match="protocol"):
        control.sync(read_sync({"node": "n1", "protocol": 99})).result(timeout=300)


def test_in_a_stream_of_submits_several_share_one_plan_and_none_is_forgotten(control: ControlThread) -> None:
    facts = {"cpus": 8, "memory_bytes": 2**40}
    control.sync(read_sync({**ME, "full": True, "facts": facts})).result(timeout=300)
    for number in range(20):
        control.do(submit(f"j{number}")).result(timeout=300)
    store = control.cycle.store
    wait_until(lambda: sum(job.state is State.STARTING for job in store.unfinished()) == 8)


def test_a_turn_without_placements_leaves_them_for_the_next() -> None:
    leader = Leader(MemoryStore())
    leader.join()
    leader.cycle.turn([], leader.now, leader.now)
    leader.do(submit("j1")).result()
    assert leader.cycle.turn([], leader.now, leader.now, place=False)
    assert leader.cycle.book.jobs["j1"].state is State.QUEUED
    leader.cycle.turn([], leader.now, leader.now)
    assert leader.cycle.book.jobs["j1"].state is State.STARTING


def test_a_node_that_has_heard_a_later_leader_is_told_of_in_the_log_once(control: ControlThread) -> None:
    """By a leader that leads for certain: who was replaced and does not know it yet has met nothing strange."""
    with structlog.testing.capture_logs() as said:
        control._sure = lambda: False
        with pytest.raises(Unavailable, match="may no longer lead"):
            control.sync(read_sync({**ME, "leader_epoch": 77})).result(timeout=300)
        assert not [each for each in said if "a later leader" in each["event"]]
        control._sure = lambda: True
        for _ in range(3):
            control.sync(read_sync({**ME, "leader_epoch": 77})).result(timeout=300)
    (line,) = [each for each in said if "a later leader than this server" in each["event"]]
    assert (line["node"], line["its_leader"], line["epoch"]) == ("n1", 77, control.cycle.epoch)
    assert "restored one, or a copy" in line["event"]
