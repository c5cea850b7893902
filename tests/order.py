"""In which order tests run side by side: what takes minutes begins first, one such module after another to each worker.

xdist hands each worker a stretch of the list and lets idle ones take from the ends of the others'. So each stretch
begins with its share of the long modules, whole, and ends with what is over in a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# The longest first. What is not here is short.
LONG = (
    "tests/slurm/", "tests/servers/", "tests/guest/", "tests/trainings/", "tests/ssh/test_hosts.py",
    "tests/real/test_progress.py", "tests/real/test_gangs.py",
    "tests/real/test_survival.py", "tests/sim/", "tests/real/", "tests/ssh/", "tests/examples/",
    "tests/agent/test_real", "tests/cli/test_real_server.py", "tests/yardsticks/", "tests/accounts/", "tests/agent/",
)  # fmt: skip
TOGETHER = ("tests/slurm/", "tests/servers/")  # One cluster or database for all of them.
# Each worker has its share: the one is nothing but work for a processor, the other mostly waits.
APART = ("tests/sim/", "tests/trainings/")


def dealt(names: Sequence[str], workers: int) -> list[int]:
    """The new order, as indexes into the old one, of tests with these modules' paths."""
    modules: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        modules.setdefault(next((each for each in TOGETHER if name.startswith(each)), name), []).append(index)
    ranked = sorted(modules, key=_rank)  # Stable: what has the same rank stays as it was.
    long = [name for name in ranked if _rank(name) < len(LONG)]
    hands: list[list[int]] = [[] for _ in range(workers)]
    for number, name in enumerate(long):
        turn, place = divmod(number, workers)
        hands[place if turn % 2 == 0 else workers - 1 - place] += modules[name]
    rest = [index for name in ranked if _rank(name) == len(LONG) for index in modules[name]]
    size = len(names) // workers
    for hand in hands:
        room = max(0, size - len(hand))
        hand += rest[:room]
        rest = rest[room:]
    return [index for hand in hands for index in hand] + rest


def _rank(name: str) -> int:
    return next((number for number, prefix in enumerate(LONG) if name.startswith(prefix)), len(LONG))


def sort(items: list[Any], workers: int) -> None:
    ids = [str(item.nodeid) for item in items]
    names = [each if each.startswith(APART) else each.partition("::")[0] for each in ids]
    items[:] = [items[index] for index in dealt(names, workers)]
