"""Short jobs behind a place: who is lined up, behind whom, and who is called back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.job.lifecycle import step
from headway.core.job.signals import CancelAsked, Claimed, MovedUp, NodeLost, Placed, Refused, Seat, TaskEnded
from headway.core.model import Job, Phase, Resources, State
from headway.core.scheduling import waiting_lines
from headway.core.scheduling.scheduler import View, plan
from tests.builders import FINE, NOW, a_job, a_node, a_spec

AHEAD_S = 1.0


def an_ended(run_s: float, **words: object) -> Job:
    """A like job that took so long."""
    job = step(a_job("old", **words), Placed((Seat("n1", ()),)), NOW - 50)
    job = step(job, Claimed(1, 0), NOW - 50)
    return step(job, TaskEnded(1, 0, FINE), NOW - 50 + run_s)


def a_house(waiting: int, run_s: float = 0.1, **words: object) -> tuple[View, dict[str, Job]]:
    """A node with two places, both taken, and alike jobs that wait."""
    view, jobs = View(), {}
    view.saw_node(a_node(cpus=2))
    view.learn(an_ended(run_s))
    for number in range(waiting + 2):
        job = replace(a_job(f"j{number}", **words), seq=number)
        jobs[job.id] = job
        view.saw(None, job)
    for each in plan(view, NOW).placements:
        jobs[each.job] = put(view, jobs[each.job], Placed(each.seats))
    return view, jobs


def put(view: View, job: Job, signal: Placed) -> Job:
    after = step(job, signal, NOW)
    view.saw(job, after)
    return after


def line_up(view: View, jobs: dict[str, Job]) -> list[tuple[str, str]]:
    found = waiting_lines.line_up(view, NOW, AHEAD_S, lambda _: True)
    for each in found:
        jobs[each.job] = put(view, jobs[each.job], Placed((Seat(each.node, ()),), None, each.behind))
    return [(each.job, each.behind) for each in found]


def test_the_next_wait_behind_the_places_in_turn() -> None:
    view, jobs = a_house(5)
    assert line_up(view, jobs) == [
        ("j2", "j0/1/0"), ("j3", "j1/1/0"), ("j4", "j2/1/0"), ("j5", "j3/1/0"), ("j6", "j4/1/0"),
    ]  # fmt: skip
    assert not line_up(view, jobs)
    assert view.rooms["n1"].cpus == 0, "they hold nothing"


@pytest.mark.parametrize(
    ("run_s", "each"), [(0.001, waiting_lines.DEPTH_MOST), (0.1, 10), (0.5, 2), (1.1, 0), (60.0, 0)]
)
def test_the_longer_they_run_the_fewer_wait_there(run_s: float, each: int) -> None:
    view, jobs = a_house(100, run_s)
    assert len(line_up(view, jobs)) == 2 * each


def test_what_is_not_known_to_be_short_is_not_lined_up() -> None:
    view, jobs = a_house(5)
    view.history = type(view.history)()
    assert not line_up(view, jobs)


def test_nobody_is_lined_up_before_somebody_who_goes_first() -> None:
    view, jobs = a_house(5)
    first = a_job("first", priority=9, resources=Resources(2.0))
    view.saw(None, replace(first, seq=99))
    assert not line_up(view, jobs)


def test_of_a_lane_only_those_are_lined_up_who_go_before_all_others() -> None:
    view, jobs = a_house(5)
    other = replace(a_job("other", resources=Resources(1.0, memory_bytes=2**20)), seq=3)
    view.saw(jobs["j3"], None)
    view.saw(None, other)
    assert [job for job, _ in line_up(view, jobs)] == ["j2"]


def test_who_waits_in_line_is_called_back_when_somebody_goes_before_him() -> None:
    view, jobs = a_house(3)
    line_up(view, jobs)
    assert not waiting_lines.call_back(view, NOW, AHEAD_S)
    view.saw(None, replace(a_job("first", priority=9, resources=Resources(2.0)), seq=99))
    assert waiting_lines.call_back(view, NOW, AHEAD_S) == ["j2", "j3", "j4"]


def test_whose_turn_does_not_come_is_called_back() -> None:
    view, jobs = a_house(1)
    line_up(view, jobs)
    assert not waiting_lines.call_back(view, NOW + 7.9, AHEAD_S)
    assert waiting_lines.call_back(view, NOW + 8.1, AHEAD_S) == ["j2"]


def test_a_node_whose_agent_cannot_is_given_none() -> None:
    view, _ = a_house(5)
    assert not waiting_lines.line_up(view, NOW, AHEAD_S, lambda _: False)
    assert not waiting_lines.line_up(view, NOW, 0.0, lambda _: True)


def a_lined() -> Job:
    return step(a_job(), Placed((Seat("n1", ()),), None, "other/1/0"), NOW)


def test_who_moves_up_holds_a_place_from_then_on() -> None:
    job = step(a_lined(), MovedUp(1), NOW + 5)
    assert (job.state, len(job.seated), job.lined) == (State.STARTING, 1, False)
    assert job.attempt is not None
    assert job.attempt.placed_at == NOW + 5


def test_who_begins_in_line_has_moved_up() -> None:
    job = step(a_lined(), Claimed(1, 0, "host", 4000, began_ago_s=2.0), NOW + 5)
    assert (job.state, len(job.seated)) == (State.RUNNING, 1)
    assert job.attempt is not None
    assert (job.attempt.placed_at, job.attempt.started_at) == (NOW + 3, NOW + 3)


def test_who_is_called_back_waits_as_if_nothing_had_been() -> None:
    job = step(a_lined(), Refused(1, 0, called_back=True), NOW)
    assert (job.state, job.cause, job.losses, job.retries, job.avoid) == (
        State.QUEUED, None, a_job().losses, a_job().retries, (),
    )  # fmt: skip


def test_a_cancel_in_line_waits_for_the_node_and_holds_no_place() -> None:
    job = step(a_lined(), CancelAsked("ada"), NOW)
    assert (job.state, job.seated, len(job.alive)) == (State.STOPPING, (), 1)
    assert len(step(job, Claimed(1, 0), NOW).seated) == 1, "it had begun meanwhile"
    assert step(job, NodeLost(1, "n1"), NOW).state is State.CANCELLED


def test_who_is_behind_one_that_drops_out_is_behind_the_one_before() -> None:
    assert waiting_lines.out_of_the_way(a_lined(), step(a_lined(), CancelAsked(told=False), NOW))
    job = step(a_lined(), MovedUp(1, "third/1/0"), NOW)
    assert job.attempt is not None
    assert (job.attempt.tasks[0].behind, job.attempt.tasks[0].phase) == ("third/1/0", Phase.BEHIND)


def test_the_spec_of_a_flood_is_one_lane() -> None:
    view = View()
    assert view.lane_name(a_job("a1")) == view.lane_name(a_job("a2"))
    assert a_spec() == a_spec()
