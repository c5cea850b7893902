"""A full disk takes no line of the log, and nothing else with it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import structlog

from headway.control.saying import Unfailing


def test_a_line_that_the_disk_does_not_take_ends_nobody() -> None:
    with io.TextIOWrapper(Path("/dev/full").open("wb", buffering=0), write_through=True) as full:
        with pytest.raises(OSError, match="No space left"):
            structlog.PrintLogger(full).info("lost")
        unfailing = Unfailing(full)
        for _ in range(1000):
            structlog.PrintLogger(unfailing).info("a line of the log" * 100)  # type: ignore[arg-type]
    there = io.StringIO()
    structlog.PrintLogger(Unfailing(there)).info("kept")  # type: ignore[arg-type]
    assert there.getvalue() == "kept\n"
