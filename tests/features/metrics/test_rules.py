"""Lines of points: what they say, what they make of rows, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from headway.features.metrics import rules
from headway.features.metrics.rules import Fold, clean, read_line
from headway.features.metrics.same_curves import shown
from headway.features.metrics.tables import Series


def fold(*lines: Any, rank: int = 0) -> Fold:
    made = Fold("j1", 1, [], [], [])
    for line in lines:
        made.take(read_line(line if isinstance(line, bytes) else json.dumps(line).encode(), rank, 7.0), 0)
    return made


def the_row(made: Fold) -> Series:
    (row,) = made.rows()
    return row


def test_a_series_has_its_last_least_and_greatest_value_with_their_steps() -> None:
    row = the_row(fold(*({"s": step, "t": 10.0 + step, "m": {"loss": value}} for step, value in enumerate((3, 1, 2)))))
    assert (row.count, row.last, row.min, row.min_step, row.max, row.max_step) == (3, 2.0, 1.0, 1, 3.0, 0)
    assert (row.first_step, row.last_step, row.first_at, row.at, row.source) == (0, 2, 10.0, 12.0, "log")


def test_what_is_no_number_is_counted_and_hides_no_least_value() -> None:
    row = the_row(fold({"m": {"x": "nan"}}, {"m": {"x": 2.0}}, b'{"m": {"x": NaN}}', {"m": {"x": "-Infinity"}}))
    assert (row.count, row.nans, row.min, row.max, row.last) == (4, 2, -math.inf, 2.0, -math.inf)
    assert the_row(fold({"m": {"x": "nan"}})).last is None


def test_steps_that_go_back_are_counted_and_kept() -> None:
    row = the_row(fold(*({"s": step, "m": {"x": step}} for step in (1, 2, 1, 2, 3))))
    assert (row.count, row.first_step, row.last_step, row.back) == (5, 1, 3, 1)


def test_ranks_and_sources_are_kept_apart() -> None:
    made = fold({"m": {"x": 1}}, {"m": {"x": 2}, "r": 3}, {"m": {"x": 4}, "f": "stdout"}, rank=1)
    assert [(row.rank, row.source, row.last) for row in made.rows()] == [
        (1, "log", 1.0),
        (3, "log", 2.0),
        (1, "stdout", 4.0),
    ]
    assert [(row.rank, row.source) for row in shown(made.rows())] == [(1, "log"), (3, "log")]


def test_a_line_as_people_write_it_is_read_too() -> None:
    made = fold({"step": 3, "loss": 0.5, "at": 5.0, "m": 2.0})
    assert [(row.name, row.last_step, row.last, row.at) for row in made.rows()] == [
        ("loss", 3, 0.5, 5.0),
        ("m", 3, 2.0, 5.0),
    ]


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[1]", b"\xff\xfe", b'{"m": {"x": "red"}}', b'{"m": {"x": null}}', b"[" * 9999]
)
def test_a_line_that_says_no_number_is_counted_and_breaks_nothing(line: bytes) -> None:
    made = fold(line)
    assert (made.rows(), made.unread) == ([], 1)


@pytest.mark.parametrize(("step", "kept"), [(3.0, 3), (2.5, None), (True, None), ("3", None), (2**80, None), (-1, -1)])
def test_a_step_is_a_whole_number_or_none(step: Any, kept: int | None) -> None:
    assert the_row(fold({"s": step, "m": {"x": 1}})).last_step == kept


def test_numbers_of_any_size_and_kind_are_values() -> None:
    made = fold({"m": {"a": True, "b": 10**400, "c": "0.25", "d": -(10**400)}})
    assert [row.last for row in made.rows()] == [1.0, math.inf, 0.25, -math.inf]


def test_a_name_is_kept_as_far_as_a_key_may_go() -> None:
    assert clean("__proto__") == "__proto__"
    assert clean("loss/größe") == "loss/größe"
    assert "\0" not in clean("a\0b\n")
    long, other = clean("x" * 10_000), clean("x" * 10_001)
    assert len(long) <= rules.NAME_CHARS_MAX
    assert long != other
    clean("\ud800").encode()


def test_names_beyond_the_limit_are_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "NAMES_MAX", 3)
    made = fold({"m": {f"n{number}": 1.0 for number in range(5)}}, {"m": {"n0": 2.0, "n9": 1.0}})
    assert (len(made.rows()), made.points, made.left_out) == (3, 4, 3)


def test_parameters_are_kept_once_and_change_with_a_new_value() -> None:
    made = fold({"p": {"lr": 0.1, "opt": "adam"}, "f": "argparse"}, {"p": {"lr": 0.1}, "f": "argparse"})
    assert [(each.name, each.value, each.source) for each in made.fresh_params] == [
        ("lr", "0.1", "argparse"),
        ("opt", "adam", "argparse"),
    ]
    made.saved([])
    made.take(read_line(b'{"p": {"lr": 0.2}, "f": "argparse"}', 0, 0.0), 0)
    assert [each.value for each in made.fresh_params] == ["0.2"]
