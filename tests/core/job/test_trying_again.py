"""What a user says about retries: exit codes, budgets, policies; and the stop of a job that would crash for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.control.nodes.sync import outcome_of
from headway.core.job import retry
from headway.core.job.signals import Claimed, PrepareFailed, Progressed, ResumeSpoiled, TaskEnded
from headway.core.model import Cause, Job, Outcome, Phase, Retries, State
from headway.core.spec.job import read_spec
from headway.core.spec.program_words import QUICK_MAX
from headway_wire.sync import TaskOutcome
from tests.builders import BROKEN, NOW, a_job, after, placed, running, seats, stopping


def a_wish(nodes: int = 1, **words: Any) -> Job:
    spec = read_spec({"command": ["python", "train.py"], "nodes": nodes, **words})
    return replace(a_job(), spec=spec)


def fails(job: Job, after_s: float = 1.0, outcome: Outcome = BROKEN, committed: int | None = None) -> Job:
    """The next attempt of a queued job starts, perhaps commits a step, and ends by itself after so long."""
    job = after(job, seats("n1"))
    job = after(job, Claimed(job.number, 0))
    if committed is not None:
        job = after(job, Progressed(job.number, committed_step=committed))
    return after(job, TaskEnded(job.number, 0, outcome), now=NOW + after_s)


def ending(exit_code: int, *policies: tuple[str, str]) -> Outcome:
    return Outcome(exit_code, rank=0, cause=Cause.USER_CODE, detail="no", policies=policies)


def test_only_the_exit_codes_that_were_named_are_tried_again() -> None:
    job = a_wish(retry={"max": 3, "on_exit_codes": [75]})
    assert fails(job, outcome=ending(75)).state is State.QUEUED
    over = fails(job, outcome=ending(1))
    assert over.state is State.FAILED
    assert "exit code 1 is not among retry.on_exit_codes" in over.detail


def test_exit_code_99_is_free_and_at_once() -> None:
    job = fails(a_wish(), outcome=ending(99))
    assert (job.state, job.cause, job.not_before) == (State.QUEUED, Cause.REQUEUE_ASKED, NOW + 1.0)
    assert job.retries == Retries(capacity=1)


def test_a_job_that_asks_to_be_requeued_over_and_over_without_progress_is_stopped() -> None:
    job = a_wish()
    for _ in range(QUICK_MAX):
        job = fails(job, outcome=ending(99))
        assert job.state is State.QUEUED
    assert fails(job, outcome=ending(99), committed=5).state is State.QUEUED
    job = fails(job, outcome=ending(99))
    assert job.state is State.FAILED
    assert "attempts in a row ended within" in job.detail


@pytest.mark.parametrize(("after_s", "committed"), [(retry.QUICK_S, None), (1.0, 7)])
def test_a_slow_end_or_a_new_step_begins_the_count_anew(after_s: float, committed: int | None) -> None:
    job = a_wish(retries=100)
    for _ in range(QUICK_MAX):
        job = fails(job)
    assert job.quick_ends == QUICK_MAX
    assert fails(job, after_s, committed=committed).quick_ends == 0
    assert fails(job).state is State.FAILED


def test_what_the_platform_does_says_nothing_about_the_code() -> None:
    job = fails(a_wish(retries=100))
    lost = fails(job, outcome=Outcome(cause=Cause.OUTCOME_LOST))
    assert (lost.state, lost.quick_ends) == (State.QUEUED, 1)


@pytest.mark.parametrize("most", [0, 1, 7])
def test_how_often_a_quick_end_is_tried_again_can_be_set(most: int) -> None:
    job = a_wish(retry={"max": 100, "quick_max": most})
    for _ in range(most):
        job = fails(job)
        assert job.state is State.QUEUED
    job = fails(job)
    assert (job.state, "(retry.quick_max)" in job.detail) == (State.FAILED, True)


@pytest.mark.parametrize(
    ("words", "cause", "said"),
    [
        ({"platform_max": 1}, Cause.NODE_LOST, "it lost its machine 2 times without a new step"),
        ({"platform_max": 1}, Cause.NEVER_STARTED, "it could not be started 2 times without a new step"),
        ({"capacity_max": 1}, Cause.PREEMPTED, "it made room 2 times without a new step"),
        ({"platform_max_per_day": 1}, Cause.OUTCOME_LOST, "it lost its machine 2 times within a day"),
        ({"capacity_max_per_day": 1}, Cause.RECLAIMED, "it made room 2 times within a day"),
    ],
)
def test_each_budget_has_an_end(words: dict[str, int], cause: Cause, said: str) -> None:
    job = a_wish(retry=words)
    once = retry.decide(job, cause, NOW)
    assert once.again
    twice = retry.decide(replace(job, retries=once.retries, losses=once.losses), cause, NOW)
    assert (twice.again, twice.retries) == (False, once.retries)
    assert said in twice.reason
    (word,) = words
    assert twice.reason.endswith(f"(retry.{word})")


def test_what_a_node_knows_to_be_hopeless_is_not_tried_again_and_that_is_said() -> None:
    told = {"exit_code": 1, "cause": "user_code", "detail": "no kernel image", "rank": 0}
    for helps, state in ((False, State.FAILED), (True, State.QUEUED), (None, State.QUEUED)):
        job = fails(a_wish(retries=3), outcome=outcome_of(TaskOutcome(**told, retry_helps=helps), NOW))
        assert job.state is state
    hopeless = outcome_of(TaskOutcome(**told, retry_helps=False), NOW)
    assert fails(a_wish(retries=3), outcome=hopeless).detail == f"no kernel image; not tried again: {retry.HOPELESS}"
    assert fails(a_wish(), outcome=hopeless).detail == "no kernel image"  # Nobody asked for another.
    requeued = replace(hopeless, exit_code=retry.REQUEUE_EXIT_CODE)
    assert fails(a_wish(), outcome=requeued).state is State.QUEUED


def test_a_log_policy_stops_the_retries_and_is_named() -> None:
    job = fails(a_wish(retries=3), outcome=ending(1, ("bad data", "stop_retrying")))
    assert job.state is State.FAILED
    assert job.detail.startswith('no (bad data); not tried again: the log policy "bad data"')


def test_a_log_policy_excludes_the_node() -> None:
    job = fails(a_wish(retries=3), outcome=ending(1, ("bad gpu", "exclude_node"), ("x", "label")))
    assert (job.state, job.avoid, job.detail) == (State.QUEUED, ("n1",), "no (bad gpu, x)")


def test_what_cannot_be_prepared_ends_the_job_with_its_own_cause() -> None:
    job = after(placed(a_wish(retries=5)), PrepareFailed(1, 0, Cause.ENVIRONMENT_FAILED, "no solution"))
    assert (job.state, job.cause, job.detail) == (
        State.FAILED,
        Cause.ENVIRONMENT_FAILED,
        f"no solution; not tried again: {retry.HOPELESS}",
    )
    assert job.attempt is not None
    assert job.attempt.tasks[0].phase is Phase.RELEASED


def test_steps_only_grow_and_a_commit_is_seen_too() -> None:
    job = after(running(), Progressed(1, 9), Progressed(1, 4), Progressed(1, committed_step=12))
    assert job.attempt is not None
    assert (job.attempt.seen_step, job.attempt.committed_step, job.attempt.committed_at) == (12, 12, NOW)
    assert after(job, Progressed(1, 11)) is job
    back = after(job, Progressed(1, committed_step=10))
    assert back.attempt is not None
    assert back.attempt.committed_step == 12


def test_a_stopping_attempt_still_commits() -> None:
    job = after(stopping(cause=Cause.PREEMPTED), Progressed(1, committed_step=3))
    assert job.attempt is not None
    assert job.attempt.committed_step == 3


def test_a_damaged_checkpoint_gives_one_task_another_and_gives_a_gang_back() -> None:
    one = after(placed(a_wish()), ResumeSpoiled(1, 5, "bad hash"))
    assert one.attempt is not None
    assert (one.state, one.attempt.resumed_step) == (State.STARTING, 5)
    gang = after(placed(a_wish(nodes=2)), Claimed(1, 0), ResumeSpoiled(1, 5, "bad hash"))
    assert (gang.state, gang.cause, gang.detail) == (State.QUEUED, Cause.NEVER_STARTED, "bad hash")
    assert gang.not_before <= NOW
