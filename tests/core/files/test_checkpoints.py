"""Which checkpoint is resumed from, which are kept, and what was lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.files.checkpoints import SET_ASIDE, Checkpoint, Gang, at_step, gather, newest, to_drop, unit_of
from headway.core.files.lost_work import DAMAGED, Loss, account, loss_of, set_backs
from headway.core.job.lifecycle import step
from headway.core.job.signals import Claimed, NodeLost, Placed, Progressed, Seat, StopDecided, TaskEnded
from headway.core.model import Attempt, Cause, Job, Outcome, Phase, Task
from headway.core.spec.job import JobSpec
from headway.core.spec.program_words import CheckpointPolicy
from headway.core.steps import named
from headway_wire.sync import HOW


def a_checkpoint(step: int, attempt: int = 1, task: int = 0, **fields: Any) -> Checkpoint:
    key = f"jobs/j1/{attempt}/checkpoints/{step}-{task}"
    return Checkpoint("j1", attempt, task, step, **{"how": "renamed", "key": key, **fields})


def picked(*entries: Checkpoint, tasks: int = 1) -> tuple[int, int] | None:
    whole = newest(entries, Gang(tasks))
    return (whole.attempt, whole.step) if whole else None


def test_the_newest_step_is_resumed_from_whatever_attempt_it_is_of() -> None:
    assert picked() is None
    assert picked(a_checkpoint(5), a_checkpoint(9), a_checkpoint(7, attempt=2)) == (1, 9)


def test_of_equal_steps_the_better_known_wins_and_then_the_newer_attempt() -> None:
    assert picked(a_checkpoint(5, 1, how="declared"), a_checkpoint(5, 2, how="settled")) == (1, 5)
    assert picked(a_checkpoint(5, 1), a_checkpoint(5, 2)) == (2, 5)


def test_a_gang_resumes_only_from_a_step_that_all_its_tasks_have_in_one_attempt() -> None:
    mixed = [a_checkpoint(9, 1, 0), a_checkpoint(9, 2, 1), a_checkpoint(5, 1, 0), a_checkpoint(5, 1, 1)]
    assert picked(*mixed, tasks=2) == (1, 5)
    assert picked(*mixed, a_checkpoint(9, 2, 0, how="settled"), tasks=2) == (2, 9)


def test_a_gang_is_known_as_well_as_its_weakest_share() -> None:
    whole = newest([a_checkpoint(5, how="declared"), a_checkpoint(5, task=1, how="settled")], Gang(2))
    assert whole is not None
    assert whole.how == "settled"
    assert [part.task for part in whole.parts] == [0, 1]


@pytest.mark.parametrize(
    ("units", "unit"),
    [(["step"], "step"), (["save", "epoch"], "epoch"), (["epoch", "step", "save"], "step"), ([], "step")],
)
def test_a_job_is_told_in_the_finest_count_that_it_tells(units: list[str], unit: str) -> None:
    entries = [a_checkpoint(5, task=task, unit=each) for task, each in enumerate(units)]
    assert unit_of(entries) == unit
    assert [whole.unit for whole in gather(entries, Gang(len(units)))] == ([unit] if units else [])


def test_a_step_is_named_by_what_it_counts() -> None:
    assert [named(1200), named(6, "epoch"), named(3, "save")] == ["step 1200", "epoch 6", "save 3"]


def test_one_that_was_set_aside_is_never_resumed_from() -> None:
    assert picked(a_checkpoint(5), a_checkpoint(9, state=SET_ASIDE)) == (1, 5)
    assert at_step([a_checkpoint(9, state=SET_ASIDE)], Gang(1), 9) is None


def kept(entries: list[Checkpoint], tasks: int = 1, attempt: int = 1, **keeping: Any) -> list[tuple[int, int]]:
    gone = {each.id for each in to_drop(entries, Gang(tasks), CheckpointPolicy(**keeping), attempt)}
    return [(each.attempt, each.step) for each in entries if each.id not in gone]


def test_the_last_ones_are_kept() -> None:
    entries = [a_checkpoint(step) for step in range(1, 7)]
    assert kept(entries) == [(1, 4), (1, 5), (1, 6)]
    assert kept(entries, keep_last=1) == [(1, 6)]


@pytest.mark.parametrize(("mode", "best"), [("min", 2), ("max", 4)])
def test_the_best_by_its_metric_is_kept(mode: str, best: int) -> None:
    losses = {1: 0.5, 2: 0.1, 3: 0.4, 4: 0.9, 5: 0.5}
    entries = [a_checkpoint(step, metrics={"loss": loss}) for step, loss in losses.items()]
    assert kept(entries, keep_last=1, best_metric="loss", best_mode=mode) == [(1, best), (1, 5)]
    assert kept(entries, keep_last=1, best_metric="other") == [(1, 5)]


def test_pinned_ones_and_those_taken_over_from_another_job_are_kept() -> None:
    entries = [a_checkpoint(1, 0), a_checkpoint(2, pinned=True), a_checkpoint(3), a_checkpoint(4)]
    assert kept(entries, keep_last=1) == [(0, 1), (1, 2), (1, 4)]


def test_what_a_running_attempt_stored_last_is_kept_though_it_began_anew_with_smaller_steps() -> None:
    """Its agent names the parts of that one again, in each manifest that follows: they must not be collected."""
    before = [a_checkpoint(step, at=float(step)) for step in (98, 99, 100)]
    anew = [a_checkpoint(step, 2, at=1000.0 + step) for step in (1, 2, 3)]
    last = [(1, 98), (1, 99), (1, 100)]
    assert kept([*before, *anew], attempt=2) == [*last, (2, 3)]
    assert kept([*before, *anew], attempt=3) == last, "its agent is gone"
    gang = [replace(each, task=task) for each in [*before, *anew] for task in (0, 1)]
    assert kept([*gang, a_checkpoint(4, 2, at=1004.0)], 2, attempt=2)[6:] == [(2, 3), (2, 4)]


def test_what_the_running_attempt_may_yet_complete_is_kept_and_what_nobody_can_complete_is_not() -> None:
    old_half = a_checkpoint(7, attempt=1)
    passed_over = a_checkpoint(3, attempt=2)
    growing = a_checkpoint(9, attempt=2)
    whole = [a_checkpoint(5, attempt=2), a_checkpoint(5, attempt=2, task=1)]
    entries = [old_half, passed_over, growing, *whole]
    assert kept(entries, 2, attempt=2) == [(2, 9), (2, 5), (2, 5)]


ENTRIES = st.lists(
    st.builds(
        a_checkpoint,
        st.integers(0, 6),
        st.integers(0, 3),
        st.integers(0, 1),
        how=st.sampled_from(HOW),
        state=st.sampled_from(["committed", "committed", SET_ASIDE]),
        pinned=st.booleans(),
        metrics=st.dictionaries(st.just("loss"), st.floats(-9, 9)),
    ),
    max_size=20,
    unique_by=lambda each: each.id,
)


@given(ENTRIES, st.integers(1, 3), st.integers(1, 3), st.sampled_from(["", "loss"]))
def test_retention_never_takes_what_would_be_resumed_from(
    entries: list[Checkpoint], attempt: int, keep_last: int, metric: str
) -> None:
    gone = {each.id for each in to_drop(entries, Gang(2), CheckpointPolicy(keep_last, metric), attempt)}
    left = [each for each in entries if each.id not in gone]
    before, after = newest(entries, Gang(2)), newest(left, Gang(2))
    assert before == after
    assert not any(each.pinned or each.attempt == 0 for each in entries if each.id in gone and _whole(each, entries))
    # What is left is stable: the same retention takes nothing more.
    assert to_drop(left, Gang(2), CheckpointPolicy(keep_last, metric), attempt) == []


def _whole(entry: Checkpoint, entries: list[Checkpoint]) -> bool:
    of_step = [each for each in entries if (each.attempt, each.step) == (entry.attempt, entry.step)]
    return any(each.id == entry.id and gather(of_step, Gang(2))[0].complete for each in of_step)


# --- the account ------------------------------------------------------------------------------------------------------

TOLD = Task(0, "n1", phase=Phase.ENDED, outcome=Outcome(steps_told=True))
LOST = Attempt(1, (TOLD,), 10.0, 20.0, 100.0, Cause.NODE_LOST, seen_step=130, committed_step=100, committed_at=80.0)


def test_steps_lost_are_those_seen_and_not_committed_and_seconds_run_from_the_newest_commit() -> None:
    assert loss_of(LOST) == Loss(30, 20.0)
    assert loss_of(LOST, lambda attempt: 0.5) == Loss(30, 20.0, 10.0)


def test_seconds_lost_end_with_the_work_not_with_the_news_of_it() -> None:
    assert loss_of(replace(LOST, seen_at=90.0), lambda attempt: 0.5) == Loss(30, 10.0, 5.0, at_least=True)
    assert loss_of(replace(LOST, seen_at=80.0)) == Loss(30, 0.0, at_least=True)
    assert loss_of(replace(LOST, seen_at=1000.0)) == Loss(30, 20.0, at_least=True)


def test_what_a_lost_node_did_after_it_was_last_heard_is_not_known() -> None:
    gone, mute = replace(TOLD, phase=Phase.LOST, outcome=None), replace(TOLD, outcome=Outcome())
    assert loss_of(replace(LOST, tasks=(TOLD, gone))).at_least
    assert loss_of(LOST) == Loss(30, 20.0), "its last word was heard"
    anew = replace(TOLD, outcome=Outcome(cause=Cause.OUTCOME_LOST))
    assert loss_of(replace(LOST, tasks=(anew,))) == Loss(30, 20.0, at_least=True), "its disk is gone"
    kept = replace(TOLD, outcome=Outcome(cause=Cause.OUTCOME_LOST, steps_told=True))
    assert loss_of(replace(LOST, tasks=(kept,))) == Loss(30, 20.0), "its output is there"
    dropped = replace(TOLD, phase=Phase.LOST)
    assert loss_of(replace(LOST, tasks=(dropped,))) == Loss(30, 20.0), "its files were, not its word"
    assert account([LOST, replace(LOST, number=2, tasks=(gone,))]).total.at_least
    assert loss_of(replace(LOST, tasks=(mute,))) == Loss(30, 20.0, steps_untold=True)
    assert loss_of(replace(LOST, tasks=(mute, TOLD))) == Loss(30, 20.0), "a gang makes its steps together"
    assert loss_of(replace(LOST, tasks=(gone,))) == Loss(30, 20.0, at_least=True)


RUNS = step(step(Job("j1", JobSpec(("x",), "train"), "ada", 0.0), Placed((Seat("n1"),)), 0.0), Claimed(1, 0), 10.0)
SAVED = step(RUNS, Progressed(1, committed_step=100, saved_at=40.0), 55.0)


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [
        ([(NodeLost(1, "n1"), 60.0)], 20.0),
        ([(NodeLost(1, "n1", silent_s=10.0), 60.0)], 10.0),
        ([(NodeLost(1, "n1", silent_s=40.0), 60.0)], 0.0),
        ([(TaskEnded(1, 0, Outcome(1, cause=Cause.USER_CODE, over_at=45.0)), 60.0)], 5.0),
        ([(TaskEnded(1, 0, Outcome(1, cause=Cause.USER_CODE)), 60.0)], 20.0),
        ([(StopDecided(1, Cause.PREEMPTED), 50.0), (TaskEnded(1, 0, Outcome(0, over_at=52.0)), 60.0)], 12.0),
    ],
)
def test_seconds_lost_run_from_the_save_to_the_last_rank_or_the_last_word(ends: Any, seconds: float) -> None:
    """Saved at 40, in storage and committed at 55: what was done meanwhile is lost as well."""
    job = SAVED
    for signal, now in ends:
        job = step(job, signal, now)
    assert job.attempt is not None
    assert loss_of(job.attempt).seconds == seconds


def test_a_save_is_never_older_than_its_attempt_nor_newer_than_its_news() -> None:
    def at(saved_at: float | None) -> float | None:
        attempt = step(RUNS, Progressed(1, committed_step=1, saved_at=saved_at), 55.0).attempt
        return attempt.committed_at if attempt else None

    assert [at(None), at(2.0), at(99.0)] == [55.0, 10.0, 55.0]


def test_without_a_commit_all_since_the_start_or_the_resumed_step_is_lost() -> None:
    bare = replace(LOST, committed_step=None, committed_at=None)
    assert loss_of(bare) == Loss(130, 80.0)
    assert loss_of(replace(bare, resumed_step=120)) == Loss(10, 80.0)
    assert loss_of(replace(bare, seen_step=None)) == Loss(0, 80.0)


@pytest.mark.parametrize("change", [{"cause": None}, {"ended_at": None}, {"started_at": None}])
def test_a_success_what_goes_on_and_what_never_ran_lose_nothing(change: dict[str, Any]) -> None:
    assert loss_of(replace(LOST, **change)) == Loss()


def test_the_account_adds_up_by_cause() -> None:
    again = replace(LOST, resumed_step=100)
    found = account(
        [LOST, replace(again, number=2, cause=Cause.PREEMPTED), replace(again, number=3), Attempt(4, (), 1.0)]
    )
    assert found.total == Loss(90, 60.0)
    assert dict(found.by_cause) == {"node_lost": Loss(60, 40.0), "preempted": Loss(30, 20.0)}
    assert [number for number, _ in found.attempts] == [1, 2, 3, 4]


def test_what_was_committed_and_cannot_be_restored_is_lost_too() -> None:
    """Attempt 1 did 100 steps in 60 s, attempt 2 went on to 150 in 20 s; then all but step 40 is damaged, then all."""
    two = replace(LOST, number=2, started_at=200.0, resumed_step=100, committed_step=150, committed_at=220.0)
    three = Attempt(3, (), 300.0, 300.0, resumed_step=40, committed_step=60, committed_at=310.0)
    four = Attempt(4, (), 400.0, 400.0)
    tries = [LOST, two, three, four]
    assert [(each.attempt, each.to, each.since) for each in set_backs(tries)] == [(3, 40, 150), (4, 0, 60)]
    first, second = (each.loss for each in set_backs(tries, lambda attempt: 0.5))
    assert (first.steps, round(first.seconds, 6), first.money) == (110, 56.0, 28.0)
    assert (second.steps, round(second.seconds, 6), second.money) == (60, 34.0, 17.0)
    found = account(tries)
    assert dict(found.by_cause)[DAMAGED].steps == 170
    assert found.total.steps == 170 + sum(loss.steps for _, loss in found.attempts)


def test_going_on_from_what_was_committed_is_no_set_back() -> None:
    assert set_backs([LOST, replace(LOST, number=2, resumed_step=100), replace(LOST, number=3, started_at=None)]) == []
