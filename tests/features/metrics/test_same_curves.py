from __future__ import annotations

import pytest

from headway.features.metrics.same_curves import same_name, shown
from headway.features.metrics.tables import Series


def a_series(name: str, source: str, count: int = 10, rank: int = 0, attempt: int = 1) -> Series:
    return Series("job", attempt, 0, rank, name, source, count)


def told(*rows: Series) -> list[tuple[str, str]]:
    return [(row.name, row.source) for row in shown(rows)]


def test_what_is_logged_on_purpose_goes_before_what_is_found_beside_it():
    rows = [a_series("loss", source) for source in ("stdout", "tensorboard", "log", "huggingface")]
    assert told(*rows) == [("loss", "log")]
    assert told(*rows[:2]) == [("loss", "tensorboard")]


def test_few_exact_points_do_not_hide_many():
    posts, printed, report = a_series("loss", "huggingface", 1), a_series("loss", "stdout", 12), "trainer_state"
    assert told(posts, printed) == [("loss", "stdout")]
    assert told(posts, printed, a_series("loss", report, 4)) == [("loss", "stdout")]
    assert told(posts, printed, a_series("loss", report, 12)) == [("loss", report)]


def test_names_that_frameworks_write_differently_are_one_curve():
    rows = [a_series("train/loss", "tensorboard"), a_series("loss", "stdout")]
    rows += [a_series("eval/loss", "tensorboard"), a_series("eval_loss", "stdout")]
    assert told(*rows) == [("eval/loss", "tensorboard"), ("train/loss", "tensorboard")]


def test_two_names_of_one_source_are_two_curves():
    assert told(a_series("train/loss", "tensorboard"), a_series("loss", "tensorboard")) == [
        ("loss", "tensorboard"),
        ("train/loss", "tensorboard"),
    ]


def test_ranks_and_attempts_have_curves_of_their_own():
    rows = [a_series("loss", "log"), a_series("loss", "stdout", rank=1), a_series("loss", "stdout", attempt=2)]
    assert len(shown(rows)) == 3


@pytest.mark.parametrize(
    ("names", "one"),
    [
        (("loss", "Loss", "train/loss"), True),
        (("val_loss", "val/loss", "valid loss", "validation.loss"), True),
        (("loss", "train_loss"), False),
        (("val_loss", "loss"), False),
        (("train/", "train"), False),
    ],
)
def test_which_names_are_the_same(names, one):
    assert (len({same_name(name) for name in names}) == 1) == one
