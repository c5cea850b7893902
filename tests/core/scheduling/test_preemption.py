"""Who makes room for whom: the cheapest, no more than needed, and never for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.core.job.signals import StopDecided
from headway.core.model import Attempt, Cause, Job, Node, Policy, Queue, Quota, Retries
from headway.core.scheduling.scheduler import Plan, plan, view_of
from tests.builders import NOW, a_job, a_node, after, running

ON = Policy(preemption=True)


def ran_for(seconds: float, job: Job, *nodes: str, saved_s_ago: float | None = None) -> Job:
    """A running job that began so long ago, and last saved its progress then."""
    going = running(job, *nodes)
    attempt: Attempt = going.attempt  # type: ignore[assignment]
    saved = None if saved_s_ago is None else NOW - saved_s_ago
    return replace(
        going, attempt=replace(attempt, started_at=NOW - seconds, placed_at=NOW - seconds, committed_at=saved)
    )


def preempted(jobs: list[Job], nodes: list[Node], policy: Policy = ON, queues: list[Queue] | None = None) -> list[str]:
    found: Plan = plan(view_of(jobs, nodes, queues or [], policy), NOW)
    return sorted(each.job for each in found.preemptions)


def urgent(**fields: Any) -> Job:
    return a_job("urgent", **{"seq": 9, "priority": 5, **fields})


def test_nobody_is_preempted_unless_the_policy_says_so() -> None:
    jobs = [ran_for(60, a_job("low", cpus=8), "n1"), urgent(cpus=8)]
    assert preempted(jobs, [a_node()], Policy()) == []
    assert preempted(jobs, [a_node()]) == ["low"]


def test_equals_do_not_preempt_each_other() -> None:
    assert preempted([ran_for(60, a_job("low", cpus=8), "n1"), urgent(cpus=8, priority=0)], [a_node()]) == []


def test_whoever_loses_the_least_work_ends() -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3")]
    jobs = [
        ran_for(9000, a_job("long", cpus=8), "n1"),
        ran_for(9000, a_job("saved", cpus=8), "n2", saved_s_ago=5),
        ran_for(600, a_job("short", cpus=8), "n3"),
    ]
    assert preempted([*jobs, urgent(cpus=8)], nodes) == ["saved"]
    assert preempted([*jobs, urgent(cpus=8, nodes=2)], nodes) == ["saved", "short"]


def test_no_more_end_than_are_needed() -> None:
    jobs = [ran_for(10 * number, a_job(f"low{number}", cpus=2), "n1") for number in range(1, 5)]
    assert preempted([*jobs, urgent(cpus=4)], [a_node(cpus=8)]) == ["low1", "low2"]
    mixed = [ran_for(10, a_job("small", cpus=1), "n1"), ran_for(20, a_job("large", cpus=7), "n1")]
    assert preempted([*mixed, urgent(cpus=7)], [a_node(cpus=8)]) == ["large"], "the small one's end would not help"


def test_the_end_of_one_gang_frees_all_its_nodes() -> None:
    nodes = [a_node(f"n{number}") for number in (1, 2, 3)]
    jobs = [ran_for(90, a_job("gang", nodes=2, cpus=8), "n1", "n2"), ran_for(100, a_job("single", cpus=8), "n3")]
    assert preempted([*jobs, urgent(cpus=8, nodes=2)], nodes) == ["gang"]


def test_nobody_ends_when_it_would_not_be_enough() -> None:
    jobs = [ran_for(60, a_job("low", cpus=8), "n1"), ran_for(60, a_job("high", cpus=8, priority=9), "n2")]
    assert preempted([*jobs, urgent(cpus=8, nodes=2)], [a_node("n1"), a_node("n2")]) == []


def test_who_is_ending_already_counts_as_room_and_his_place_is_kept() -> None:
    ending = after(ran_for(60, a_job("low", cpus=8), "n1"), StopDecided(1, Cause.PREEMPTED, "for urgent"))
    other = ran_for(60, a_job("other", cpus=8), "n2")
    nodes = [a_node("n1"), a_node("n2")]
    found = plan(view_of([ending, other, urgent(cpus=8), a_job("late", seq=10, cpus=1)], nodes, policy=ON), NOW)
    assert found.preemptions == ()
    assert found.placements == ()


def test_nobody_is_preempted_more_often_than_the_policy_allows() -> None:
    often = ran_for(60, a_job("low", cpus=8, retries=Retries(capacity=3)), "n1")
    assert preempted([often, urgent(cpus=8)], [a_node()]) == []
    assert preempted([often, urgent(cpus=8)], [a_node()], Policy(preemption=True, preemptions_most=4)) == ["low"]


def test_a_queue_can_protect_its_jobs() -> None:
    jobs = [ran_for(60, a_job("low", cpus=8), "n1"), urgent(cpus=8)]
    assert preempted(jobs, [a_node()], queues=[Queue("default", preemptible=False)]) == []


def test_what_is_borrowed_is_given_back_and_no_more() -> None:
    queue = Queue("default", project_quota=Quota(cpus=4), borrow=True)
    held = [ran_for(10 * number, a_job(f"a{number}", project="a", cpus=2, seq=number), "n1") for number in (1, 2, 3)]
    wants = a_job("b", project="b", cpus=4, seq=9)
    nodes = [a_node(cpus=8)]
    assert preempted([*held, wants], nodes, queues=[queue]) == ["a1"], "project a holds six, four are its own"
    greedy = a_job("b", project="b", cpus=8, seq=9)
    assert preempted([*held, greedy], nodes, queues=[queue]) == []


def test_with_time_sharing_the_one_who_had_the_most_makes_room() -> None:
    las = Policy("las", service_steps=(100.0,))
    jobs = [ran_for(500, a_job("much", cpus=8), "n1"), ran_for(300, a_job("some", cpus=8), "n2")]
    nodes = [a_node("n1"), a_node("n2")]
    fresh = a_job("fresh", seq=9, cpus=8)
    found = plan(view_of([*jobs, fresh], nodes, policy=las), NOW)
    assert [(each.job, each.for_whom) for each in found.preemptions] == [("much", "fresh")]
    young = [ran_for(5, a_job("much", cpus=8), "n1"), ran_for(3, a_job("some", cpus=8), "n2")]
    assert preempted([*young, fresh], nodes, las) == [], "nobody has had so much that he must step down"


def test_service_is_remembered_when_a_job_is_queued_again() -> None:
    las = Policy("las", service_steps=(100.0,))
    first = ran_for(500, a_job("first", seq=1, cpus=8), "n1")
    view = view_of([first, a_job("second", seq=2, cpus=8)], [a_node("n1")], policy=las)
    stopped = after(first, StopDecided(1, Cause.PREEMPTED, "for second", 0.0))
    view.saw(first, stopped)
    ended = replace(
        stopped,
        state=a_job().state,
        attempt=replace(
            stopped.attempt, ended_at=NOW, tasks=tuple(replace(t, phase="ended") for t in stopped.attempt.tasks)
        ),  # type: ignore[type-var,union-attr,arg-type]
        stop_by=None,
    )
    view.saw(stopped, ended)
    assert [each.job for each in plan(view, NOW).placements] == ["second"]
