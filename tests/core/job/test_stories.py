"""Whatever happens, in whatever order: the invariants hold, and no budget is mixed up with another."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headway.core.explain import explain_state
from headway.core.invariants import broken_between, broken_in, broken_on_nodes
from headway.core.job.causes import TABLE, Whose
from headway.core.job.events import KINDS, record
from headway.core.job.lifecycle import step
from headway.core.job.signals import (
    CancelAsked,
    CanNeverRun,
    Claimed,
    ClaimOverdue,
    NodeLost,
    Placed,
    Refused,
    RetryAsked,
    Signal,
    StopDecided,
    TaskEnded,
    TaskMissing,
)
from headway.core.model import Cause, Job, Outcome, Phase, State
from headway.core.scheduling.scheduler import plan, view_of
from tests.builders import NOW, a_job, a_node

CAUSES = st.sampled_from([None, Cause.USER_CODE, Cause.OUT_OF_MEMORY, Cause.COMMAND_MISSING, Cause.OUTCOME_LOST])
STOPS = st.sampled_from([Cause.TIME_LIMIT, Cause.PREEMPTED, Cause.RECLAIMED, Cause.STALLED])
TASKS = st.integers(-1, 3)
LATE = st.sampled_from([0, 0, 0, 0, -1, 1])  # Mostly of the attempt at hand, sometimes of another.


class Story(RuleBasedStateMachine):
    @initialize(
        wishes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4)
    )
    def begin(self, wishes: list[tuple[int, int, int]]) -> None:
        self.now = NOW
        self.nodes = {f"n{number}": a_node(f"n{number}", cpus=4, gpus=4) for number in range(3)}
        self.jobs: dict[str, Job] = {
            f"j{number}": a_job(f"j{number}", seq=number, nodes=nodes, gpus=gpus, retries_max=retries)
            for number, (nodes, gpus, retries) in enumerate(wishes)
        }
        self.causes: dict[str, list[Cause]] = {job: [] for job in self.jobs}

    def happens(self, job_id: str, signal: Signal) -> None:
        before = self.jobs[job_id]
        then = step(before, signal, self.now)
        if getattr(signal, "attempt", before.number) != before.number:
            assert then is before, "the attempt's number is the fence"
        assert not broken_in(then)
        assert not broken_between(before, then)
        facts = record(before, then, self.now)
        assert {fact.kind for fact in facts} <= set(KINDS)
        assert then is before or facts or then.state is before.state, "a change of state is told"
        assert explain_state(then, None, self.now)
        if then.attempt is not None and then.attempt.ended_at is not None and then.attempt.cause is not None:
            ended_now = before.attempt is None or before.attempt.ended_at is None or before.number != then.number
            if ended_now and then.state is State.QUEUED:
                self.causes[job_id].append(then.attempt.cause)
        self.jobs[job_id] = then

    def pick(self, data: st.DataObject) -> Job:
        return self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]

    @rule(seconds=st.sampled_from([0.5, 10.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def the_plan_is_carried_out(self) -> None:
        for placement in plan(view_of(self.jobs.values(), self.nodes.values()), self.now).placements:
            self.happens(placement.job, Placed(placement.seats))

    @rule(data=st.data())
    def a_node_claims_all_it_has(self, data: st.DataObject) -> None:
        job = self.pick(data)
        for task in job.alive:
            self.happens(job.id, Claimed(job.number, task.index, "host", 4000))

    @rule(data=st.data(), task=TASKS, late=LATE, cause=CAUSES)
    def an_agent_reports(self, data: st.DataObject, task: int, late: int, cause: Cause | None) -> None:
        job = self.pick(data)
        attempt = job.number + late
        outcome = Outcome(exit_code=0 if cause is None else 1, cause=cause)
        said: list[Any] = [Claimed(attempt, task), Refused(attempt, task), TaskMissing(attempt, task)]
        self.happens(job.id, data.draw(st.sampled_from([*said, TaskEnded(attempt, task, outcome)])))

    @rule(data=st.data(), late=LATE, node=st.sampled_from(["n0", "n1", "n2", "n9"]), cause=STOPS)
    def the_server_decides(self, data: st.DataObject, late: int, node: str, cause: Cause) -> None:
        job = self.pick(data)
        attempt = job.number + late
        said: list[Signal] = [
            ClaimOverdue(attempt),
            NodeLost(attempt, node, "gone"),
            StopDecided(attempt, cause, "decided"),
        ]
        self.happens(job.id, data.draw(st.sampled_from(said)))

    @rule(data=st.data(), grace_s=st.sampled_from([None, 0.0, 60.0]))
    def somebody_asks(self, data: st.DataObject, grace_s: float | None) -> None:
        asked: list[Signal] = [RetryAsked(), CancelAsked("ada", grace_s), CanNeverRun("too large")]
        self.happens(self.pick(data).id, data.draw(st.sampled_from(asked)))

    @invariant()
    def no_node_holds_more_than_it_has(self) -> None:
        assert not broken_on_nodes(self.jobs.values(), self.nodes)

    @invariant()
    def each_retry_was_paid_from_the_budget_of_its_cause(self) -> None:
        for job in self.jobs.values():
            whose = [TABLE[cause].whose for cause in self.causes[job.id]]
            assert job.retries.user == whose.count(Whose.USER) <= job.spec.retries_max
            assert job.retries.platform == whose.count(Whose.PLATFORM)
            assert job.retries.capacity == whose.count(Whose.CAPACITY)

    @invariant()
    def nothing_of_a_job_that_waits_or_has_ended_is_alive(self) -> None:
        for job in self.jobs.values():
            if job.state is State.QUEUED or job.state.ended:
                assert not job.alive
                assert job.attempt is None or all(task.over for task in job.attempt.tasks)
            if job.state is State.SUCCEEDED:
                assert job.attempt is not None
                assert {task.phase for task in job.attempt.tasks} == {Phase.ENDED}


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
