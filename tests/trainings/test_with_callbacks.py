"""Trainings with the real libraries and our helper for each: bit-identical after notices and losses."""

from __future__ import annotations

import os
import random

import pytest

from tests.living import Living
from tests.real.torching import torch_python
from tests.trainings.figures import record
from tests.trainings.habits import Habit
from tests.trainings.ordeal import Ordeal, plan
from tests.trainings.test_habits import FULL, LOSSES, NOTICES, SEED
from tests.trainings.with_callbacks import ALL, SHORT

pytestmark = pytest.mark.real
EVERY = os.environ.get("HEADWAY_TEST_TRAININGS") in ("full", "all")  # With `all` each has a few ends only.


@pytest.mark.parametrize("habit", [pytest.param(habit, id=habit.id) for habit in (ALL if EVERY else SHORT)])
def test_it_resumes_to_the_bit(living: Living, habit: Habit) -> None:
    ways = plan(NOTICES, LOSSES, random.Random(SEED)) if FULL else plan(1, 2, random.Random(SEED))
    ordeal = Ordeal(living, habit, torch_python(), seed=SEED)
    verdict = ordeal.run(ways)
    record(habit, SEED, verdict)
    assert not verdict.faults, "\n".join(verdict.faults) + "\n" + ordeal.story()
