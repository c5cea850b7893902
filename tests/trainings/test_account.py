"""The account of what a training lost, held against its own journal: steps, seconds and money."""

from __future__ import annotations

import os
import random

import pytest

from tests.living import Living
from tests.trainings.habits import Habit
from tests.trainings.judge import MACHINE, NOTICE, RANK
from tests.trainings.ordeal import Ordeal, plan

pytestmark = pytest.mark.real
FULL = os.environ.get("HEADWAY_TEST_TRAININGS") == "full"
# An interval of 6 s: one that is missed, or counted twice, is more than the slack of the judge.
SLOW = Habit("an account that is exact", "in_place.py", ("--rename",), every=12, pace_s=0.5)


def test_the_account_is_exact_against_the_journal(living: Living) -> None:
    ways = plan(6, 6, random.Random(3)) if FULL else [RANK, MACHINE, NOTICE, MACHINE]
    ordeal = Ordeal(living, SLOW, seed=3, price_per_hour=7200.0)
    verdict = ordeal.run(ways)
    assert verdict.account_exact, "\n".join(verdict.faults) + "\n" + ordeal.story()
    assert not verdict.faults, "\n".join(verdict.faults) + "\n" + ordeal.story()
    told = living.job(ordeal.job)["account"]
    assert (told["unit"], told["total"]["money"]) == ("step", pytest.approx(told["total"]["seconds"] * 2.0, abs=0.01))
