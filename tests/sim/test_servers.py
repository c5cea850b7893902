"""Worlds in which several servers share a store: one leads, nothing is lost, and planted bugs are caught."""

from __future__ import annotations

import pytest

from headway.sim.run import run_seed
from tests.sim.planted.servers import PLANTS, caught, run

KEPT = {
    24: "a node that woke up was told of a line out of which one had dropped: the next began beside the first",
    34: "the answer to an agent's first call reads the store; it was away, and the control thread ended",
    89: "a plan asks the store for a checkpoint to go on from; it was away, and the control thread ended",
}
KEPT_ORDERED = {
    69: "the store failed between two outputs of a call: the first was remembered as taken, and its bytes were lost",
    1060: "the store was away; an order that could not be saved stood in memory, and was placed at the next look",
    1022: "a leader that was replaced while it slept woke up and gave its successor's nodes back under a task",
}


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_failed_once_holds_now(seed: int) -> None:
    result = run_seed(seed, servers=2 + seed % 2)
    assert not result.kind, f"{result.sentence}\n{result.story[-4000:]}"


@pytest.mark.parametrize("seed", [0, 1, *KEPT_ORDERED])
def test_several_servers_with_ordered_nodes(seed: int) -> None:
    result = run_seed(seed, ordered=True, servers=2 + seed % 2)
    assert not result.kind, f"{result.sentence}\n{result.story[-4000:]}"


@pytest.mark.parametrize("bug", PLANTS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    result = caught(bug, 40)
    assert result is not None, f"nobody noticed that {bug}"
    assert not run(bug, result.seed).kind, "that seed fails without the bug too"


def test_a_seed_with_several_servers_tells_the_same_story_every_time() -> None:
    first, second = run_seed(3), run_seed(3)
    assert (first.trace, first.steps) == (second.trace, second.steps)
