"""The judge's record of what was saved."""

from __future__ import annotations

import pytest

from headway.sim.judge.checkpoints import Saved


@pytest.mark.parametrize(
    ("begun", "begun_at", "too_soon"),
    [
        (45, 130.0, False),  # It is the one that was finished.
        (45, 168.0, False),  # The same, and it took no time.
        (60, 168.0, True),  # A machine woke from its sleep to two saves at once.
        (60, 169.0, True),
        (60, 172.0, False),
    ],
)
def test_a_save_that_is_written_over_at_once_had_no_time_to_be_kept(
    begun: int, begun_at: float, too_soon: bool
) -> None:
    saved = Saved(newest=45, finished_at=168.0, begun=begun, begun_at=begun_at)
    assert saved.written_over_within(4.0) is too_soon
