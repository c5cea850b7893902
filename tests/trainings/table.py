"""The table of trainings for the docs, from figures that were measured: `python -m tests.trainings.table FIGURES`.

FIGURES is the file that HEADWAY_TEST_FIGURES named in a run (figures.py). Writes docs/reference/trainings.md.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.trainings.habits import LIBRARIES, PLAIN, Habit

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/trainings.md"
HEAD = """# Trainings that were ended again and again

Written by `python -m tests.trainings.table FIGURES`, do not edit; FIGURES is the file that
`HEADWAY_TEST_FIGURES=FIGURES make test-trainings` leaves. A whole run has 20 notices and 20 losses for each row;
`HEADWAY_TEST_ENDS=3,5` has fewer. Each row is a training as people write it, without a line of ours, that was ended at
random moments: by a notice, by the kill of one rank or of all, by the loss of its machine with its disk. What it had
done, saved and gone on from is known from a journal that the script keeps by itself (`tests/trainings`); nothing here
is taken from what Headway says, but for the account, which is held against it.

- **ends**: notices and losses that were brought about.
- **lost with notice**, **lost without**: steps done twice, median and most, where a save is made every so many steps.
  A script that does not save when it is told to end loses with a notice what it loses without. A lost machine takes
  with it what had not reached storage: at the pace of these trainings, a save every half second, that is a save or two
  more, also of a job's very first saves, and of a file that is held open, which is looked into every two seconds.
- **saved, yet lost**: saves that were finished and should have been there, and were not. It must be 0.
- **account**: how often the steps told as lost were those of the journal. A machine that is gone took its last seconds
  with it: its steps are told as "at least", and right where no more were told than were lost, and all of which it had
  five seconds to tell. So are those of a job that was ended before its first save, where only that shows that the
  epochs, or the bar, that it prints are its steps. Ends that were brought about before the account was held to this are
  in the other columns only. [How it is known](../explanation/keeping-progress.md#the-account).

"""
COLUMNS = (
    "training", "save every", "ends", "lost with notice", "lost without", "saved, yet lost", "bit-identical",
    "its own steps", "account",
)  # fmt: skip


def rows(lines: Iterable[Mapping[str, Any]], habits: Iterable[Habit]) -> list[list[str]]:
    by_habit: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        by_habit.setdefault(line["habit"], []).append(line)
    return [_row(habit, by_habit[habit.name]) for habit in habits if habit.name in by_habit]


def _row(habit: Habit, lines: list[Mapping[str, Any]]) -> list[str]:
    def all_of(name: str) -> list[Any]:
        return [each for line in lines for each in line.get(name, ())]

    with_notice, without, account = all_of("lost_with_notice"), all_of("lost_without"), all_of("account")
    return [
        habit.name,
        f"{habit.every} steps" if habit.every > 1 else "step",
        f"{len(with_notice)} + {len(without)}",
        _spread(with_notice),
        _spread(without),
        str(sum(1 for each in all_of("beyond") if each)),
        _share([line["identical"] for line in lines]),
        _share([line["own_steps"] for line in lines]),
        _account(account),
    ]


def _account(account: list[tuple[int, int, bool, bool]]) -> str:
    """How many are right, of those that are told as they are, and of those that are told as a least."""
    account = [each for each in account if len(each) == 4]  # Measured before, it was held to no more than a guess.
    exact, least = ([right for *_, at_least, right in account if at_least is which] for which in (False, True))
    shares = [f"{sum(exact)} of {len(exact)}"] if exact else []
    shares += [f"{sum(least)} of {len(least)} at least"] if least else []
    return ", and ".join(shares) or "–"


def _spread(steps: list[int]) -> str:
    return f"{statistics.median_low(steps)}, {max(steps)}" if steps else "–"


def _share(answers: list[bool]) -> str:
    return "yes" if all(answers) else f"{sum(answers)} of {len(answers)} runs"


def page(lines: list[Mapping[str, Any]]) -> str:
    text = HEAD
    for title, habits in (("Habits without a library", PLAIN), ("Libraries, without our callbacks", LIBRARIES)):
        text += f"## {title}\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
        text += "".join(f"| {' | '.join(row)} |\n" for row in rows(lines, habits)) + "\n"
    return text.rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]))
