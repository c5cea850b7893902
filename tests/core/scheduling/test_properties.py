"""What must hold of every plan, whatever was submitted: atomic gangs, quotas, no starvation, fair shares, one truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.invariants import broken_on_nodes
from headway.core.job.lifecycle import step
from headway.core.job.signals import CancelAsked, Claimed, Placed, StopDecided, TaskEnded
from headway.core.model import Cause, Node, Policy, Queue, Quota, State
from headway.core.scheduling.scheduler import Plan, View, plan, view_of
from headway.core.spec.scheduling import After, Wishes
from tests.builders import BROKEN, FINE, NOW, a_job, a_node
from yardsticks.replay import Trace, replay

QUEUES = [
    Queue("default", user_quota=Quota(cpus=12)),
    Queue("quick", priority=1, project_quota=Quota(jobs=2), wall_s_default=600.0),
    Queue("loans", quota=Quota(cpus=4), borrow=True),
]
POLICIES = [
    Policy(),
    Policy("fifo", estimates="limit"),
    Policy("throughput"),
    Policy("las", service_steps=(50.0, 500.0), preemptions_most=50),
    Policy(preemption=True, half_life_s=500.0, patience_s=2000.0),
]
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "cpus": st.sampled_from([0.5, 1.0, 2.5, 4.0]),
        "gpus": st.integers(0, 3),
        "nodes": st.integers(1, 3),
        "priority": st.integers(-1, 1),
        "user": st.sampled_from(["ann", "bob"]),
        "project": st.sampled_from(["p", "q"]),
        "queue": st.sampled_from(["default", "quick", "loans", "unknown"]),
        "wall_s_max": st.sampled_from([60.0, 600.0, None]),
        "wishes": st.sampled_from(
            [
                Wishes(licences=(("matlab", 1),)),
                Wishes(zone="same"),
                Wishes(layout="spread"),
                Wishes(after=(After("j0", "any"),)),
                Wishes(start_at=NOW + 500),
            ]
        ),
    },
)
NODES = st.lists(
    st.tuples(st.sampled_from([1.0, 4.0, 8.0]), st.integers(0, 4), st.sampled_from("ab")), min_size=1, max_size=4
)


class House:
    """Jobs and nodes, with a view that is kept by deltas and one that can be built anew."""

    def __init__(self, wishes: list[dict[str, Any]], shapes: list[tuple[float, int, str]], policy: Policy) -> None:
        self.nodes = [a_node(f"n{number}", cpus, gpus, zone=zone) for number, (cpus, gpus, zone) in enumerate(shapes)]
        self.jobs = {f"j{number}": a_job(f"j{number}", **{**wish, "seq": number}) for number, wish in enumerate(wishes)}
        self.policy = policy
        self.view = self.rebuilt()

    def rebuilt(self) -> View:
        view = view_of(self.jobs.values(), self.nodes, QUEUES, self.policy, {"matlab": 1})
        for name in view.unresolved():
            view.resolve(name, self.jobs[name].state if name in self.jobs else None)
        return view

    def happen(self, job: str, signal: Any, now: float) -> None:
        before = self.jobs[job]
        then = step(before, signal, now)
        if then is not before:
            self.view.saw(before, then)
            self.jobs[job] = then

    def carry_out(self, said: Plan, now: float) -> None:
        for preemption in said.preemptions:
            victim = self.jobs[preemption.job]
            self.happen(victim.id, StopDecided(victim.number, Cause.PREEMPTED, preemption.why), now)
        for placement in said.placements:
            self.happen(placement.job, Placed(placement.seats), now)


def check_safety(house: House, said: Plan) -> None:
    nodes = {node.id: node for node in house.nodes}
    assert not broken_on_nodes(house.jobs.values(), nodes)
    for placement in said.placements:
        job = house.jobs[placement.job]
        assert len({seat.node for seat in placement.seats}) == job.spec.nodes, "a gang has all its places, one per node"
        assert all(len(seat.gpus) == job.spec.resources.gpus for seat in placement.seats)
        if job.spec.wishes.zone == "same":
            assert len({nodes[seat.node].zone for seat in placement.seats}) == 1
    active = [job for job in house.jobs.values() if job.alive]
    assert sum(bool(job.spec.wishes.licences) for job in active) <= 1, "one licence, one holder"
    for user in ("ann", "bob"):
        mine = [job for job in active if job.user == user and job.spec.queue == "default"]
        assert sum(job.spec.nodes * job.spec.resources.cpus for job in mine) <= 12
    for project in ("p", "q"):
        assert sum(job.spec.project == project and job.spec.queue == "quick" for job in active) <= 2


@settings(max_examples=150, deadline=None)
@given(st.lists(WISHES, max_size=14), NODES, st.sampled_from(POLICIES), st.data())
def test_a_view_kept_by_deltas_plans_as_one_that_is_rebuilt(
    wishes: list[dict[str, Any]], shapes: list[tuple[float, int, str]], policy: Policy, data: st.DataObject
) -> None:
    house = House(wishes, shapes, policy)
    now = NOW
    for _ in range(data.draw(st.integers(1, 8))):
        now += data.draw(st.sampled_from([0.0, 3.0, 70.0, 1000.0]))
        fresh = house.rebuilt()
        fresh.service = dict(house.view.service)
        fresh.shares = house.view.shares.copy()
        fresh.set_policy(policy)
        said = plan(house.view, now)
        assert said == plan(fresh, now)
        assert said == plan(house.view, now), "to plan changes nothing"
        house.carry_out(said, now)
        check_safety(house, said)
        for name in data.draw(st.lists(st.sampled_from(sorted(house.jobs)), max_size=6)) if house.jobs else []:
            job = house.jobs[name]
            claims = [Claimed(job.number, index) for index in range(job.spec.nodes)]
            ends = [TaskEnded(job.number, index, FINE) for index in range(job.spec.nodes)]
            story = data.draw(
                st.sampled_from([claims, claims + ends, ends, [CancelAsked()], [TaskEnded(job.number, 0, BROKEN)]])
            )
            for signal in story:
                house.happen(name, signal, now)


# --- steady arrivals ---


def steady(count: int, every_s: float, run_s: float, first: int = 100, **fields: Any) -> list[Trace]:
    traces = []
    for number in range(count):
        at = NOW + number * every_s
        job = a_job(f"s{first + number:04d}", **{"seq": first + number, "submitted_at": at, "user": "crowd", **fields})
        traces.append(Trace(job, run_s))
    return traces


def nodes(count: int, cpus: float = 4.0) -> list[Node]:
    return [a_node(f"n{number}", cpus) for number in range(count)]


@pytest.mark.parametrize("limit_s", [100.0, None], ids=["limits", "no limits"])
@pytest.mark.parametrize(
    "policy", [*POLICIES[:2], Policy("throughput", bonus_per_hour=200.0)], ids=lambda each: each.name
)
def test_a_wide_gang_gets_its_turn_under_a_steady_stream_of_small_jobs(policy: Policy, limit_s: float | None) -> None:
    wide = Trace(a_job("wide", seq=150, nodes=4, cpus=4, submitted_at=NOW + 500, user="wide", wall_s_max=limit_s), 60.0)
    small = steady(300, every_s=10.0, run_s=100.0, cpus=2, wall_s_max=limit_s)
    replay([wide, *small], nodes(4), policy)
    assert wide.started_at is not None
    waited = wide.started_at - wide.job.submitted_at
    assert waited <= (2000.0 if policy.name == "throughput" else 700.0), waited


def test_two_gangs_that_want_the_same_nodes_both_run() -> None:
    gangs = [Trace(a_job(f"g{number}", seq=number, nodes=3, cpus=4, submitted_at=NOW), 50.0) for number in range(6)]
    replay([*gangs, *steady(50, 5.0, 20.0, cpus=1, wall_s_max=30.0)], nodes(4), Policy())
    assert all(gang.ended_at is not None for gang in gangs)


def test_users_who_always_wait_get_equal_shares() -> None:
    greedy = [replace_user(trace, "greedy") for trace in steady(400, 1.0, 100.0, cpus=4)]
    modest = [replace_user(trace, "modest") for trace in steady(60, 50.0, 100.0, first=1000, cpus=4)]
    replay([*greedy, *modest], nodes(4), Policy(half_life_s=3600.0))
    waits = [trace.started_at - trace.job.submitted_at for trace in modest if trace.started_at is not None]
    assert len(waits) == len(modest)
    assert max(waits) <= 250.0, "who asks for less than his share hardly waits, however long the other's queue is"


def replace_user(trace: Trace, user: str) -> Trace:
    return Trace(replace(trace.job, user=user), trace.run_s)


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_projects_get_what_their_weights_say(weight: float) -> None:
    queue = Queue("default", shares=(("a", weight), ("b", 1.0)))
    traces = steady(300, 1.0, 100.0, cpus=4, project="a") + steady(300, 1.0, 100.0, first=1000, cpus=4, project="b")
    replay(traces, nodes(4), Policy(half_life_s=36000.0), [queue])
    until = NOW + 7000.0
    served = {"a": 0, "b": 0}
    for trace in traces:
        if trace.ended_at is not None and trace.ended_at <= until:
            served[trace.job.spec.project] += 1
    assert served["a"] / served["b"] == pytest.approx(weight, rel=0.25)


def test_nobody_is_preempted_for_ever() -> None:
    policy = Policy(preemption=True, preemptions_most=3)
    low = Trace(a_job("low", seq=1, cpus=4, submitted_at=NOW, wall_s_max=5000.0), 1000.0)
    urgent = steady(60, every_s=200.0, run_s=150.0, cpus=4, priority=5, wall_s_max=200.0)
    found = replay([low, *urgent], nodes(1), policy)
    assert found.preemptions == 3
    assert low.ended_at is not None


def test_ended_jobs_leave_nothing_behind() -> None:
    house = House([{"queue": "quick", "wishes": Wishes(licences=(("matlab", 1),))}] * 3, [(8.0, 0, "a")], Policy())
    now = NOW
    while any(not job.state.ended for job in house.jobs.values()):
        now += 10.0
        house.carry_out(plan(house.view, now), now)
        for job in [job for job in house.jobs.values() if job.state is State.STARTING]:
            house.happen(job.id, Claimed(job.number, 0), now)
            house.happen(job.id, TaskEnded(job.number, 0, FINE), now)
    view = house.view
    left = [view.queued, view.lanes, view.by_need, view.active, view.counted.by, view.lengths, view.blocked]
    assert not any(left)
    assert set(view.licences_held.values()) <= {0}
