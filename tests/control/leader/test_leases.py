"""A pool's lease that is lowered: what was granted before counts until it is over, whoever leads meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.control.cluster.commands import SetPool
from headway.control.jobs.commands import Why
from headway.control.server.config_file import Given, set_up
from headway.core.errors import BadInput, Unavailable
from headway.core.model import Job, Pool, State
from headway.core.units import show_duration
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Batch, Setup, Store
from tests.control.leading import Leader
from tests.control.test_calls import FACTS, a_leader_with_a_running_job, reply_to
from tests.control.test_store_away import Flaky

POOL = Pool("local", "local", nodes_min=1, lease_s=200.0)


def a_store() -> Store:
    store = MemoryStore()
    store.commit(Batch(setup=Setup(pools=[POOL])))
    return store


def lease(leader: Leader, lease_s: float) -> Pool:
    pool: Pool = leader.do(SetPool("local", {"lease": lease_s})).result()
    return pool


def granted(leader: Leader, seq: int) -> float:
    reply = reply_to(leader, seq=seq, leader_epoch=0, reports_digest="0" * 16, duties_digest="0" * 16)
    left_s: float = reply["lease_left_s"]
    return left_s


def job_in(store: Store) -> Job:
    return store.jobs(["j1"])[0]


def wait(leader: Leader, for_s: int) -> None:
    for _ in range(for_s):
        leader.tick()


def a_lowered_lease() -> tuple[Leader, Store]:
    """A job runs on a node that was granted 200 s, and that has not heard that 60 s are enough now."""
    leader = a_leader_with_a_running_job(a_store())
    assert granted(leader, 9) == 200.0
    assert lease(leader, 60.0).lease_held_s == 200.0
    return leader, leader.cycle.store


def test_the_next_leader_counts_the_longer_lease_too() -> None:
    _, store = a_lowered_lease()
    after = Leader(store)
    wait(after, 190)
    assert job_in(store).state is State.RUNNING
    wait(after, 20)
    assert job_in(store).retries.platform == 1


def test_what_the_last_leader_granted_counts_when_the_next_one_lowers_the_lease() -> None:
    store = a_store()
    granted(a_leader_with_a_running_job(store), 9)
    after = Leader(store)
    lease(after, 60.0)
    wait(after, 190)
    assert job_in(store).state is State.RUNNING
    wait(after, 20)
    assert job_in(store).retries.platform == 1


def test_a_lease_that_the_file_lowers_at_a_start_counts_until_it_is_over(tmp_path: Path) -> None:
    store = a_store()
    a_leader_with_a_running_job(store)
    for _ in range(2):
        set_up(store, Given(pools=(replace(POOL, lease_s=60.0),)), 0, tmp_path / "from-file.json")
    after = Leader(store)
    wait(after, 190)
    assert job_in(store).state is State.RUNNING
    wait(after, 20)
    assert job_in(store).retries.platform == 1


def test_once_it_is_over_nobody_counts_it_any_more() -> None:
    leader, store = a_lowered_lease()
    for second in range(220):
        if second % 20 == 0:
            assert granted(leader, 10 + second) == 60.0
        leader.tick()
    assert [pool.lease_held_s for pool in store.pools()] == [0.0]
    after = Leader(store)
    wait(after, 55)
    assert job_in(store).state is State.RUNNING
    wait(after, 20)
    assert job_in(store).retries.platform == 1


def test_a_lease_that_went_up_and_down_meanwhile_is_counted_from_its_last_change() -> None:
    leader, store = a_lowered_lease()
    wait(leader, 100)
    lease(leader, 150.0)
    assert granted(leader, 10) == 150.0
    lease(leader, 60.0)
    wait(leader, 130)
    assert [pool.lease_held_s for pool in store.pools()] == [200.0]
    wait(leader, 90)
    assert [pool.lease_held_s for pool in store.pools()] == [0.0]


def test_a_pool_that_is_set_to_what_it_is_stays_as_it_is_and_shows_nothing_of_it() -> None:
    leader, _ = a_lowered_lease()
    pool = leader.cycle.book.house.pools["local"]
    assert lease(leader, 60.0) == pool
    assert leader.cycle.book.house.pools["local"] is pool
    assert lease(leader, 300.0).lease_held_s == 0.0
    with pytest.raises(BadInput, match="lease_held_s"):
        leader.do(SetPool("local", {"options": {"lease_held_s": 1}})).result()


def test_a_longer_lease_that_could_not_be_saved_is_not_granted() -> None:
    store = Flaky()
    leader = Leader(store)
    lease(leader, 60.0)
    leader.sync(seq=1, full=True, leader_epoch=0, facts=FACTS)
    store.fails("commit", "pools")
    with pytest.raises(Unavailable):
        lease(leader, 200.0)
    assert granted(leader, 2) == 60.0


def test_why_says_that_a_node_is_silent_since_when_and_what_follows() -> None:
    leader = a_leader_with_a_running_job(a_store())
    granted(leader, 9)
    why = lambda: leader.do(Why("j1")).result()["sentence"]  # noqa: E731
    assert why() == "runs: attempt 1 on n1"
    wait(leader, 40)
    said = why()
    assert said.startswith("runs: attempt 1 on n1; but nothing was heard of n1 for 40 s: its task may well go on there")
    left_s = leader.cycle.book.silent["n1"][1] - leader.now
    assert f"if that lasts {show_duration(left_s)} more, the task is given up and tried again elsewhere" in said
    wait(leader, int(left_s) - 1)
    assert job_in(leader.cycle.store).state is State.RUNNING
    wait(leader, 3)
    assert job_in(leader.cycle.store).state is not State.RUNNING
    assert "silent" not in why()


def test_why_says_nothing_of_it_once_the_node_is_heard_again() -> None:
    leader = a_leader_with_a_running_job(a_store())
    granted(leader, 9)
    wait(leader, 40)
    granted(leader, 10)
    assert leader.do(Why("j1")).result()["sentence"] == "runs: attempt 1 on n1"
