"""Seeds that have failed once, with what they showed. A world changes with the code, so each has a small test too."""

from __future__ import annotations

import pytest

from headway.sim.run import run_seed

KEPT = {
    7: "the keeper spun on a moment of the lease that had passed, while tasks with a shorter grace went on",
    9: "a node that was given up while idle was never asked who it is, and never used again",
    26: "a full report that came late made a task seem missing that had begun since",
    29: "a node that came back after its loss was not known to the server",
    33: "a gang waited for ever for a node that was up but not known",
    56: "a claimed task that a new keeper could not take was told to go, and nothing was ever heard of it",
    69: "the order in which nodes were told hung on the hashes of their names: no two runs were the same",
    133: "one rank failed while the agent was dead, and its successor let the others run for ever",
    282: "a task was refused by an agent whose predecessor had claimed it; told to stop, it never came to an end",
    445: "a node that the server did not know was lent 60 s, more than the lease that the server counted",
    226: "a rank ended well while its agent was dead, then came a preemption; it was begun again",
    984: "a claimed task was lost while others were not claimed yet; its end was told too early and never again",
    103677: "the simulated server was killed while it slept, and its successor slept on, with a clock that went back",
    109341: "a simulated machine slept between its keeper's death and the guard's sweep, and woke with ranks alive",
    123: "a rank failed before it could save, and was taken for one that does not: half a checkpoint was resumed",
    187: "who saves was forgotten when retention let the attempt before go, and a save on notice was lost",
    352: "a node answered that it had written nothing before it had heard of the write that was under way",
    740: "a task was killed before its share of a save on notice, and had said that it had none: half was resumed",
    803: "a rank failed 40 ms after its node had saved, and the others were taken for ones that do not save",
    3691: "a machine's lease was judged by one that the boot before had held",
    2059: "a machine woke from its sleep to two saves at once, and the first was judged to have had time to be kept",
    2444: "a keeper died before it heard that it may forget a task; its successor brought it up, and it was never gone",
}


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_failed_once_holds_now(seed: int) -> None:
    result = run_seed(seed)
    assert not result.kind, f"{result.sentence}\n{result.story}"
