"""One sentence for one job, whoever asks: from one forecast that is kept for some seconds."""

from __future__ import annotations

from collections.abc import Callable

from headway.control.state.forecast_cache import KEPT_S, Foresight
from headway.core import explain
from headway.core.model import Job, Node, Resources
from headway.core.scheduling.scheduler import View, plan, view_of
from headway.core.spec.job import JobSpec
from tests.builders import NOW, running

SPEC = JobSpec(("true",), "train", resources=Resources(2.0, 0, 0), wall_s_max=600.0)


def carry_out(view: View) -> None:
    for placement in plan(view, NOW).placements:
        before = view.queued[placement.job]
        view.saw(before, running(before, *(seat.node for seat in placement.seats)))


def long_queue(count: int) -> tuple[View, list[Job]]:
    """One node with room for one; all the others wait."""
    jobs = [Job(f"j{number}", SPEC, "u", NOW - 1, seq=number + 1) for number in range(count + 1)]
    view = view_of(jobs, [Node("n1", "local", Resources(2.0, 2**34, 0))])
    carry_out(view)
    return view, list(view.queued.values())


def sentence(foresight: Foresight, job: Job, view: View, now: float = NOW) -> str:
    return explain.explain_state(job, foresight.why([job], view, now)[job.id], now)


def test_one_and_many_get_the_same_sentence() -> None:
    view, jobs = long_queue(20)
    foresight = Foresight()
    told = foresight.why(jobs, view, NOW)
    for number, job in enumerate(jobs):
        said = sentence(foresight, job, view)
        assert said == explain.explain_state(job, told[job.id], NOW)
        assert f"expected to start in {10 * (number + 1)} m" in said or number >= 5
    assert "with --cpus" not in said


def test_the_first_500_are_exact_and_the_rest_a_lower_bound_that_says_so() -> None:
    view, jobs = long_queue(600)
    told = Foresight().why(jobs, view, NOW)
    exact = [told[job.id].starts_exactly for job in jobs]
    assert exact == [True] * 500 + [False] * 100
    assert "not before" in explain.explain_state(jobs[550], told[jobs[550].id], NOW)


def test_a_small_house_answers_at_once_and_better_a_moment_later() -> None:
    view, jobs = long_queue(600)
    put_off: list[Callable[[], None]] = []
    foresight = Foresight(put_off.append)
    assert not foresight.why([jobs[300]], view, NOW)[jobs[300].id].starts_exactly
    assert foresight.why([jobs[3]], view, NOW)[jobs[3].id].starts_exactly
    assert len(put_off) == 1
    put_off[0]()
    assert foresight.why([jobs[300]], view, NOW)[jobs[300].id].starts_exactly


def test_it_is_made_anew_for_a_job_that_came_later_and_when_it_is_old() -> None:
    view, jobs = long_queue(3)
    foresight = Foresight()
    sentence(foresight, jobs[0], view)
    first = foresight.forecast
    new = Job("new", SPEC, "u", NOW + 1, seq=99)
    view.saw(None, new)
    sentence(foresight, jobs[0], view, NOW + 2)
    assert foresight.forecast is first, "the queue has moved on, but this is good enough for it"
    assert "expected to start" in sentence(foresight, new, view, NOW + 2)
    second = foresight.forecast
    view.saw(new, None)
    sentence(foresight, jobs[0], view, NOW + 2 + KEPT_S)
    assert foresight.forecast is not second


def test_the_smallest_change_is_part_of_it() -> None:
    wide = JobSpec(("true",), "wide", resources=Resources(2.0, 0, 0), wall_s_max=600.0, nodes=2)
    nodes = [Node("n1", "local", Resources(2.0, 2**34, 0)), Node("n2", "local", Resources(2.0, 2**34, 0))]
    jobs = [Job("a", SPEC, "u", NOW - 2, seq=1), Job("b", wide, "u", NOW - 1, seq=2)]
    view = view_of(jobs, nodes)
    carry_out(view)
    assert sentence(Foresight(), jobs[1], view).endswith("with --nodes 1 it would start now")
