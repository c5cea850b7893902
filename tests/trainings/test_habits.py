"""Trainings in the habits that people have, and with the libraries that they use: none loses what it had saved."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from tests.living import Living
from tests.real.torching import torch_python
from tests.trainings.figures import record
from tests.trainings.habits import LIBRARIES, PLAIN, Habit
from tests.trainings.ordeal import Ordeal, plan

pytestmark = pytest.mark.real
FULL = os.environ.get("HEADWAY_TEST_TRAININGS") == "full"
SEED = int(os.environ.get("HEADWAY_TEST_SEED") or 1)
# How many notices and losses: `make test` has a few of each, `make test-trainings` as many as these say.
NOTICES, LOSSES = (int(number) for number in (os.environ.get("HEADWAY_TEST_ENDS") or "20,20").split(","))


def cases(habits: Iterable[Habit]) -> list[Any]:
    return [pytest.param(habit, id=habit.id) for habit in habits if FULL or habit.quick]


@pytest.mark.parametrize("habit", cases([*PLAIN, *LIBRARIES]))
def test_ended_again_and_again_it_loses_nothing_that_it_had_saved(living: Living, habit: Habit) -> None:
    ways = plan(NOTICES, LOSSES, random.Random(SEED)) if FULL else plan(1, 2, random.Random(SEED))
    ordeal = Ordeal(living, habit, torch_python() if habit.library else sys.executable, seed=SEED)
    verdict = ordeal.run(ways)
    record(habit, SEED, verdict)
    assert not verdict.faults, "\n".join(verdict.faults) + "\n" + ordeal.story()
