"""Who saves in a gang: what makes its checkpoint whole, and by what that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headway.core.files.checkpoints import ALL, FIRST, SET_ASIDE, Checkpoint, Gang, gather, newest, to_drop
from headway.core.files.savers import Standing, question, settle, why_incomplete
from headway.core.spec.program_words import CheckpointPolicy


def share(step: int, task: int = 0, attempt: int = 1, **fields: Any) -> Checkpoint:
    key = f"jobs/j1/{attempt}/checkpoints/{step}-{task}"
    return Checkpoint("j1", attempt, task, step, **{"how": "renamed", "key": key, **fields})


def settled(entries: Sequence[Checkpoint], nodes: int = 2, attempt: int = 1, **standing: Any) -> list[Checkpoint]:
    """All entries, with what is known by now written down."""
    known = {each.id: each for each in entries}
    known |= {each.id: each for each in settle(entries, Gang(nodes), Standing(attempt, **standing))}
    return list(known.values())


def complete(entries: Sequence[Checkpoint], gang: Gang) -> list[tuple[int, int]]:
    return [(whole.attempt, whole.step) for whole in gather(entries, gang) if whole.complete]


ONLY_FIRST = [share(15), share(30)]
BOTH = [share(15), share(15, 1), share(30)]
TASK_1 = frozenset({1})


@pytest.mark.parametrize(
    ("entries", "standing", "whole"),
    [
        # Silence says nothing, however often the first has saved.
        (ONLY_FIRST, {}, []),
        # It has heard of 15 and written nothing: perhaps its share of 15 is yet to be begun.
        (ONLY_FIRST, {"idle": {1: 15}}, []),
        # It has heard of a later one, and still has nothing.
        (ONLY_FIRST, {"idle": {1: 30}}, [15, 30]),
        # A while later it still has nothing.
        ([share(15)], {"still_idle": {1: 15}}, [15]),
        (ONLY_FIRST, {"still_idle": {1: 15}}, [15, 30]),
        # It finished by itself, and wrote nothing.
        ([share(15)], {"never_wrote": TASK_1, "finished": TASK_1}, [15]),
        # It was told to end or was killed: by the second save it would have begun with the first,
        (ONLY_FIRST, {"never_wrote": TASK_1}, [15, 30]),
        (ONLY_FIRST, {"never_wrote": TASK_1, "cut_off": TASK_1}, [15, 30]),
        # and where it was asked before it was ended from outside, it had had its time;
        ([share(15)], {"over": TASK_1, "never_wrote": TASK_1, "idle": {1: 15}}, [15]),
        ([share(15)], {"over": TASK_1, "idle": {1: 15}}, [15]),
        # but where a rank failed, it may have been about to write its share.
        ([share(15)], {"over": TASK_1, "never_wrote": TASK_1, "idle": {1: 15}, "failed": True}, []),
        ([share(15)], {"never_wrote": TASK_1, "failed": True}, []),
        ([share(15)], {"never_wrote": TASK_1}, [15]),
        ([share(15)], {"never_wrote": TASK_1, "cut_off": TASK_1, "failed": True}, []),
        # Told to end as the others were, it ended without a save: unless it was killed before it came to it.
        ([share(22, late=True)], {"never_wrote": TASK_1}, [22]),
        ([share(22, late=True)], {"never_wrote": TASK_1, "cut_off": TASK_1}, []),
        # That it had nothing when it was asked says nothing of a save on notice; nor does an end before the notice.
        ([share(22, late=True)], {"never_wrote": TASK_1, "cut_off": TASK_1, "idle": {1: 22}}, []),
        ([share(22, late=True)], {"still_idle": {1: 22}}, []),
        ([share(22, late=True)], {"never_wrote": TASK_1, "finished": TASK_1}, []),
        # Who has saved once is one of those who save.
        (BOTH, {}, [15]),
        (BOTH, {"never_wrote": TASK_1}, [15]),
        # The last saves for all.
        ([share(15, 1), share(30, 1)], {"idle": {0: 30}}, [15, 30]),
        # Names that say "one of several" need the others.
        ([share(15, sharded=True), share(30, sharded=True)], {"never_wrote": TASK_1}, []),
        # A log beside is not a share, and makes nobody one of those who save.
        ([*ONLY_FIRST, share(15, 1, beside=True)], {}, []),
        ([*ONLY_FIRST, share(15, 1, beside=True)], {"idle": {1: 30}}, [15, 30]),
    ],
)
def test_a_step_is_whole_when_those_who_save_have_it_and_the_others_are_known_not_to(
    entries: list[Checkpoint], standing: dict[str, Any], whole: list[int]
) -> None:
    assert complete(settled(entries, **standing), Gang(2)) == [(1, step) for step in whole]


def test_what_was_found_out_holds_at_once_in_the_next_attempt() -> None:
    first = settled(ONLY_FIRST, idle={1: 30})
    assert complete(settled([*first, share(45, attempt=2)], attempt=2), Gang(2)) == [(1, 15), (1, 30), (2, 45)]
    taken_over = share(15, attempt=0, savers=(0,))
    assert complete(settled([taken_over, share(45)]), Gang(2)) == [(0, 15), (1, 45)]


def test_where_all_saved_before_one_alone_is_not_enough() -> None:
    assert complete(settled([*BOTH, share(45, attempt=2)], attempt=2), Gang(2)) == [(1, 15)]


def test_who_saved_in_an_attempt_is_one_of_those_who_save_in_the_next() -> None:
    entries = [share(15, 1), share(20, attempt=2), share(40, attempt=2)]
    assert complete(settled(entries, attempt=2, never_wrote=TASK_1, finished=TASK_1), Gang(2)) == []
    assert complete(settled(entries[1:], attempt=2, never_wrote=TASK_1, finished=TASK_1), Gang(2)) == [(2, 20), (2, 40)]


def test_who_begins_to_save_later_counts_from_then_on() -> None:
    entries = [*settled(ONLY_FIRST, idle={1: 30}), share(45, 1)]
    entries = settled([*entries, share(45), share(60)], never_wrote=TASK_1)
    assert complete(entries, Gang(2)) == [(1, 15), (1, 30), (1, 45)]


def test_of_three_that_are_asked_each_must_answer() -> None:
    entries = [share(15), share(15, 1), share(30), share(30, 1)]
    assert complete(settled(entries, 3), Gang(3)) == []
    assert complete(settled(entries, 3, idle={2: 30}), Gang(3)) == [(1, 15), (1, 30)]
    assert complete(settled([share(15), share(30)], 3, idle={2: 30}), Gang(3)) == []
    found = newest(settled(entries, 3, idle={2: 30}), Gang(3))
    assert found is not None
    assert [part.task for part in found.shares] == [0, 1]


def test_one_that_works_in_the_same_directory_is_in_the_others_share() -> None:
    assert complete([share(15, covers=(1,), sharded=True)], Gang(2)) == [(1, 15)]
    assert question([share(15, covers=(1,))], Gang(2), 1) is None


def test_a_job_may_say_that_the_first_saves_for_all_or_that_all_do() -> None:
    mixed = [share(15), share(30), share(30, 1, state=SET_ASIDE), share(45, 1)]
    assert complete(mixed, Gang(2, FIRST)) == [(1, 15), (1, 30)]
    found = newest([share(15), share(15, 1)], Gang(2, FIRST))
    assert found is not None
    assert [part.task for part in found.shares] == [0], "what another has is not given back"
    assert settle(ONLY_FIRST, Gang(2, ALL), Standing(1, never_wrote=TASK_1)) == []


def test_nobody_is_asked_where_it_is_known_or_no_question() -> None:
    assert question([], Gang(2), 1) is None
    assert question(ONLY_FIRST, Gang(1), 1) is None
    assert question(ONLY_FIRST, Gang(2, ALL), 1) is None
    assert question([share(15), share(15, 1)], Gang(2), 1) is None
    assert question(ONLY_FIRST, Gang(2), 1) == (30, TASK_1)
    assert question(ONLY_FIRST, Gang(3), 1) == (30, frozenset({1, 2}))
    assert question(settled(ONLY_FIRST, never_wrote=TASK_1), Gang(2), 1) is None


def test_steps_that_are_counted_otherwise_are_not_matched_and_it_is_said_what_to_do() -> None:
    entries = [share(3), share(3, 1, unit="save")]
    (whole,) = gather(entries, Gang(2))
    assert not whole.complete
    said = why_incomplete(whole, entries)
    assert said.startswith("the steps of its tasks cannot be matched (task 0 counts steps, task 1 counts saves); call ")
    entries = [share(15), share(1, 1, unit="save")]
    assert "cannot be matched" in why_incomplete(gather(entries, Gang(2))[-1], entries)


def test_it_is_said_who_has_not_saved() -> None:
    (whole,) = gather([share(15)], Gang(2))
    assert why_incomplete(whole, [share(15)]) == (
        "saved by task 0, not by task 1; if the first node saves for all, say so: checkpoint: {saved_by: first}"
    )
    (whole,) = gather([share(15, 1)], Gang(2, FIRST))
    assert why_incomplete(whole, [share(15, 1)]) == "not saved by task 0, which saves for all"
    (whole,) = gather([share(15), share(15, 1, state=SET_ASIDE)], Gang(2))
    assert why_incomplete(whole, whole.parts) == "", "it is damaged, which is said elsewhere"


def test_what_one_task_saves_for_all_is_let_go_as_it_would_be_of_a_single_one() -> None:
    entries = [share(step, savers=(0,)) for step in range(15, 91, 15)]
    gone = to_drop(entries, Gang(2), CheckpointPolicy(), 1)
    assert [each.step for each in gone] == [15, 30, 45]
    waiting = [share(step) for step in range(300)]
    assert len(to_drop(waiting, Gang(2), CheckpointPolicy(), 1)) == 100, "not without end"
