"""Whoever must wait first gets a reservation, and nobody who goes before him delays him."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.model import Job, Node, Policy
from headway.core.scheduling.run_times import STEPS_S, expected_end
from headway.core.scheduling.scheduler import plan, view_of
from headway.core.spec.scheduling import Wishes
from tests.builders import NOW, a_job, a_node, running, succeeded

HOUR = 3600.0


def queue(*wishes: dict[str, Any]) -> list[Job]:
    return [a_job(f"j{number}", **{"seq": number, **wish}) for number, wish in enumerate(wishes, start=1)]


def placed(jobs: list[Job], nodes: list[Node], policy: Policy | None = None) -> list[str]:
    return [each.job for each in plan(view_of(jobs, nodes, policy=policy), NOW).placements]


def busy(node: str, left_s: float, **fields: Any) -> Job:
    """A job that runs on this node for so much longer (by its limit), as of NOW."""
    return running(a_job(f"busy-{node}", user="bob", wall_s_max=left_s, **fields), node)


TWO = [a_node("n1", cpus=4), a_node("n2", cpus=4)]


@pytest.mark.parametrize(
    ("limit_s", "goes"), [(HOUR, True), (HOUR + 1, False), (None, False)], ids=["in time", "too long", "unknown"]
)
def test_a_job_goes_first_only_if_it_is_over_when_the_first_can_start(limit_s: float | None, goes: bool) -> None:
    waiting = queue({"nodes": 2, "cpus": 4}, {"cpus": 4, "wall_s_max": limit_s})
    assert placed([busy("n1", HOUR, cpus=4), *waiting], TWO) == (["j2"] if goes else [])


def test_room_that_the_reservation_leaves_over_is_free_for_all() -> None:
    waiting = queue({"nodes": 2, "cpus": 3}, {"cpus": 1}, {"cpus": 1})
    assert placed([busy("n1", HOUR, cpus=4), *waiting], TWO) == ["j2"], "one cpu is left over beside the gang on n2"


def test_places_that_become_free_later_are_kept_before_places_that_are_free() -> None:
    nodes = [*TWO, a_node("n3", cpus=4)]
    waiting = queue({"nodes": 2, "cpus": 4}, {"cpus": 4})
    others = [busy("n1", HOUR, cpus=4), busy("n2", HOUR, cpus=4)]
    assert placed([*others, *waiting], nodes) == ["j2"], "n1 and n2 are kept, n3 is not needed"


def test_of_those_who_may_go_first_the_shortest_goes_first() -> None:
    waiting = queue(
        {"nodes": 2, "cpus": 4},
        {"cpus": 4, "wall_s_max": 3000.0},
        {"cpus": 4, "wall_s_max": 60.0},
    )
    assert placed([busy("n1", HOUR, cpus=4), *waiting], TWO) == ["j3"]
    urgent = queue(
        {"nodes": 2, "cpus": 4, "priority": 9}, {"cpus": 4, "wall_s_max": 3000.0, "priority": 5}, {"cpus": 4}
    )
    assert placed([busy("n1", HOUR, cpus=4), *urgent], TWO) == ["j2"], "priority goes before length"


def test_without_backfill_the_order_is_strict() -> None:
    waiting = queue({"nodes": 2, "cpus": 4}, {"cpus": 1, "wall_s_max": 60.0})
    assert placed([busy("n1", HOUR, cpus=4), *waiting], TWO, Policy(backfill_depth=0)) == []


def test_who_waits_for_other_nodes_is_not_held_up() -> None:
    nodes = [a_node("cpu", cpus=4, pool="a"), a_node("gpu", cpus=4, gpus=2, pool="b")]
    waiting = queue({"cpus": 4, "pool": "a"}, {"cpus": 4, "gpus": 2, "pool": "b"}, {"cpus": 1, "pool": "a"})
    assert placed([busy("cpu", HOUR, cpus=1), *waiting], nodes) == ["j2"]


def test_whom_no_present_node_could_hold_holds_nobody_up() -> None:
    waiting = queue({"nodes": 3, "cpus": 4}, {"cpus": 5}, {"cpus": 4})
    assert placed(waiting, TWO) == ["j3"]


def test_lengths_come_from_like_jobs_when_there_were_any() -> None:
    ran = [succeeded(a_job(f"old{number}", seq=0)) for number in range(2)]
    waiting = queue({"nodes": 2, "cpus": 4}, {"cpus": 4, "wall_s_max": 9 * HOUR})
    others = [busy("n1", HOUR, cpus=4), *ran]
    assert placed([*others, *waiting], TWO) == ["j2"], "like jobs of this user took no time"
    assert placed([*others, *waiting], TWO, Policy(estimates="limit")) == []


def test_an_own_estimate_counts_where_nothing_else_is_known() -> None:
    waiting = queue({"nodes": 2, "cpus": 4}, {"cpus": 4, "wishes": Wishes(estimate_s=600.0)})
    assert placed([busy("n1", HOUR, cpus=4), *waiting], TWO) == ["j2"]


def test_an_attempt_that_outlives_its_estimate_gets_a_longer_one() -> None:
    assert expected_end(NOW, 100.0, 9000.0, NOW + 99) == NOW + 100
    assert expected_end(NOW, 100.0, 9000.0, NOW + 100) == NOW + 100 + STEPS_S[0]
    assert expected_end(NOW, 100.0, 120.0, NOW + 110) == NOW + 120, "never beyond its limit"
    assert expected_end(NOW, float("inf"), None, NOW + 5000) == NOW + 10000, "what ran for long will run for long"


def test_a_gang_keeps_to_one_zone_when_it_asks_for_that() -> None:
    nodes = [a_node(f"n{number}", zone=zone) for number, zone in enumerate("abbcc")]
    same = a_job(nodes=2, wishes=Wishes(zone="same"))
    seats = plan(view_of([same], nodes), NOW).placements[0].seats
    assert [seat.node for seat in seats] == ["n1", "n2"]
    assert not plan(view_of([a_job(nodes=3, wishes=Wishes(zone="same"))], nodes), NOW).placements
    named = a_job(nodes=2, wishes=Wishes(zone="c"))
    assert [seat.node for seat in plan(view_of([named], nodes), NOW).placements[0].seats] == ["n3", "n4"]


@pytest.mark.parametrize(("layout", "node"), [("", "n1"), ("pack", "n2"), ("spread", "n3")])
def test_layout_prefers_full_or_empty_nodes(layout: str, node: str) -> None:
    nodes = [a_node("n1", cpus=8), a_node("n2", cpus=8), a_node("n3", cpus=8)]
    held = [running(a_job("b1", cpus=2), "n1"), running(a_job("b2", cpus=4), "n2")]
    found = plan(view_of([*held, a_job(wishes=Wishes(layout=layout))], nodes), NOW)
    assert found.placements[0].seats[0].node == node


def test_labels_and_gpu_types_must_match() -> None:
    plain, marked = a_node("n1", gpus=2), a_node("n2", gpus=2, labels={"gpu_type": "A100", "disk": "nvme"})
    for wishes in (Wishes(gpu_type="a100"), Wishes(labels=(("disk", "nvme"),))):
        job = a_job(gpus=1, wishes=wishes)
        view = view_of([], [plain, marked])
        view.saw(None, job)
        assert plan(view, NOW).placements[0].seats[0].node == "n2"


def test_a_node_that_leaves_too_soon_gets_no_long_job() -> None:
    nodes = [a_node("n1", available_until=NOW + 600), a_node("n2")]
    assert plan(view_of([a_job(wall_s_max=HOUR)], nodes), NOW).placements[0].seats[0].node == "n2"
    assert plan(view_of([a_job(wall_s_max=60.0)], nodes), NOW).placements[0].seats[0].node == "n1"


def test_a_long_job_that_must_wait_for_a_lasting_node_does_not_hide_a_short_one() -> None:
    nodes = [a_node("n1", cpus=4, available_until=NOW + 600), a_node("n2", cpus=4)]
    waiting = queue({"cpus": 4, "wall_s_max": HOUR}, {"cpus": 4, "wall_s_max": 60.0})
    assert placed([busy("n2", HOUR, cpus=4), *waiting], nodes) == ["j2"]
