"""What other threads see of the leader: what is saved, all of it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from headway.control.cluster.commands import SetLicences, SetPool
from headway.control.jobs.commands import Submit
from headway.core.errors import Unavailable
from headway.core.model import State
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Batch, Committed
from tests.builders import a_spec
from tests.control.leading import Leader


class MoodyStore(MemoryStore):
    """A store that takes nothing while it is in a mood."""

    moody = False

    def commit(self, batch: Batch, epoch: int) -> Committed:
        if self.moody:
            raise Unavailable("not now")
        return super().commit(batch, epoch)


def a_leader() -> tuple[Leader, MoodyStore]:
    store = MoodyStore()
    return Leader(store), store


def submitted(leader: Leader, *names: str, **fields: Any) -> None:
    specs = tuple(a_spec(name=name, **fields) for name in names)
    leader.do(Submit(specs, "ada", iter(names).__next__, force=True)).result()


def test_who_is_answered_sees_what_was_saved_for_him() -> None:
    leader, _ = a_leader()
    leader.join()
    submitted(leader, "j1")
    shown = leader.cycle.snapshot
    assert shown.jobs["j1"].spec.name == "j1"
    assert shown.nodes["n1"].granted.cpus == 8.0


def test_a_snapshot_stays_what_it_was() -> None:
    leader, _ = a_leader()
    leader.join()
    before = leader.cycle.snapshot
    submitted(leader, "j1")
    leader.tick()
    after = leader.cycle.snapshot
    assert "j1" not in before.jobs
    assert not before.jobs_on("n1")
    assert after.jobs_on("n1").keys() == {"j1"}
    job = after.active("j1")
    assert job is not None
    assert job.state is State.STARTING


def test_what_was_not_saved_is_never_seen() -> None:
    leader, store = a_leader()
    leader.join()
    submitted(leader, "j1", cpus=99.0)
    leader.do(SetLicences({"matlab": 1})).result()
    before = leader.cycle.snapshot
    store.moody = True
    with pytest.raises(Unavailable):
        leader.do(SetPool("lab", {"engine": "local"})).result()
    with pytest.raises(Unavailable):
        submitted(leader, "j2")
    shown = leader.cycle.snapshot
    assert (dict(shown.jobs), shown.pools, shown.licences) == (dict(before.jobs), before.pools, {"matlab": 1})
    assert shown.troubles["store"] == "not now"
    store.moody = False
    submitted(leader, "j2")
    leader.tick()
    assert set(leader.cycle.snapshot.jobs) == {"j1", "j2"}
    assert not leader.cycle.snapshot.troubles


def test_a_turn_in_which_nothing_changed_makes_no_new_one() -> None:
    leader, _ = a_leader()
    leader.join()
    submitted(leader, "j1", cpus=99.0)
    shown = leader.cycle.snapshot
    leader.cycle.turn([], leader.now, leader.now)
    assert leader.cycle.snapshot is shown
