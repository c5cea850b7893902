"""A single task begins when its node hears of it: the real cycle and the real agent's decisions, without a `go`."""

from __future__ import annotations

from typing import Any

import pytest

from headway.control.jobs.commands import Stop, Submit
from headway.core.job.lifecycle import step
from headway.core.job.signals import ClaimOverdue, TaskEnded
from headway.core.model import Cause, State
from headway.core.protocol import read_sync
from headway.store.memory.store import MemoryStore
from headway_agent.decide import decide as agent
from headway_agent.decide.decide import Exit, Go, Held, Hold, KeeperListed, NotAnswered, RankExited, TaskOver
from tests.agent.spoken import answered, sync_of
from tests.builders import BROKEN, FINE, a_spec
from tests.control.leading import Leader

FACTS = {"cpus": 8.0, "memory_bytes": 2**40}
TASK = "j1/1/0"


class Pair:
    """One server, one agent, and a line between them."""

    def __init__(self) -> None:
        self.leader = Leader(MemoryStore())
        self.agent = agent.NodeState("n1", "local", boot_id="b")
        self.decide(KeeperListed([]))
        self.exchange()
        self.exchange()

    @property
    def job(self) -> Any:
        return self.leader.cycle.store.jobs(["j1"])[0]

    def decide(self, fact: Any) -> list[Any]:
        return agent.decide(self.agent, fact, self.leader.now)

    def exchange(self, lost: bool = False) -> list[Any]:
        """A sync and its reply; returns what the agent does about it."""
        body = sync_of(self.agent, FACTS, self.leader.now, wait_s=0.0)
        replies: list[dict[str, Any]] = []
        sync = self.leader.cycle.heard(read_sync(body), self.leader.now)
        self.leader.do(sync).result()
        self.leader.cycle.reply(sync, self.leader.now, self.leader.now, lambda reply: replies.append(reply.show()))
        return self.decide(NotAnswered(body["seq"]) if lost else answered(replies[0], body["seq"]))

    def submit(self, **words: Any) -> None:
        self.leader.do(Submit((a_spec(**words),), "ada", lambda: "j1"))
        self.leader.tick()

    def begin(self) -> None:
        assert [type(act) for act in self.exchange() if isinstance(act, Hold)] == [Hold]
        assert [type(act) for act in self.decide(Held(TASK, "10.0.0.1", 4000))] == [Go]

    def end(self) -> None:
        self.decide(RankExited(TASK, Exit(0, 0)))
        self.decide(TaskOver(TASK, {}))


def test_a_job_is_begun_and_ended_with_one_reply_and_one_call() -> None:
    pair = Pair()
    pair.submit()
    pair.begin()
    assert pair.job.state is State.STARTING
    pair.end()
    pair.exchange()
    assert pair.job.state is State.SUCCEEDED
    kinds = [event.kind for event in pair.leader.cycle.store.events(0, 100) if event.job == "j1"]
    assert kinds == ["JobSubmitted", "AttemptPlaced", "AttemptStarted", "AttemptEnded", "JobSucceeded"]


def test_its_run_time_counts_from_when_it_began_not_from_when_that_was_told() -> None:
    pair = Pair()
    pair.submit()
    pair.begin()
    began_at = pair.leader.now
    pair.leader.now += 30.0
    pair.exchange()
    assert pair.job.attempt.started_at == pytest.approx(began_at, abs=0.01)
    assert (pair.job.attempt.tasks[0].address, pair.job.attempt.tasks[0].port) == ("10.0.0.1", 4000)


def test_a_stop_before_its_begin_is_told_waits_for_its_node() -> None:
    pair = Pair()
    pair.submit()
    pair.begin()
    pair.leader.do(Stop("j1", "ada", 5.0)).result()
    assert pair.job.state is State.STOPPING, "its node may have begun it"
    assert [act.grace_s for act in pair.exchange() if isinstance(act, agent.Stop)] == [pytest.approx(5.0, abs=0.2)]
    pair.decide(RankExited(TASK, Exit(0, None, 15, "stop")))
    pair.decide(TaskOver(TASK, {}))
    pair.exchange()
    assert pair.job.state is State.CANCELLED


def test_a_stop_before_its_node_was_told_ends_it_at_once() -> None:
    pair = Pair()
    pair.submit()
    pair.leader.do(Stop("j1", "ada", 5.0)).result()
    assert pair.job.state is State.CANCELLED


def test_a_node_that_never_got_the_claim_says_so_when_it_is_told_to_stop() -> None:
    pair = Pair()
    pair.submit()
    pair.exchange(lost=True)
    pair.leader.do(Stop("j1", "ada", 5.0)).result()
    pair.exchange()
    pair.exchange()
    assert pair.job.state is State.CANCELLED


def test_silence_gives_no_claim_back_that_its_node_was_told_of() -> None:
    pair = Pair()
    pair.submit()
    pair.begin()
    for _ in range(90):
        pair.leader.tick()
    assert pair.job.state is State.STARTING, "it may run there"
    pair.exchange()
    assert pair.job.state is State.RUNNING


def test_a_node_that_is_heard_and_does_not_begin_is_told_to_stop_and_the_job_is_tried_again() -> None:
    pair = Pair()
    pair.submit()
    pair.exchange()  # It has the claim, and its directory cannot be made.
    for _ in range(62):
        pair.leader.tick()
        pair.exchange()
        if pair.job.number == 2:
            break
    pair.leader.tick()
    assert (pair.job.number, pair.job.retries.user) == (2, 0)


def test_an_end_that_was_told_late_counts_although_nobody_had_claimed_in_time() -> None:
    pair = Pair()
    pair.submit()
    pair.begin()
    pair.end()
    job = pair.leader.cycle.book.jobs["j1"]
    overdue = step(job, ClaimOverdue(1), 100.0)
    assert (overdue.state, overdue.cause) == (State.STOPPING, Cause.NEVER_STARTED)
    assert step(overdue, TaskEnded(1, 0, FINE), 101.0).state is State.SUCCEEDED
    assert step(overdue, TaskEnded(1, 0, BROKEN), 101.0).cause is BROKEN.cause


def test_several_ranks_on_one_node_know_of_each_other() -> None:
    pair = Pair()
    pair.submit(ranks_per_node=4)
    acts = pair.exchange()
    assert next(act for act in acts if isinstance(act, Hold)).claim.go is True
    go = pair.decide(Held(TASK, "10.0.0.1", 4000))[0]
    assert (go.peers, list(go.gang)) == ((("10.0.0.1", 4000),), [4, 0])


def test_without_a_lease_nothing_begins() -> None:
    state = agent.NodeState("n1", "local", boot_id="b")
    agent.decide(state, KeeperListed([]), 0.0)
    body = sync_of(state, FACTS, 0.0)
    duty = {"task": TASK, "do": "claim", "argv": ["true"], "go": True}
    agent.decide(state, answered({"leader_epoch": 1, "lease_left_s": 0.0, "duties": [duty]}, body["seq"]), 0.0)
    assert not agent.decide(state, Held(TASK, "10.0.0.1", 4000), 0.0)
    body = sync_of(state, FACTS, 1.0)
    acts = agent.decide(state, answered({"leader_epoch": 1, "lease_left_s": 60.0, "duties": []}, body["seq"]), 1.0)
    assert [type(act) for act in acts if not isinstance(act, agent.Lease)] == [Go]


def test_what_an_earlier_agent_held_begins_when_it_is_told_again() -> None:
    state = agent.NodeState("n1", "local", boot_id="b", agent_epoch=2)
    agent.decide(state, KeeperListed([agent.Kept(TASK, "held", address="10.0.0.1", port=4000)]), 0.0)
    body = sync_of(state, FACTS, 0.0)
    duty = {"task": TASK, "do": "claim", "argv": ["true"], "go": True}
    acts = agent.decide(state, answered({"leader_epoch": 1, "lease_left_s": 9.0, "duties": [duty]}, body["seq"]), 0.0)
    assert [act.task for act in acts if isinstance(act, Go)] == [TASK]
