"""Waiting for something that another process does: the only place in the tests that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
# So long may the slowest machine take: only a test that fails waits for it, and one that passes waits no moment longer.
PATIENCE_S = 300.0
PAUSE_S_MAX = 1.0


def wait_until(
    condition: Callable[[], Answer],
    limit_s: float | None = None,
    every_s: float = 0.05,
    what: str = "the condition",
    story: Callable[[], str] = str,
) -> Answer:
    """Return the first truthy answer of `condition`; fail with `what`, and the `story`, when the limit is over.

    The limit is PATIENCE_S, unless another one is given.
    A look that takes its time is followed by as long a pause: who waits must not take the processor from who works.
    """
    limit_s = PATIENCE_S if limit_s is None else limit_s
    give_up_at = time.monotonic() + limit_s
    while True:
        began_at = time.monotonic()
        answer = condition()
        took_s = time.monotonic() - began_at
        if answer:
            return answer
        if time.monotonic() >= give_up_at:
            raise AssertionError(f"waited {limit_s:g} s for {what}; the last answer was {answer!r}\n{story()}".rstrip())
        time.sleep(max(every_s, min(took_s, PAUSE_S_MAX)))
