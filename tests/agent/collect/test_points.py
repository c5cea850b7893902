from __future__ import annotations

import json
import math

from headway_agent.collect.points import begin_line, lines_of, offsets_in, params_line


def test_points_of_one_step_and_moment_share_a_line():
    points = [("loss", 0.5, 1, 10.0, 5), ("acc", 0.25, 1, 10.1, 9), ("loss", 0.125, 2, 10.2, 14)]
    assert [json.loads(line) for line in lines_of(points, "stdout", 3).splitlines()] == [
        {"t": 10.0, "s": 1, "m": {"loss": 0.5, "acc": 0.25}, "f": "stdout", "o": [3, 9]},
        {"t": 10.2, "s": 2, "m": {"loss": 0.125}, "f": "stdout", "o": [3, 14]},
    ]


def test_the_same_name_twice_at_one_step_is_two_lines():
    points = [("loss", 0.5, None, 10.0, 5), ("loss", 0.25, None, 10.0, 9)]
    assert [json.loads(line)["m"] for line in lines_of(points, "csv", 1).splitlines()] == [
        {"loss": 0.5},
        {"loss": 0.25},
    ]


def test_what_is_no_number_is_said():
    told = json.loads(lines_of([("a", math.nan, 1, 1.0, 1), ("b", -math.inf, 1, 1.0, 2)], "csv", 1))["m"]
    assert math.isnan(told["a"])
    assert told["b"] == -math.inf


def test_numbers_of_32_bits_are_told_in_few_digits():
    line = lines_of([("a", 0.10000000149011612, 1, 1.0, 1)], "tensorboard", 1, single=True)
    assert json.loads(line)["m"] == {"a": 0.1}


def test_the_spool_tells_how_far_each_source_was_read():
    spool = begin_line(1, 77, 'runs/a "b"') + lines_of([("loss", 1, 1, 1.0, 40)], "tensorboard", 1)
    spool += begin_line(2, 78, "rank0.out") + lines_of([("loss", 1, 1, 1.0, 10), ("loss", 2, 2, 2.0, 20)], "stdout", 2)
    spool += params_line({"lr": 0.1}, "tensorboard", 1.0, 1, 60)
    assert offsets_in(spool) == {'runs/a "b"': (1, 77, 60), "rank0.out": (2, 78, 20)}


def test_a_line_that_was_cut_by_a_kill_tells_nothing():
    spool = begin_line(1, 77, "rank0.out") + lines_of([("loss", 1, 1, 1.0, 10)], "stdout", 1)
    cut = lines_of([("loss", 1, 2, 2.0, 20)], "stdout", 1)
    for length in range(len(cut) - 1):
        assert offsets_in(spool + cut[:length] + b"\n") == {"rank0.out": (1, 77, 10)}
