"""What standing still says of files, as pure rules."""

from __future__ import annotations

from headway_agent.checkpoints.stillness import without_halves

S = 10**9
MODEL, OPTIMIZER = (1000, 100 * S, 1), (1000, 100 * S + S // 5, 2)
OLD = (1000, 85 * S, 2)
TREE = {"model.pt": MODEL, "optimizer.pt": OPTIMIZER}


def test_half_of_a_save_waits_for_the_other_half_to_settle_as_well() -> None:
    assert without_halves({"model.pt": MODEL}, TREE, {"model.pt": OLD, "optimizer.pt": OLD}) == {}
    assert without_halves(TREE, TREE, {"model.pt": OLD, "optimizer.pt": OLD}) == TREE


def test_what_is_as_it_was_kept_is_no_half_of_anything_new() -> None:
    still = {"model.pt": MODEL}
    assert without_halves(still, TREE, {"optimizer.pt": OPTIMIZER}) == still
    assert without_halves(still, {"model.pt": MODEL}, {"optimizer.pt": OLD}) == still, "it is gone"


def test_a_file_that_is_written_to_all_the_time_is_not_waited_for() -> None:
    still, tree = {"model.pt": MODEL}, {"model.pt": MODEL, "history.bin": (5000, 109 * S, 3)}
    assert without_halves(still, tree, {"history.bin": (4000, 99 * S, 3)}) == still
