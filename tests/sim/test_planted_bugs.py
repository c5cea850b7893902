"""The judge is judged: each planted bug is noticed within a few seeds, and without it the same seed is fine."""

from __future__ import annotations

import pytest

from headway.sim.run import run_seed
from tests.sim.planted import arrays, lines, savers, saves, starts
from tests.sim.planted.rules import PLANTS, caught

SEEDS = range(120)
LOADED = (arrays, lines, savers, saves, starts)  # Their bugs are among PLANTS once they are.


@pytest.mark.parametrize("bug", PLANTS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    result = caught(bug, SEEDS)
    assert result is not None, f"{len(SEEDS)} seeds, and nobody noticed that {bug}"
    assert not run_seed(result.seed, PLANTS[bug][1]).kind, "that seed fails without the bug too"
