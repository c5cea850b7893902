"""Who is placed where: priority, then age; first fit; a gang whole or not at all; and why the rest waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.invariants import broken_on_nodes
from headway.core.job.lifecycle import step
from headway.core.job.signals import CancelAsked, NodeLost, Placed, TaskEnded
from headway.core.model import Job, Node
from headway.core.scheduling.fit import empty_room
from headway.core.scheduling.scheduler import View, Waiting, plan, view_of, why_all_waiting, why_waiting
from tests.builders import BROKEN, NOW, a_job, a_node, after, placed, running, seats

GIB = 2**30


def jobs(*wishes: dict[str, Any]) -> list[Job]:
    return [a_job(f"j{number}", **{"seq": number, **wish}) for number, wish in enumerate(wishes, start=1)]


def planned(waiting: list[Job], *nodes: Node, others: list[Job] | None = None) -> dict[str, list[str]]:
    """Which job gets which nodes."""
    found = plan(view_of([*(others or []), *waiting], nodes), NOW)
    return {placement.job: [seat.node for seat in placement.seats] for placement in found.placements}


# --- order and fit ---


def test_the_older_goes_first() -> None:
    assert list(planned(jobs({"cpus": 2}, {"cpus": 2}, {"cpus": 2}), a_node(cpus=4))) == ["j1", "j2"]


def test_a_larger_priority_goes_before_age() -> None:
    waiting = jobs({"priority": 0}, {"priority": 5}, {"priority": -5}, {"priority": 5})
    assert list(planned(waiting, a_node(cpus=3))) == ["j2", "j4", "j1"]


def test_order_holds_across_shapes() -> None:
    waiting = jobs({"cpus": 1}, {"cpus": 1.5}, {"cpus": 1}, {"cpus": 1.5})
    assert list(planned(waiting, a_node(cpus=4))) == ["j1", "j2", "j3"]


def test_what_does_not_fit_lets_smaller_ones_pass() -> None:
    assert planned(jobs({"cpus": 9}, {"cpus": 2}), a_node(cpus=8)) == {"j2": ["n1"]}


def test_nodes_are_tried_in_the_order_of_their_names() -> None:
    nodes = [a_node("n3"), a_node("n1"), a_node("n2", cpus=1)]
    assert planned(jobs({"cpus": 5}, {"cpus": 5}), *nodes) == {"j1": ["n1"], "j2": ["n3"]}


@pytest.mark.parametrize(
    ("wish", "node"),
    [
        ({"cpus": 8.5}, {"cpus": 8}),
        ({"memory_bytes": 2 * GIB}, {"memory_bytes": GIB}),
        ({"gpus": 3}, {"gpus": 2}),
        ({"pool": "lab"}, {"pool": "local"}),
    ],
    ids=["cpus", "memory", "gpus", "pool"],
)
def test_each_amount_must_fit(wish: dict[str, Any], node: dict[str, Any]) -> None:
    assert not planned(jobs(wish), a_node(**node))
    assert planned(jobs({}), a_node(**node))


def test_ten_tenths_of_a_processor_are_one() -> None:
    assert len(planned(jobs(*[{"cpus": 0.1}] * 11), a_node(cpus=1))) == 10


def test_a_closed_node_gets_nothing() -> None:
    view = view_of(jobs({}), [a_node()])
    view.saw_node(a_node(), False, "silent")
    assert not plan(view, NOW).placements
    view.saw_node(a_node())
    assert plan(view, NOW).placements


def test_who_is_backing_off_waits_until_his_time_comes() -> None:
    view = view_of([a_job(not_before=NOW + 5)], [a_node()])
    assert view.next_wake() == NOW + 5
    assert not plan(view, NOW).placements
    assert plan(view, NOW + 5).placements


def test_a_plan_has_a_limit_and_says_nothing_twice() -> None:
    view = view_of(jobs(*[{"cpus": 0.5}] * 9), [a_node()])
    assert len(plan(view, NOW, placements_most=4).placements) == 4
    assert plan(view, NOW) == plan(view, NOW), "to plan changes nothing"


# --- gangs ---


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    gang = {"nodes": 3, "cpus": 6}
    assert not planned(jobs(gang), a_node("n1"), a_node("n2"))
    assert not planned(jobs(gang), a_node("n1"), a_node("n2"), a_node("n3", cpus=5))
    assert planned(jobs(gang), a_node("n1"), a_node("n2"), a_node("n3")) == {"j1": ["n1", "n2", "n3"]}


def test_a_gang_that_does_not_fit_takes_no_room_from_others() -> None:
    waiting = jobs({"nodes": 3, "cpus": 6}, {"cpus": 8}, {"cpus": 8})
    assert planned(waiting, a_node("n1"), a_node("n2")) == {"j2": ["n1"], "j3": ["n2"]}


def test_the_tasks_of_a_gang_go_to_different_nodes() -> None:
    assert planned(jobs({"nodes": 2}), a_node("n1"), a_node("n2")) == {"j1": ["n1", "n2"]}
    assert not planned(jobs({"nodes": 2}), a_node("n1", cpus=64))


def test_nodes_that_lost_a_job_come_last_but_do_come() -> None:
    waiting = jobs({"avoid": ("n1",)})
    assert planned(waiting, a_node("n1"), a_node("n2")) == {"j1": ["n2"]}
    assert planned(waiting, a_node("n1")) == {"j1": ["n1"]}
    gang = jobs({"avoid": ("n1",), "nodes": 2})
    assert planned(gang, a_node("n1"), a_node("n2")) == {"j1": ["n2", "n1"]}


# --- gpus ---


def test_no_gpu_is_given_twice() -> None:
    view = view_of(jobs({"gpus": 2}, {"gpus": 3}, {"gpus": 3}, {"gpus": 1}), [a_node(gpus=8)])
    found = {placement.job: placement.seats[0].gpus for placement in plan(view, NOW).placements}
    assert found == {"j1": (0, 1), "j2": (2, 3, 4), "j3": (5, 6, 7)}


def test_a_gpu_comes_back_with_its_own_number() -> None:
    view = view_of(jobs({"gpus": 1}, {"gpus": 1}, {"gpus": 1}), [a_node(gpus=2)])
    held = {}
    for placement in plan(view, NOW).placements:
        job = view.queued[placement.job]
        held[job.id] = step(job, Placed(placement.seats), NOW)
        view.saw(job, held[job.id])
    view.saw(held["j1"], step(held["j1"], CancelAsked(told=False), NOW))
    assert [placement.seats[0].gpus for placement in plan(view, NOW).placements] == [(0,)]


def test_a_node_that_comes_back_with_fewer_gpus_gives_no_more_than_it_has() -> None:
    job = a_job(gpus=4)
    view = view_of([job], [a_node(gpus=4)])
    began = step(job, Placed(plan(view, NOW).placements[0].seats), NOW)
    view.saw(job, began)
    view.saw_node(a_node(gpus=2))
    view.saw(began, step(began, CancelAsked(told=False), NOW))
    assert view.rooms["n1"].gpus == (0, 1)


# --- the view ---


def test_a_node_that_joins_late_has_less_room_for_what_it_holds_already() -> None:
    view = View()
    began = placed(a_job(cpus=3, gpus=0), "n1")
    view.saw(None, began)
    view.saw_node(a_node(cpus=8))
    assert view.rooms["n1"].cpus == 5
    view.lost_node("n1")
    view.saw_node(a_node(cpus=8))
    assert view.rooms["n1"].cpus == 5
    view.saw(began, step(began, CancelAsked(told=False), NOW))
    assert view.rooms["n1"] == empty_room(a_node(cpus=8))


def test_who_left_the_queue_and_came_back_stands_there_once() -> None:
    first, second = jobs({"retries_max": 1}, {})
    view = view_of([first, second], [a_node()])
    began = running(second, "n1")
    view.saw(second, began)
    view.saw(began, second)
    assert [placement.job for placement in plan(view, NOW).placements] == ["j1", "j2"]


WISHES = st.fixed_dictionaries(
    {},
    optional={
        "cpus": st.sampled_from([0.1, 0.3, 1.0, 2.5, 4.0]),
        "gpus": st.integers(0, 3),
        "nodes": st.integers(1, 3),
        "priority": st.integers(-1, 1),
        "retries_max": st.integers(0, 2),
    },
)
NODES = st.lists(st.tuples(st.sampled_from([1.0, 4.0, 8.0]), st.integers(0, 4)), min_size=1, max_size=4)


def same_room(one: View, other: View) -> bool:
    """Equal rooms, up to the dust of adding and taking fractions."""
    return set(one.rooms) == set(other.rooms) and all(
        abs(room.cpus - other.rooms[name].cpus) < 1e-9
        and (room.memory_bytes, room.gpus) == (other.rooms[name].memory_bytes, other.rooms[name].gpus)
        for name, room in one.rooms.items()
    )


@given(st.lists(WISHES, max_size=12), NODES, st.data())
def test_a_view_kept_by_deltas_gives_the_plan_of_one_that_is_rebuilt(
    wishes: list[dict[str, Any]], shapes: list[tuple[float, int]], data: st.DataObject
) -> None:
    nodes = [a_node(f"n{number}", cpus, gpus) for number, (cpus, gpus) in enumerate(shapes)]
    held = {job.id: job for job in jobs(*wishes)}
    view = view_of(held.values(), nodes)
    now = NOW
    for _ in range(data.draw(st.integers(1, 8))):
        now += data.draw(st.sampled_from([0.0, 3.0, 1000.0]))
        said = plan(view, now)
        assert same_room(view, view_of(held.values(), nodes))
        assert said == plan(view_of(held.values(), nodes), now)
        assert len({placement.job for placement in said.placements}) == len(said.placements)
        for placement in said.placements:
            _happen(view, held, held[placement.job], Placed(placement.seats), now)
        assert not broken_on_nodes(held.values(), {node.id: node for node in nodes})
        for job in data.draw(st.lists(st.sampled_from(sorted(held)), max_size=4)) if held else []:
            signals = [CancelAsked(), TaskEnded(held[job].number, 0, BROKEN), NodeLost(held[job].number, "n0")]
            _happen(view, held, held[job], data.draw(st.sampled_from(signals)), now)


def _happen(view: View, held: dict[str, Job], job: Job, signal: Any, now: float) -> None:
    then = step(job, signal, now)
    if then is not job:
        view.saw(job, then)
        held[job.id] = then


# --- why ---


@pytest.mark.parametrize(
    ("job", "nodes", "expected"),
    [
        (a_job(not_before=NOW + 9), [a_node()], Waiting(backing_off_s=9.0)),
        (a_job(), [], Waiting(no_nodes=True)),
        (a_job(), [a_node()], Waiting(nodes_fitting=1)),
        (a_job(cpus=9), [a_node()], Waiting(lacks=(("too small", 1),), never=True)),
        (a_job(gpus=1), [a_node("n1"), a_node("n2", gpus=1)], Waiting(nodes_fitting=1, lacks=(("without gpus", 1),))),
        (a_job(pool="lab"), [a_node()], Waiting(lacks=(('not in pool "lab"', 1),), never=True)),
        (a_job(nodes=2), [a_node()], Waiting(nodes_wanted=2, nodes_fitting=1, never=True)),
    ],
)
def test_the_evidence_is_counted(job: Job, nodes: list[Node], expected: Waiting) -> None:
    found = why_waiting(job, view_of([job], nodes), NOW)
    found = replace(found, nodes_seen=0, starts_at=None, starts_exactly=False, starts_unknown=False, change="")
    assert found == expected


def test_what_is_in_use_is_told_from_what_is_too_small() -> None:
    waiting = a_job("j2", cpus=6, seq=2)
    view = view_of([running(a_job("j1", cpus=4), "n1"), waiting], [a_node("n1"), a_node("n2", cpus=2)])
    assert why_waiting(waiting, view, NOW).lacks == (("cpus in use", 1), ("too small", 1))


def test_the_place_in_the_queue_counts_those_who_go_first() -> None:
    waiting = jobs({"priority": 1}, {}, {"priority": 2}, {})
    view = view_of(waiting, [a_node(cpus=0)])
    assert [why_waiting(job, view, NOW).ahead for job in waiting] == [1, 2, 0, 3]
    assert why_all_waiting(waiting, view, NOW) == {job.id: why_waiting(job, view, NOW) for job in waiting}


def test_a_lost_gang_can_be_placed_again_at_once_on_what_is_left() -> None:
    gang = running(a_job(nodes=2), "n1", "n2")
    lost = after(gang, NodeLost(1, "n1"), TaskEnded(1, 1, BROKEN))
    assert planned([lost], a_node("n1"), a_node("n2"), a_node("n3")) == {"j1": ["n3", "n2"]}
    assert seats("n3", "n2").seats == plan(view_of([lost], [a_node("n2"), a_node("n3")]), NOW).placements[0].seats
