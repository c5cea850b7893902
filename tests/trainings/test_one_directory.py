"""Two nodes of one machine that work in the same directory of their user: what both save there is kept once."""

from __future__ import annotations

import json

import pytest

from tests.living import Living
from tests.trainings.habits import Habit
from tests.trainings.judge import NOTICE, RANK, RANKS
from tests.trainings.ordeal import Ordeal

pytestmark = pytest.mark.real

SEED = 6  # It has saved twice before its first end.
HABITS = [
    Habit("the first saves for both", "gang.py", ("--folder", "."), nodes=2),
    Habit("each saves its part", "gang.py", ("--saves", "each", "--folder", "."), nodes=2),
]


@pytest.mark.parametrize("habit", [pytest.param(habit, id=habit.id) for habit in HABITS])
def test_what_two_nodes_save_in_one_directory_is_kept_by_one_and_put_back_once(living: Living, habit: Habit) -> None:
    ordeal = Ordeal(living, habit, seed=SEED)
    verdict = ordeal.run([NOTICE, RANK, NOTICE, RANKS])
    assert not verdict.faults, "\n".join(verdict.faults) + "\n" + ordeal.story()
    shown = json.loads(living.ok("checkpoints", ordeal.job, "--json"))["checkpoints"]
    assert {tuple(each["tasks"]) for each in shown} == {(0,)}
    assert all(each["resumable"] for each in shown)
