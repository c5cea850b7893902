"""Budgets that headway refills: a job that moves on may lose any number of machines; one that does not, a few."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.explain import explain_losses, explain_waiting
from headway.core.job import retry
from headway.core.job.lifecycle import step
from headway.core.job.signals import Claimed, NodeLost, Placed, Progressed, Signal, StopDecided, TaskEnded
from headway.core.model import Cause, Job, Outcome, State
from headway.core.scheduling.scheduler import Waiting
from tests.builders import BROKEN, NOW, seats
from tests.core.job.test_trying_again import a_wish

SOON = 1.0


def attempt(job: Job, now: float, committed: int | None = None, resumed: int | None = None) -> Job:
    """The next attempt of a queued job begins, and perhaps commits a step."""
    job = step(job, Placed(seats("n1").seats, resumed), now)
    job = step(job, Claimed(job.number, 0), now)
    return step(job, Progressed(job.number, committed_step=committed), now) if committed is not None else job


def loses(job: Job, now: float, committed: int | None = None, resumed: int | None = None, ran_s: float = SOON) -> Job:
    """And then loses its node."""
    job = attempt(job, now, committed, resumed)
    return step(job, NodeLost(job.number, "n1", "it is gone"), now + ran_s)


def reclaimed(job: Job, now: float, committed: int | None = None) -> Job:
    job = step(attempt(job, now, committed), StopDecided(job.number + 1, Cause.RECLAIMED), now + SOON)
    return step(job, TaskEnded(job.number, 0, Outcome(0)), now + SOON)


def test_a_job_that_moves_on_is_never_ended_for_the_machines_it_lost() -> None:
    job = a_wish(retry={"platform_max": 2})
    for number in range(200):
        job = loses(job, NOW + 10 * number, committed=number, resumed=number - 1 if number else None)
        assert (job.state, job.not_before) == (State.QUEUED, NOW + 10 * number + SOON), "and never pauses"
    assert (job.retries.platform, job.losses.platform) == (200, 1)


@pytest.mark.parametrize("committed", [None, 5])
def test_a_job_that_does_not_move_on_is_ended_after_the_limit(committed: int | None) -> None:
    """Also where it saves the same step over and over: its script does not resume."""
    job = a_wish(retry={"platform_max": 3})
    job = loses(job, NOW, committed=5)
    for _ in range(2):
        job = loses(job, NOW, committed=committed, resumed=5)
        assert job.state is State.QUEUED
    job = loses(job, NOW, committed=committed, resumed=5)
    assert (job.state, job.cause) == (State.FAILED, Cause.NODE_LOST)
    assert job.detail.endswith("not tried again: it lost its machine 4 times without a new step (retry.platform_max)")


def test_headway_begins_the_pauses_anew_whoever_ended_it() -> None:
    job = a_wish(retries=100, retry={"quick_max": 100})
    for _ in range(5):
        job = loses(job, NOW)
    assert job.not_before == NOW + SOON + 10.0
    job = attempt(job, NOW, committed=1)
    job = step(job, TaskEnded(job.number, 0, BROKEN), NOW + SOON)
    assert job.not_before == NOW + SOON + retry.BACKOFF_FIRST_S
    assert loses(job, NOW, resumed=1).not_before == NOW + SOON
    job = attempt(job, NOW, resumed=1)
    assert step(job, TaskEnded(job.number, 0, BROKEN), NOW).not_before == NOW + 2 * retry.BACKOFF_FIRST_S


def test_a_long_attempt_without_checkpoints_counts_against_the_limit_but_makes_no_pause() -> None:
    job = a_wish(retry={"platform_max": 9})
    for _ in range(9):
        job = loses(job, NOW, ran_s=retry.LONG_S)
        assert (job.state, job.not_before) == (State.QUEUED, NOW + retry.LONG_S)
    assert loses(job, NOW, ran_s=retry.LONG_S).state is State.FAILED


def test_after_damage_headway_counts_from_where_it_had_to_begin() -> None:
    job = loses(a_wish(), NOW, committed=10_000)
    job = loses(job, NOW, committed=50, resumed=None)
    assert job.losses.platform == 2, "that it had been further is a loss"
    assert loses(job, NOW, committed=60, resumed=50).losses.platform == 1


def test_a_limit_of_a_day_counts_whatever_lies_between() -> None:
    job = a_wish(retry={"platform_max_per_day": 3, "capacity_max_per_day": 2})
    for number in range(3):
        job = loses(job, NOW + number, committed=number)
    for number in range(2):
        job = reclaimed(job, NOW + 10 + number, committed=number + 10)
    assert loses(job, NOW + 20, committed=30).state is State.FAILED
    assert reclaimed(job, NOW + 20, committed=30).state is State.FAILED
    tomorrow = NOW + retry.DAY_S + SOON
    assert loses(job, tomorrow, committed=30).state is State.QUEUED
    assert reclaimed(job, tomorrow, committed=30).losses.capacity_day == 1


def test_who_makes_room_is_ended_only_without_headway() -> None:
    job = a_wish(retry={"capacity_max": 2})
    for number in range(9):
        job = reclaimed(job, NOW, committed=number)
        assert job.state is State.QUEUED
    job = reclaimed(job, NOW)
    job = reclaimed(job, NOW)
    assert job.state is State.FAILED
    assert "it made room 3 times without a new step (retry.capacity_max)" in job.detail


def test_why_and_describe_say_how_much_is_left() -> None:
    job = a_wish(retry={"platform_max_per_day": 7})
    for _ in range(4):
        job = loses(job, NOW)
    so_far = "lost its machine 4 times without a new step (limit 20); lost its machine 4 times within a day (limit 7)"
    assert explain_losses(job) == so_far
    said = explain_waiting(job, Waiting(backing_off_s=5.0), NOW)
    assert said == f"waits: tries again in 5.0 s, after: attempt 4 lost its node: it is gone; it {so_far}"
    job = attempt(job, NOW, committed=3)
    assert explain_losses(job) == "lost its machine 4 times within a day (limit 7)", "it has moved on since"


def test_a_very_large_limit_is_only_a_long_pause() -> None:
    job = a_wish(retry={"platform_max": 1_000_000})
    for _ in range(1100):
        job = loses(job, NOW)
    assert job.not_before == NOW + SOON + retry.BACKOFF_MOST_S


ENDS = st.tuples(st.sampled_from(["lost", "reclaimed", "fails"]), st.booleans(), st.sampled_from([1.0, 90.0, 4000.0]))


@given(ends=st.lists(ENDS, max_size=40), most=st.integers(0, 4), room=st.integers(0, 4))
def test_whatever_happens_the_budget_is_what_was_lost_since_the_newest_step(
    ends: list[tuple[str, bool, float]], most: int, room: int
) -> None:
    job = a_wish(retries=1000, retry={"platform_max": most, "capacity_max": room, "quick_max": 1000})
    now, newest = NOW, 0
    since: dict[str, int] = {"lost": 0, "reclaimed": 0}
    for what, moves_on, ran_s in ends:
        job = attempt(job, now, committed=newest + 1 if moves_on else None, resumed=newest or None)
        newest, since = (newest + 1, dict.fromkeys(since, 0)) if moves_on else (newest, since)
        now += ran_s
        job = step(job, _end(job, what), now)
        if what == "reclaimed":
            job = step(job, TaskEnded(job.number, 0, Outcome(0)), now)
        if what in since:
            since[what] += 1
        over = since["lost"] > most if what == "lost" else what == "reclaimed" and since["reclaimed"] > room
        assert (job.state is State.FAILED) == over
        if over:
            return
        assert (job.losses.platform, job.losses.capacity) == (since["lost"], since["reclaimed"])
        assert 0.0 <= job.not_before - now <= retry.BACKOFF_MOST_S
        now = max(now, job.not_before)


def _end(job: Job, what: str) -> Signal:
    if what == "lost":
        return NodeLost(job.number, "n1", "it is gone")
    return TaskEnded(job.number, 0, BROKEN) if what == "fails" else StopDecided(job.number, Cause.RECLAIMED)
