"""Whose fault each cause is, whether to try again, what it costs, and what to tell the user.

One row per cause; retry.py applies the table, explain.py speaks its sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headway.core.model import Cause


class Whose(StrEnum):
    USER = "user"
    CAPACITY = "capacity"
    PLATFORM = "platform"


class Again(StrEnum):
    NEVER = "never"
    IN_BUDGET = "in_budget"  # Costs one of the user's retries, with a growing pause.
    AT_ONCE = "at_once"  # Free of charge.


@dataclass(frozen=True, slots=True)
class Row:
    whose: Whose
    again: Again
    says: str  # What happened, as the end of the sentence "attempt 2 …".
    hint: str = ""


TABLE: dict[Cause, Row] = {
    Cause.USER_CODE: Row(Whose.USER, Again.IN_BUDGET, "failed", "the log's last lines show the error"),
    Cause.COMMAND_MISSING: Row(
        Whose.USER, Again.NEVER, "could not start: the command was not found", "check its spelling and PATH on the node"
    ),
    Cause.NOT_EXECUTABLE: Row(
        Whose.USER,
        Again.NEVER,
        "could not start: the command is not executable",
        "make it executable (chmod +x) or name its interpreter",
    ),
    Cause.SYNTAX_ERROR: Row(
        Whose.USER, Again.NEVER, "failed: the script has a syntax error", "mend the line shown at the end of the log"
    ),
    Cause.CRASHED: Row(
        Whose.USER, Again.IN_BUDGET, "was ended by a signal", "look for a crash in native code near the end of the log"
    ),
    Cause.KILLED: Row(
        Whose.USER,
        Again.IN_BUDGET,
        "was killed by a SIGKILL that Headway did not send",
        "somebody on the machine or the kernel ended it; look at the kernel's log for memory pressure",
    ),
    Cause.OUT_OF_MEMORY: Row(
        Whose.USER, Again.IN_BUDGET, "ran out of memory", "ask for more memory, or make the batch smaller"
    ),
    Cause.STALLED: Row(
        Whose.USER, Again.IN_BUDGET, "made no progress for too long", "see the stack dump in its events"
    ),
    Cause.TIME_LIMIT: Row(Whose.USER, Again.NEVER, "reached its time limit", "raise --max-duration"),
    Cause.COST_LIMIT: Row(Whose.USER, Again.NEVER, "reached its cost limit", "raise the limit"),
    Cause.CANCELLED: Row(Whose.USER, Again.NEVER, "was stopped on request"),
    Cause.BAD_SPEC: Row(Whose.USER, Again.NEVER, "asked for something that cannot be", "correct the job's description"),
    Cause.PREEMPTED: Row(Whose.CAPACITY, Again.AT_ONCE, "made room for another job"),
    Cause.RECLAIMED: Row(Whose.CAPACITY, Again.AT_ONCE, "lost its machine to the cloud's reclaim"),
    Cause.NODE_LOST: Row(Whose.PLATFORM, Again.AT_ONCE, "lost its node"),
    Cause.NEVER_STARTED: Row(Whose.PLATFORM, Again.AT_ONCE, "was not taken up by its node in time"),
    Cause.OUTCOME_LOST: Row(Whose.PLATFORM, Again.AT_ONCE, "lost its keeper on the node, and its outcome with it"),
}
