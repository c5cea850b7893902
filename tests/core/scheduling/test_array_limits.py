"""How many jobs of one array may run at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.errors import BadInput
from headway.core.explain import explain_waiting
from headway.core.job.signals import Claimed, NodeLost, RanksOver, TaskEnded
from headway.core.model import Job
from headway.core.scheduling.forecast import expected_starts
from headway.core.scheduling.scheduler import View, plan, view_of, why_waiting
from headway.core.scheduling.waiting_lines import line_up
from headway.core.spec.job import read_spec, show_spec
from headway.core.spec.scheduling import Wishes
from tests.builders import FINE, NOW, a_job, a_node, after, placed, running


def an_array(name: str = "a", size: int = 6, at_once: int = 2, first_seq: int = 1) -> list[Job]:
    spec = a_job(wishes=Wishes(at_once=at_once)).spec
    ids = [(f"{name}-{at}", first_seq + at, at) for at in range(size)]
    return [replace(a_job(id, seq=seq), spec=spec, array_id=name, array_index=at) for id, seq, at in ids]


def starts(view: View) -> list[str]:
    return [placement.job for placement in plan(view, NOW).placements]


def test_no_more_of_an_array_start_than_may_run_at_once() -> None:
    assert starts(view_of(an_array(), [a_node(cpus=8)])) == ["a-0", "a-1"]


def test_those_that_hold_places_count_and_an_end_lets_the_next_go() -> None:
    array = an_array()
    first, second = running(array[0]), running(array[1])
    view = view_of([first, second, *array[2:]], [a_node(cpus=8)])
    assert starts(view) == []
    view.saw(first, after(first, TaskEnded(1, 0, FINE)))
    assert starts(view) == ["a-2"]
    assert view.of_array == {"a": 1}


def test_what_only_saves_its_files_holds_up_nobody() -> None:
    array = an_array(at_once=1)
    first = running(array[0])
    view = view_of([first, *array[1:]], [a_node(cpus=8)])
    view.saw(first, after(first, RanksOver(1, 0, replace(FINE, over_at=NOW))))
    assert starts(view) == ["a-1"]


def test_the_limit_holds_up_no_other_job_and_no_equal_array() -> None:
    spec = an_array()[0].spec
    other = [replace(job, spec=spec) for job in an_array("b", first_seq=50)]
    waiting = [*an_array(), *other, a_job("j1", seq=99)]
    assert starts(view_of(waiting, [a_node(cpus=8)])) == ["a-0", "a-1", "b-0", "b-1", "j1"]


def test_a_retried_element_counts_with_its_array() -> None:
    array = an_array(at_once=2)
    again = replace(a_job("again", seq=50, avoid=("n2",)), spec=array[0].spec, array_id="a", array_index=0)
    view = view_of([running(array[1]), again, *array[2:]], [a_node(cpus=8)])
    assert len(starts(view)) == 1


def test_an_element_whose_node_was_lost_gives_its_place_in_the_limit_back() -> None:
    array = an_array(at_once=1)
    first = running(array[0])
    view = view_of([first, *array[1:]], [a_node(cpus=8)])
    view.saw(first, after(first, NodeLost(1, "n1", "gone")))
    assert view.of_array == {}
    assert len(starts(view)) == 1


def test_whoever_waits_in_line_takes_over_a_place_in_the_limit_too() -> None:
    array = an_array(at_once=1)
    first = running(array[0])
    view = view_of([first, *array[1:]], [a_node(cpus=8)])
    ended = after(running(a_job("old", seq=0)), TaskEnded(1, 0, FINE))
    view.history.learn(ended, view.lane_name(array[0]).length)
    lined = line_up(view, NOW, 1e9, lambda node: True)
    assert {each.behind.partition("/")[0] for each in lined[:1]} <= {"a-0"}
    assert starts(view) == []


def test_why_says_the_limit_and_when_the_next_may_start() -> None:
    array = an_array(at_once=1)
    runs = running(replace(array[0], spec=replace(array[0].spec, wall_s_max=60.0)))
    view = view_of([runs, *array[1:]], [a_node(cpus=8)])
    said = explain_waiting(array[1], why_waiting(array[1], view, NOW), NOW)
    assert said.startswith("waits: 1 of array a has a place, and 1 may at once")


def test_the_forecast_keeps_to_the_limit() -> None:
    array = [replace(job, spec=replace(job.spec, wall_s_max=60.0)) for job in an_array(size=3, at_once=1)]
    spec = array[0].spec
    view = view_of([replace(job, spec=spec) for job in array], [a_node(cpus=8)])
    found = expected_starts(view, NOW).starts
    assert [found[job.id].at for job in array] == sorted({found[job.id].at for job in array})


def test_a_view_kept_by_deltas_counts_like_one_that_is_built_anew() -> None:
    array = an_array(at_once=3)
    view = view_of(array, [a_node(cpus=8)])
    waits, taken = array[0], placed(array[0])
    view.saw(waits, taken)
    view.saw(taken, after(taken, Claimed(1, 0)))
    assert view.of_array == view_of([after(taken, Claimed(1, 0)), *array[1:]], [a_node(cpus=8)]).of_array == {"a": 1}


def test_the_short_form_says_both_words() -> None:
    spec = read_spec({"command": ["true"], "array": "1000%8"})
    assert (spec.wishes.array, spec.wishes.at_once) == (1000, 8)
    assert show_spec(spec)["at_once"] == 8
    assert read_spec(show_spec(spec)) == spec


@pytest.mark.parametrize("said", ["10%", "%3", "10%0", "10%x", "0%3", "10%3%2"])
def test_what_is_not_a_count_is_refused(said: str) -> None:
    with pytest.raises(BadInput):
        read_spec({"command": ["true"], "array": said})


def test_the_limit_is_said_once() -> None:
    with pytest.raises(BadInput, match="both say how many"):
        read_spec({"command": ["true"], "array": "10%3", "at_once": 4})
