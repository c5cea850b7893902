"""Trainings without any library, in the habits that people have: none loses what it had saved."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.living import Living
from tests.trainings.figures import record
from tests.trainings.habits import PLAIN, Habit
from tests.trainings.ordeal import Ordeal, plan

pytestmark = pytest.mark.real
FULL = os.environ.get("HEADWAY_TEST_TRAININGS") == "full"
SEED = int(os.environ.get("HEADWAY_TEST_SEED") or 1)


def cases(habits: list[Habit]) -> list[Any]:
    not_yet = [(pytest.mark.xfail(reason=habit.fails, strict=False),) if habit.fails else () for habit in habits]
    return [pytest.param(habit, id=habit.id, marks=marks) for habit, marks in zip(habits, not_yet, strict=True)]


@pytest.mark.parametrize("habit", cases(PLAIN))
def test_ended_again_and_again_it_loses_nothing_that_it_had_saved(living: Living, habit: Habit) -> None:
    ways = plan(20, 20, random.Random(SEED)) if FULL else plan(1, 3, random.Random(SEED))
    ordeal = Ordeal(living, habit, seed=SEED)
    verdict = ordeal.run(ways)
    record(habit, SEED, verdict)
    assert not verdict.faults, "\n".join(verdict.faults) + "\n" + ordeal.story()
