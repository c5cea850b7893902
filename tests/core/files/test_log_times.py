"""When bytes of a log were written: marks are kept short, and lose nothing that anybody is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.core.files.log_times import APART_S, Mark, Thinning, packed, times_of, unpacked

MARKS = st.lists(st.tuples(st.integers(1, 10**9), st.integers(-(10**4), 10**6)), max_size=50).map(
    lambda steps: _summed(steps)
)


def _summed(steps: list[tuple[int, int]]) -> list[Mark]:
    marks, end, tick = [], 0, 17_900_000_000
    for more, later in steps:
        end, tick = end + more, tick + later
        marks.append((end, tick / 10))
    return marks


@given(MARKS)
def test_marks_come_out_as_they_went_in(marks: list[Mark]) -> None:
    assert unpacked(packed(marks)) == marks


@given(MARKS)
def test_thinned_marks_are_no_further_from_the_truth_than_a_second(marks: list[Mark]) -> None:
    thinning = Thinning()
    thinning.add(marks)
    for end, at in marks:
        told = next(when for kept, when in thinning.kept if kept >= end)
        assert abs(told - at) <= 2 * APART_S


def test_a_piece_without_marks_has_the_time_of_its_end() -> None:
    assert times_of(10, 20, 5.0, "") == [(20, 5.0)]


def test_a_piece_that_was_cut_has_the_marks_of_what_is_left() -> None:
    times = packed([(10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)])
    assert times_of(0, 40, 4.0, times) == [(10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)]
    assert times_of(15, 25, 4.0, times) == [(20, 2.0), (25, 3.0)]
    assert times_of(20, 30, 4.0, times) == [(30, 3.0)]
    assert times_of(30, 50, 9.0, times) == [(40, 4.0), (50, 9.0)]
