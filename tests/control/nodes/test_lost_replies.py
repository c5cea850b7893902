"""A duty that changed and whose reply was lost is sent again: the real cycle and the real agent's decisions."""

from __future__ import annotations

from typing import Any

import pytest

from headway.control.jobs.commands import Stop, Submit
from headway.core.model import State
from headway.core.protocol import read_sync
from headway.store.memory.store import MemoryStore
from headway_agent.decide import decide as agent
from headway_agent.decide.decide import Held, KeeperListed, NotAnswered
from tests.agent.spoken import answered, sync_of
from tests.builders import a_spec
from tests.control.leading import Leader

FACTS = {"cpus": 8.0, "memory_bytes": 2**40}
TASK = "j1/1/0"


class Pair:
    """One server, one agent, and a line between them on which replies get lost."""

    def __init__(self, marks: bool = True) -> None:
        self.leader = Leader(MemoryStore())
        self.marks = marks
        self.agent = agent.NodeState("n1", "local", boot_id="b")
        agent.decide(self.agent, KeeperListed([]), 0.0)

    def exchange(self, lost: bool = False) -> tuple[dict[str, Any], list[Any]]:
        """A sync and its reply; returns the reply and what the agent does about it."""
        body = sync_of(self.agent, FACTS, self.leader.now, wait_s=0.0)
        if not self.marks:
            del body["marks"]
        replies: list[dict[str, Any]] = []
        sync = self.leader.cycle.heard(read_sync(body), self.leader.now)
        self.leader.do(sync).result()
        self.leader.cycle.reply(sync, self.leader.now, self.leader.now, lambda reply: replies.append(reply.show()))
        fact = NotAnswered(body["seq"]) if lost else answered(replies[0], body["seq"])
        return replies[0], agent.decide(self.agent, fact, self.leader.now)

    def run_a_job(self) -> None:
        self.exchange()
        self.exchange()
        self.leader.do(Submit((a_spec(),), "ada", lambda: "j1"))
        self.leader.tick()
        self.exchange()
        agent.decide(self.agent, Held(TASK, "10.0.0.1", 4000), self.leader.now)
        self.exchange()
        self.exchange()
        assert self.leader.cycle.book.jobs["j1"].state is State.RUNNING
        assert self.agent.tasks[TASK].phase == agent.GOING

    def stop(self, grace_s: float) -> None:
        self.leader.do(Stop("j1", "ada", grace_s)).result()


def stops(acts: list[Any]) -> list[float]:
    return [act.grace_s for act in acts if isinstance(act, agent.Stop)]


def test_a_shortened_stop_is_sent_again_when_its_reply_was_lost() -> None:
    pair = Pair()
    pair.run_a_job()
    pair.stop(600.0)
    assert stops(pair.exchange()[1]) == [pytest.approx(600.0, abs=0.2)]
    pair.stop(1.0)
    assert not stops(pair.exchange(lost=True)[1])
    assert stops(pair.exchange()[1]) == [pytest.approx(1.0, abs=0.2)]
    reply, acts = pair.exchange()
    assert (reply["full"], reply["duties"], stops(acts)) == (False, [], []), "what was heard is not said again"


def test_an_agent_that_knows_no_marks_is_sent_none_and_keeps_in_step() -> None:
    pair = Pair(marks=False)
    pair.run_a_job()
    pair.stop(600.0)
    reply, acts = pair.exchange()
    assert "mark" not in reply["duties"][0]
    assert stops(acts)
    assert not pair.exchange()[0]["full"]


def test_an_agent_that_learns_marks_under_a_running_task_is_told_everything_once() -> None:
    pair = Pair(marks=False)
    pair.run_a_job()
    pair.stop(600.0)
    pair.exchange()
    pair.marks = True
    assert pair.exchange()[0]["full"]
    assert not pair.exchange()[0]["full"]
