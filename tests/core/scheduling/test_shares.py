"""Fair shares, quotas, licences and pools of a queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.model import Job, Policy, Queue, Quota
from headway.core.scheduling.scheduler import plan, view_of, why_waiting
from headway.core.scheduling.shares import Shares, Use
from headway.core.scheduling.view import View
from headway.core.spec.scheduling import Wishes
from tests.builders import NOW, a_job, a_node, running

DAY = 86400.0


def placed(view: View, now: float = NOW) -> list[str]:
    return [each.job for each in plan(view, now).placements]


def two_users(**fields: Any) -> list[Job]:
    return [a_job("j1", seq=1, user="ann", **fields), a_job("j2", seq=2, user="bob", **fields)]


def test_who_used_less_goes_first() -> None:
    view = view_of(two_users(cpus=8), [a_node(cpus=8)])
    assert placed(view) == ["j1"], "no use so far: the older"
    for account in (("default",), ("default", "default"), ("default", "default", "ann")):
        view.add_use(Use(account, 1e6, NOW))
    assert placed(view) == ["j2"]


def test_what_runs_counts_as_it_runs() -> None:
    held = running(a_job("held", seq=0, user="ann", cpus=4), "n1")
    view = view_of([held, *two_users(cpus=4)], [a_node(cpus=8)])
    assert placed(view, NOW + DAY) == ["j2"]


def test_use_is_forgotten_by_halves() -> None:
    shares = Shares(half_life_s=100.0, cpus_per_gpu=8.0)
    shares.add(Use(("q",), 800.0, 1000.0))
    assert shares.amount(("q",), 1100.0) == pytest.approx(400.0)
    assert shares.amount(("q",), 1300.0) == pytest.approx(100.0)
    assert shares.past(1300.0) == [Use(("q",), pytest.approx(100.0), 1300.0)]  # type: ignore[arg-type]
    shares.add(Use(("q",), 1.0, 1000.0 + 1e6))
    assert shares.amount(("q",), 1000.0 + 1e6) == pytest.approx(1.0), "after ten thousand half-lives nothing is left"


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(1, 500)), min_size=1, max_size=5))
def test_use_is_the_same_whether_told_while_it_ran_or_after(spans: list[tuple[float, float]]) -> None:
    live, after = Shares(300.0, 8.0), Shares(300.0, 8.0)
    job = a_job(cpus=2)
    for began, _ in spans:
        live.begin(job, began)
    end = max(began + length for began, length in spans)
    for began, _ in spans:
        after.begin(job, began)
        after.end(job, began, end)
    account = ("default", "default", "ada")
    assert live.amount(account, end) == pytest.approx(after.amount(account, end), rel=1e-6, abs=1e-6)


def test_a_project_with_twice_the_weight_may_use_twice_as_much() -> None:
    queue = Queue("default", shares=(("big", 4.0),))
    jobs = [a_job("j1", seq=2, project="big", cpus=8), a_job("j2", seq=1, project="small", cpus=8)]
    view = view_of(jobs, [a_node(cpus=8)], [queue])
    view.add_use(Use(("default", "big"), 3e5, NOW))
    view.add_use(Use(("default", "small"), 1e5, NOW))
    assert placed(view) == ["j1"]


def test_beyond_all_patience_age_alone_counts() -> None:
    jobs = [replace(job, submitted_at=NOW - 3 * DAY) for job in two_users(cpus=8)]
    view = view_of(jobs, [a_node(cpus=8)])
    view.add_use(Use(("default", "default", "ann"), 1e6, NOW))
    assert placed(view) == ["j1"]


def test_fifo_knows_no_shares() -> None:
    view = view_of(two_users(cpus=8), [a_node(cpus=8)], policy=Policy("fifo"))
    view.add_use(Use(("default", "default", "ann"), 1e6, NOW))
    assert placed(view) == ["j1"]


def test_throughput_takes_short_and_narrow_jobs_first() -> None:
    jobs = [a_job("j1", seq=1, cpus=8, wall_s_max=9e4), a_job("j2", seq=2, cpus=8, wall_s_max=60.0)]
    assert placed(view_of(jobs, [a_node(cpus=8)], policy=Policy("throughput"))) == ["j2"]
    waited = [replace(jobs[0], submitted_at=NOW - 30 * DAY), jobs[1]]
    assert placed(view_of(waited, [a_node(cpus=8)], policy=Policy("throughput"))) == ["j1"], "waiting counts"


def test_a_queue_goes_before_another_by_its_priority() -> None:
    queues = [Queue("low", priority=-1), Queue("high", priority=1)]
    jobs = [a_job("j1", seq=1, queue="low", priority=9, cpus=8), a_job("j2", seq=2, queue="high", cpus=8)]
    assert placed(view_of(jobs, [a_node(cpus=8)], queues)) == ["j2"]


# --- quotas ---


@pytest.mark.parametrize(
    "quota",
    [Quota(cpus=2), Quota(jobs=2), Quota(gpus=2), Quota(memory_bytes=2 * 2**30)],
    ids=["cpus", "jobs", "gpus", "memory"],
)
@pytest.mark.parametrize("whose", ["quota", "project_quota", "user_quota"])
def test_a_quota_limits_what_is_held_at_once(quota: Quota, whose: str) -> None:
    queue = Queue("default", **{whose: quota})  # type: ignore[arg-type]
    jobs = [a_job(f"j{number}", seq=number, gpus=1, memory_bytes=2**30) for number in range(5)]
    view = view_of(jobs, [a_node(cpus=8, gpus=8)], [queue])
    assert placed(view) == ["j0", "j1"]
    began = running(jobs[0], "n1")
    view.saw(jobs[0], began)
    assert placed(view) == ["j1"]
    short = why_waiting(jobs[3], view, NOW).quota
    assert short is None, "one more would be allowed; it is the order that keeps it"


def test_one_project_at_its_quota_does_not_hold_up_another() -> None:
    queue = Queue("default", project_quotas=(("a", Quota(jobs=1)),))
    jobs = [a_job(f"j{number}", seq=number, project="a" if number < 3 else "b") for number in range(5)]
    assert placed(view_of(jobs, [a_node()], [queue])) == ["j0", "j3", "j4"]


def test_who_waits_for_his_quota_is_not_overtaken_by_smaller_ones_of_the_same_account() -> None:
    queue = Queue("default", quota=Quota(cpus=4))
    held = running(a_job("held", cpus=2, seq=0), "n1")
    jobs = [a_job("wide", cpus=4, seq=1), a_job("small", cpus=1, seq=2)]
    assert placed(view_of([held, *jobs], [a_node()], [queue])) == []


def test_a_quota_of_zero_is_told_at_once() -> None:
    job = a_job()
    view = view_of(
        [job, a_job("other", project="b", seq=2)], [a_node()], [Queue("default", project_quota=Quota(jobs=0))]
    )
    assert placed(view) == []
    short = why_waiting(job, view, NOW).quota
    assert short is not None
    assert short.never


def test_what_nobody_wants_may_be_borrowed() -> None:
    queue = Queue("default", project_quota=Quota(cpus=2), borrow=True)
    jobs = [a_job(f"a{number}", seq=number, project="a", cpus=2) for number in range(3)]
    assert placed(view_of(jobs, [a_node(cpus=4)], [queue])) == ["a0", "a1"]
    within = a_job("b0", seq=9, project="b", cpus=2)
    assert placed(view_of([*jobs, within], [a_node(cpus=4)], [queue])) == ["a0", "b0"], (
        "who is within his own goes first"
    )


# --- licences, pools ---


def test_a_licence_is_held_while_a_job_runs() -> None:
    jobs = [a_job(f"j{number}", seq=number, wishes=Wishes(licences=(("matlab", 1),))) for number in range(4)]
    view = view_of(jobs, [a_node()], licences={"matlab": 2})
    assert placed(view) == ["j0", "j1"]
    began = running(jobs[0], "n1")
    view.saw(jobs[0], began)
    assert placed(view) == ["j1"]
    assert why_waiting(jobs[3], view, NOW).licence is None
    two = a_job("two", seq=9, wishes=Wishes(licences=(("matlab", 2),)))
    view.saw(None, two)
    assert why_waiting(two, view, NOW).licence == ("matlab", 2, 1, 2)


def test_a_licence_that_nobody_has_holds_nobody_else_up() -> None:
    jobs = [a_job("j1", seq=1, wishes=Wishes(licences=(("none", 1),))), a_job("j2", seq=2)]
    assert placed(view_of(jobs, [a_node()])) == ["j2"]


def test_pools_are_tried_in_the_order_of_the_queue() -> None:
    nodes = [a_node("a1", pool="a"), a_node("b1", pool="b"), a_node("b2", pool="b")]
    queue = Queue("default", pools=("b", "a"))
    view = view_of([a_job("j1", nodes=2, seq=1, cpus=8), a_job("j2", seq=2, cpus=8)], nodes, [queue])
    found = {each.job: [seat.node for seat in each.seats] for each in plan(view, NOW).placements}
    assert found == {"j1": ["b1", "b2"], "j2": ["a1"]}


def test_a_queue_without_pools_places_nothing_and_says_so() -> None:
    job = a_job()
    view = view_of([job], [a_node()], [Queue("default", pools=())])
    assert placed(view) == []
    found = why_waiting(job, view, NOW)
    assert found.never
    assert found.lacks == (("not in a pool of its queue", 1),)


def test_settings_change_while_jobs_wait_and_run() -> None:
    jobs = [a_job(f"j{number}", seq=number) for number in range(3)]
    view = view_of(jobs, [a_node(cpus=8)])
    view.saw(jobs[0], running(jobs[0], "n1"))
    view.set_queues([Queue("default", quota=Quota(jobs=2))])
    assert placed(view) == ["j1"]
    view.set_policy(Policy(half_life_s=60.0))
    view.set_queues([])
    assert placed(view) == ["j1", "j2"]
