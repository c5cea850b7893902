"""Worlds in which every node is ordered: nothing is left, nobody loses work, and planted bugs are caught."""

from __future__ import annotations

import pytest

from headway.sim.run import run_seed
from tests.sim.planted.orders import PLANTS, caught

KEPT = {29: "a task had ended well when the notice came, both in one call, and was begun again"}


@pytest.mark.parametrize("seed", [*range(12), *KEPT])
def test_a_world_of_ordered_nodes(seed: int) -> None:
    result = run_seed(seed, ordered=True)
    assert not result.kind, f"{result.sentence}\n{result.story[-4000:]}"


@pytest.mark.parametrize("bug", PLANTS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    result = caught(bug, range(40))
    assert result is not None, f"nobody noticed that {bug}"
    assert not run_seed(result.seed, ordered=True).kind, "that seed fails without the bug too"
