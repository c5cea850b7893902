"""A gang that lost a node: it keeps the places of the others for a while, and only the lost one is replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.job.signals import NodeLost, StopDecided, TaskEnded
from headway.core.model import Cause, Job, Policy
from headway.core.scheduling.scheduler import plan, view_of
from tests.builders import BROKEN, NOW, a_job, a_node, after, running

NODES = [a_node(f"n{number}", cpus=2) for number in range(1, 5)]
REPAIR_S = Policy().repair_s


def a_lost_gang() -> Job:
    """Three tasks on n1, n2, n3; n2 was lost, the others were ended for it."""
    gang = running(a_job("gang", nodes=3, cpus=2, seq=9), "n1", "n2", "n3")
    return after(gang, NodeLost(1, "n2", "gone"), TaskEnded(1, 0, BROKEN), TaskEnded(1, 2, BROKEN))


def placed(jobs: list[Job], nodes: list[str], now: float = NOW) -> dict[str, list[str]]:
    view = view_of(jobs, [node for node in NODES if node.id in nodes])
    return {each.job: [seat.node for seat in each.seats] for each in plan(view, now).placements}


def test_only_the_lost_place_is_replaced_and_every_other_task_stays() -> None:
    assert placed([a_lost_gang()], ["n1", "n2", "n3", "n4"]) == {"gang": ["n1", "n4", "n3"]}


def test_others_may_not_take_its_places_while_it_waits_for_the_missing_one() -> None:
    urgent = a_job("urgent", cpus=2, priority=7, seq=1)
    assert placed([a_lost_gang(), urgent], ["n1", "n3"]) == {}


def test_when_the_time_for_repair_is_over_the_places_are_anybodys() -> None:
    urgent = a_job("urgent", cpus=2, priority=7, seq=1)
    assert placed([a_lost_gang(), urgent], ["n1", "n3"], NOW + REPAIR_S) == {"urgent": ["n1"]}


def test_somebody_is_woken_when_that_time_is_over() -> None:
    view = view_of([a_lost_gang()], [])
    view.wake(NOW)
    assert view.next_wake() == NOW + REPAIR_S
    view.wake(NOW + REPAIR_S)
    assert view.next_wake() is None


def test_what_its_places_leave_over_is_anybodys() -> None:
    narrow = replace(a_lost_gang(), spec=a_job(nodes=3, cpus=1.5).spec)
    assert placed([narrow, a_job("small", cpus=0.5, seq=10)], ["n1", "n3"]) == {"small": ["n1"]}


@pytest.mark.parametrize("cause", [Cause.PREEMPTED, Cause.USER_CODE])
def test_who_was_preempted_or_failed_keeps_nothing(cause: Cause) -> None:
    gang = running(a_job("gang", nodes=2, cpus=2, retries_max=3), "n1", "n3")
    ended = after(gang, StopDecided(1, cause, ""), TaskEnded(1, 0, BROKEN), TaskEnded(1, 1, BROKEN))
    assert view_of([replace(ended, not_before=0.0)], NODES).repairs == {}


def test_a_single_task_keeps_nothing() -> None:
    lost = after(running(a_job("one"), "n1"), NodeLost(1, "n1", "gone"))
    assert view_of([lost], NODES).repairs == {}
