"""What was found, a line for each training, in the file that HEADWAY_TEST_FIGURES names: the table of the docs."""

from __future__ import annotations

import dataclasses
import json
import os

from tests.trainings.habits import Habit
from tests.trainings.judge import Verdict


def record(habit: Habit, seed: int, verdict: Verdict) -> None:
    place = os.environ.get("HEADWAY_TEST_FIGURES")
    if place:
        line = json.dumps({"habit": habit.name, "seed": seed, **dataclasses.asdict(verdict)}) + "\n"
        with open(place, "a") as file:
            file.write(line)
