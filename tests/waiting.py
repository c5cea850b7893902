"""Waiting for something that another process does: the only place in the tests that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def wait_until(
    condition: Callable[[], Answer], limit_s: float = 60, every_s: float = 0.05, what: str = "the condition"
) -> Answer:
    """Return the first truthy answer of `condition`; fail with `what` in the sentence when the limit is over."""
    give_up_at = time.monotonic() + limit_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= give_up_at:
            raise AssertionError(f"waited {limit_s:g} s for {what}; the last answer was {answer!r}")
        time.sleep(every_s)
