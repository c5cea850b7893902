"""The id of one call: whoever asks names it, and events and log lines repeat it, so that one story can be followed.

People's calls have the id that their client gave (a header), agents' calls one made of what each of them says anyway,
and what the leader does of itself the number of its turn.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

HEADER = "X-Request-Id"
GOOD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")

current: ContextVar[str] = ContextVar("headway_request", default="")
"""Of the call that is being answered here; empty outside of any."""


def given(value: str) -> str:
    """The id as somebody gave it; empty where it is none that may stand in a line of the log."""
    return value if GOOD.fullmatch(value) else ""


def of_sync(node: str, agent_epoch: int, seq: int) -> str:
    """The id of an agent's call: the agent writes the same into its own log."""
    return given(f"{node}:{agent_epoch}.{seq}")


def of_turn(epoch: int, number: int) -> str:
    """The id of what the leader does of itself: places, gives up, fires."""
    return f"turn:{epoch}.{number}"
