"""Chunks give back what was put in, to the bit; thinned curves keep their spikes."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.features.metrics import chunks
from headway.features.metrics.braille import plot
from headway.features.metrics.curves import NO_STEP, Points, fitting, smoothed, thinned


def points(values: list[float]) -> Points:
    made = Points()
    for step, value in enumerate(values):
        made.add(step, 1e9 + step / 100, value)
    return made


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(2**62), 2**62)),
            st.floats(0, 2e9).map(lambda at: round(at, 3)),
            st.floats(allow_nan=True, allow_infinity=True),
        ),
        min_size=1,
        max_size=50,
    )
)
def test_every_point_comes_back_as_it_was(told: list[tuple[int | None, float, float]]) -> None:
    made = Points()
    for each in told:
        made.add(*each)
    (back,) = chunks.read_all(chunks.write({(0, "x", "log"): made})).values()
    assert back.steps == made.steps
    assert all(abs(one - two) < 1e-6 for one, two in zip(back.at, made.at, strict=True))
    assert [struct.pack("d", value) for value in back.values] == [struct.pack("d", value) for value in made.values]


def test_one_series_of_many_is_read_without_the_others() -> None:
    many = {
        (rank, f"n{number}", "log"): points([rank + number / 1000] * 3) for rank in range(2) for number in range(5000)
    }
    data = chunks.write(many)
    read: list[int] = []

    def get(start: int, end: int) -> bytes:
        read.append(end - start)
        return data[start:end]

    index = chunks.read_index(get)
    assert index.points == 30_000
    read.clear()
    assert chunks.read_points(get, index, (1, "n77", "log"), thin=True).values.tolist() == [1.077] * 3
    assert sum(read) < len(data) / 5
    assert len(chunks.read_points(get, index, (7, "no", "log"), thin=False)) == 0


@pytest.mark.parametrize("cut", [0, 3, 10, 60, -1])
def test_what_is_no_chunk_is_refused(cut: int) -> None:
    data = chunks.write({(0, "x", "log"): points([1.0] * 100)})
    with pytest.raises(chunks.NoChunk):
        chunks.read_all(data[:cut])


def test_a_spike_and_what_is_no_number_survive_thinning() -> None:
    values = [math.sin(number / 1000) for number in range(100_000)]
    values[33_333], values[44_444], values[55_555], values[66_666] = 99.0, -99.0, math.nan, math.inf
    made = fitting(points(values), 2000)
    assert len(made) <= 2100
    assert {99.0, -99.0, math.inf} <= set(made.values)
    assert sum(value != value for value in made.values) == 1
    assert (made.steps[0], made.steps[-1]) == (0, 99_999)
    assert list(made.steps) == sorted(made.steps)


def test_the_thinned_series_of_a_chunk_has_its_spikes_too() -> None:
    values = [0.0] * 10_000
    values[1234] = 5.0
    data = chunks.write({(0, "x", "log"): points(values)})

    def get(start: int, end: int) -> bytes:
        return data[start:end]

    thin = chunks.read_points(get, chunks.read_index(get), (0, "x", "log"), thin=True)
    assert len(thin) < 1000
    assert (max(thin.values), thin.steps[list(thin.values).index(5.0)]) == (5.0, 1234)


def test_infinities_of_both_signs_in_one_bucket_both_stay() -> None:
    assert set(thinned(points([0.0, math.inf, -math.inf, 1.0, 2.0]), 5).values) == {0.0, math.inf, -math.inf, 2.0}


def test_points_without_a_step_have_none() -> None:
    made = Points()
    made.add(None, 1.0, 2.0)
    assert made.steps[0] == NO_STEP


def test_smoothing_begins_at_the_first_value_and_lets_pass_what_is_no_number() -> None:
    told = smoothed([1.0, math.nan, 1.0, 3.0], 0.5)
    assert (told[0], told[2]) == (1.0, 1.0)
    assert told[1] != told[1]
    assert 1.0 < told[3] < 3.0


def test_a_curve_is_drawn_within_its_width_whatever_its_values_are() -> None:
    for values in ([], [math.nan], [1.0], [1.0, 1.0], [0.0, 1e300, -1e300], [1.0, math.inf, 2.0]):
        drawn = plot([(float(place), value) for place, value in enumerate(values)], width=60, title="loss")
        assert all(len(line) <= 62 or "finite" in line for line in drawn.splitlines()), drawn
    assert "1 values are not finite" in drawn
    assert "nothing to draw" in plot([])
