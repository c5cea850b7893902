"""A store that cannot be read for a moment: nobody is told what is not so, nothing is lost, and the leader leads on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headway.control.access.audit import Recorded, Recording
from headway.control.cluster.commands import SetQueue
from headway.control.jobs.commands import Stop, Submit
from headway.control.leader.cycle import Cycle
from headway.control.leader.engine_calls import Saw
from headway.control.leader.thread import ControlThread
from headway.core.access.actor import Actor
from headway.core.errors import Unavailable
from headway.core.model import Pool
from headway.core.protocol import read_sync
from headway.engines.protocol import Sightings
from headway.settings import Settings
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Batch, Committed, LeaderLost
from tests.builders import a_spec
from tests.control.leading import Leader
from tests.control.nodes.test_file_reports import Played

ME = {"protocol": 1, "node": "n1", "pool": "local", "boot_id": "b", "agent_epoch": 1, "wait_s": 0}
FACTS = {"cpus": 8, "memory_bytes": 2**40}


class Flaky(MemoryStore):
    """A store of which some calls fail."""

    failing: frozenset[str] = frozenset()

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "failing"):
            raise Unavailable("the database is away")
        return object.__getattribute__(self, name)

    def fails(self, *names: str) -> None:
        self.failing = frozenset(names)


@pytest.fixture
def store() -> Flaky:
    return Flaky()


@pytest.fixture
def control(store: Flaky) -> Iterator[ControlThread]:
    cycle = Cycle(store, Settings(), [Pool("local", "local")], 0, time.monotonic(), lambda said: None)
    thread = ControlThread(cycle, lambda: None)
    thread.start()
    yield thread
    thread.stop()


def test_an_answer_that_cannot_be_read_fails_and_the_thread_goes_on(control: ControlThread, store: Flaky) -> None:
    control.sync(read_sync({**ME, "seq": 1, "full": True, "facts": FACTS})).result(timeout=30)
    control.do(Submit((a_spec(),), "ada", lambda: "j1")).result(timeout=30)
    store.fails("log_ends")
    with pytest.raises(Unavailable):
        control.sync(read_sync({**ME, "seq": 2, "full": True, "facts": FACTS})).result(timeout=30)
    store.fails()
    assert control.sync(read_sync({**ME, "seq": 3, "full": True, "facts": FACTS})).result(timeout=30).duties
    assert control.alive


def test_a_plan_that_cannot_be_made_is_made_later() -> None:
    played = Played()
    job = played.start(retries=1)
    played.save(f"{job}/1/0", 5)
    played.end(f"{job}/1/0")
    played.leader.cycle.book.trail.forget(job)
    played.store.checkpoints = _away  # type: ignore[method-assign]
    played.leader.now += 3600.0
    played.leader.cycle.turn([], played.leader.now, played.leader.now)
    assert played.job(job).number == 1
    del played.store.checkpoints
    played.leader.tick()
    assert played.job(job).number == 2
    assert played.duty(f"{job}/2/0")["resume"]["step"] == 5


def _away(*_: object) -> Any:
    raise Unavailable("the database is away")


def test_a_checkpoint_is_not_taken_for_stored_when_the_store_could_not_be_asked() -> None:
    played = Played()
    job = played.start()
    played.leader.cycle.book.trail.forget(job)
    played.store.checkpoints = _away  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        played.save(f"{job}/1/0", 5)
    del played.store.checkpoints
    played.save(f"{job}/1/0", 5)
    assert [each.step for each in played.store.checkpoints(job)] == [5]


def test_a_change_that_could_not_be_saved_is_not_taken_for_done_when_it_is_asked_for_again(store: Flaky) -> None:
    leader = Leader(store)
    store.fails("commit", "jobs", "unfinished", "nodes", "pools")
    for _ in range(2):
        with pytest.raises(Unavailable):
            leader.do(SetQueue("night", {}, "ada")).result()
    store.fails()
    leader.do(SetQueue("night", {}, "ada")).result()
    assert "night" in [queue.name for queue in store.queues()]


def test_output_that_could_not_be_saved_is_taken_when_it_is_told_again(store: Flaky) -> None:
    """The end of one output was remembered before the store was asked about the next, and could not be."""
    leader = Leader(store)
    leader.join()
    numbers = iter(("j1", "j2"))
    leader.do(Submit((a_spec(), a_spec()), "ada", lambda: next(numbers))).result()
    leader.cycle.turn([], leader.now, leader.now)
    leader.sync(reports=[{"task": f"{job}/1/0", "phase": "running"} for job in ("j1", "j2")])
    leader.sync(logs=[a_piece("j1", 0, 5)])
    told = {"logs": [a_piece("j1", 5, 8), a_piece("j2", 0, 5)]}
    store.fails("log_ends", "unfinished", "attempts", "jobs")
    with pytest.raises(Unavailable):
        leader.sync(**told)
    store.fails()
    leader.cycle.doubtful = False  # As where the store can be read only for what an agent's call asks.
    leader.sync(**told, reports=[{"task": "j1/1/0", "phase": "ended", "outcome": {"exit_code": 0}}])
    assert [(piece.start, piece.end) for piece in store.logs("j1")] == [(0, 5), (5, 8)]


def a_piece(job: str, start: int, end: int) -> dict[str, Any]:
    place = {"rank": 0, "stream": "out", "key": f"logs/n1/{job}-{start}", "key_offset": 0}
    return {"task": f"{job}/1/0", "start": start, "end": end, **place}


def test_engines_are_asked_only_by_who_leads() -> None:
    store = MemoryStore()
    lead = store.take_lead("a", "", 0.0, 1.0)
    assert lead is not None
    pool = Pool("local", "local", nodes_min=1)
    cycle = Cycle(store, Settings(), [pool], lead.epoch, 0.0, lambda said: None)
    leader = Leader(store)
    leader.cycle = cycle
    assert leader.do(Saw(pool, Sightings({}), {})).result()
    store.take_lead("b", "", 2.0, 1.0)
    with pytest.raises(LeaderLost):
        leader.do(Saw(pool, Sightings({}), {})).result()


def test_a_change_that_somebody_else_was_faster_than_is_written_down_once() -> None:
    class Late(MemoryStore):
        """Somebody else changes the job just before the commit."""

        meddles = False

        def commit(self, batch: Batch, epoch: int | None = None) -> Committed:
            if self.meddles:
                self.meddles = False
                (job,) = self.jobs(["j1"])
                self._jobs["j1"] = self._open["j1"] = replace(job, version=job.version + 1)
            return super().commit(batch, epoch)

    store = Late()
    leader = Leader(store)
    leader.do(Submit((a_spec(),), "ada", lambda: "j1")).result()
    store.meddles = True
    leader.do(Recorded(Stop("j1", "ada", None), Recording(Actor("user", "ada"), "cancel"))).result()
    assert [entry.what for entry in store.audit(0.0, "", 10)] == ["cancel"]
