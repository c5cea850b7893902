"""Calls of agents that come late, twice or from an earlier life, and what they may no longer do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.control.jobs.commands import Submit
from headway.control.leader.engine_calls import Saw
from headway.control.nodes.sync import LateCall, StaleAgent
from headway.core.model import Job, Pool, State
from headway.core.protocol import read_sync
from headway.engines.protocol import Sight, Sighting, Sightings
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Store
from tests.builders import a_spec
from tests.control.leading import Leader

FACTS = {"cpus": 8.0, "memory_bytes": 2**40}
GONE = Sightings({"n1": Sighting(Sight.GONE, "the machine is off")})


def a_leader_with_a_running_job(store: Store | None = None) -> Leader:
    leader = Leader(store or MemoryStore())
    leader.sync(seq=1, full=True, leader_epoch=0, facts=FACTS)
    leader.do(Submit((a_spec(),), "ada", lambda: "j1"))
    leader.tick()
    leader.sync(seq=2, leader_epoch=0, reports=[{"task": "j1/1/0", "phase": "claimed"}])
    assert job_of(leader).state is State.RUNNING
    return leader


def job_of(leader: Leader) -> Job:
    return leader.cycle.store.jobs(["j1"])[0]


def reply_to(leader: Leader, **body: Any) -> dict[str, Any]:
    replies: list[dict[str, Any]] = []
    said = {"protocol": 1, "node": "n1", "pool": "local", "boot_id": "b", "agent_epoch": 1, **body}
    sync = leader.cycle.heard(read_sync(said), leader.now)
    leader.do(sync).result()
    leader.cycle.reply(sync, leader.now, leader.now, lambda reply: replies.append(reply.show()))
    return replies[0]


def test_a_full_report_that_was_overtaken_proves_nothing() -> None:
    leader = a_leader_with_a_running_job()
    with pytest.raises(LateCall):
        leader.sync(seq=1, full=True, leader_epoch=0, facts=FACTS)
    assert job_of(leader).state is State.RUNNING


def test_a_full_report_from_before_this_leader_answered_proves_nothing() -> None:
    leader = a_leader_with_a_running_job()
    leader.sync(seq=3, full=True, leader_epoch=-1, facts=FACTS)
    assert job_of(leader).state is State.RUNNING
    leader.sync(seq=4, full=True, leader_epoch=0, facts=FACTS)
    assert job_of(leader).retries.platform == 1


def test_a_call_from_an_earlier_boot_ends_nothing() -> None:
    leader = a_leader_with_a_running_job()
    with pytest.raises(StaleAgent):
        leader.sync(seq=9, full=True, leader_epoch=0, facts=FACTS, boot_id="before", agent_epoch=0)
    assert job_of(leader).state is State.RUNNING


def test_a_new_boot_is_proof_that_the_old_one_is_over() -> None:
    leader = a_leader_with_a_running_job()
    leader.sync(seq=1, full=True, leader_epoch=-1, facts=FACTS, boot_id="after", agent_epoch=2)
    assert job_of(leader).retries.platform == 1


def test_a_node_that_was_given_up_is_asked_who_it_is() -> None:
    leader = Leader(MemoryStore())
    leader.sync(seq=1, full=True, leader_epoch=0, facts=FACTS)
    pool = Pool("local", "local", nodes_min=1)
    leader.do(Saw(pool, GONE, dict(leader.cycle.book.nodes))).result()
    assert "n1" not in leader.cycle.book.nodes
    reply = reply_to(leader, seq=2, leader_epoch=0, reports_digest="0" * 16, duties_digest="0" * 16)
    assert reply["resend"]
    assert reply["lease_left_s"] is None


def test_a_node_keeps_the_longer_lease_that_it_was_granted_when_its_pool_gets_a_shorter_one() -> None:
    """It may never hear of the shorter one, and its ranks run on until the longer one is over."""
    leader = a_leader_with_a_running_job()
    pools = leader.cycle.book.house.pools
    pools["local"] = replace(pools["local"], lease_s=200.0)
    reply_to(leader, seq=9, leader_epoch=0, reports_digest="0" * 16, duties_digest="0" * 16)
    pools["local"] = replace(pools["local"], lease_s=60.0)
    for _ in range(150):
        leader.tick()
    assert job_of(leader).state is State.RUNNING
    for _ in range(100):
        leader.tick()
    assert job_of(leader).retries.platform == 1


def test_a_task_that_nobody_wants_any_more_is_gone_whoever_brings_it_up() -> None:
    leader = Leader(MemoryStore())
    leader.sync(seq=1, full=True, leader_epoch=0, facts=FACTS)
    report = {"task": "j9/1/0", "phase": "running"}
    assert reply_to(leader, seq=2, leader_epoch=0, reports=[report], duties_digest="0" * 16)["gone"] == ["j9/1/0"]


def test_a_look_from_before_the_node_came_back_ends_nothing() -> None:
    leader = Leader(MemoryStore())
    leader.sync(seq=1, full=True, leader_epoch=0, facts=FACTS)
    before = dict(leader.cycle.book.nodes)
    leader.sync(seq=1, full=True, leader_epoch=0, facts=FACTS, boot_id="after", agent_epoch=2)
    leader.do(Saw(Pool("local", "local", nodes_min=1), GONE, before)).result()
    assert leader.cycle.book.nodes["n1"].boot_id == "after"
