"""A node that is given back by hand: closed first, lost after the engine's word, in the life that was meant."""

from __future__ import annotations

import pytest

from headway.control.jobs.commands import Submit
from headway.control.nodes.release import ReleasedByHand, ReleaseNode
from headway.core.errors import Conflict
from headway.core.model import State
from headway.store.memory.store import MemoryStore
from tests.builders import a_spec
from tests.control.leading import Leader

FACTS = {"cpus": 8.0, "memory_bytes": 2**40}


@pytest.fixture
def leader() -> Leader:
    made = Leader(MemoryStore())
    made.join()
    return made


def test_nothing_is_placed_on_a_node_between_the_wish_and_its_end(leader: Leader) -> None:
    closed = leader.do(ReleaseNode("n1", "ada")).result()
    leader.do(Submit((a_spec(),), "ada", lambda: "j1")).result()
    leader.tick()
    assert leader.cycle.book.jobs["j1"].state is State.QUEUED
    leader.do(ReleasedByHand(closed)).result()
    assert "n1" not in leader.cycle.book.nodes


def test_one_of_the_same_name_that_has_come_since_stays_and_is_open(leader: Leader) -> None:
    closed = leader.do(ReleaseNode("n1", "ada")).result()
    leader.sync(seq=1, full=True, facts=FACTS, boot_id="after", agent_epoch=2)
    leader.do(ReleasedByHand(closed)).result()
    node = leader.cycle.book.nodes["n1"]
    assert (node.boot_id, node.cordoned) == ("after", False)


def test_a_forced_release_costs_the_job_an_attempt_free_of_charge(leader: Leader) -> None:
    leader.do(Submit((a_spec(),), "ada", lambda: "j1")).result()
    leader.tick()
    leader.sync(seq=2, leader_epoch=0, reports=[{"task": "j1/1/0", "phase": "claimed"}])
    with pytest.raises(Conflict, match="in use by j1"):
        leader.do(ReleaseNode("n1", "ada")).result()
    leader.do(ReleasedByHand(leader.do(ReleaseNode("n1", "ada", force=True)).result())).result()
    job = leader.cycle.book.jobs["j1"]
    assert (job.state, job.retries.platform, job.retries.user) == (State.QUEUED, 1, 0)
