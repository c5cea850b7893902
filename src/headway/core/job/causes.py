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
        Whose.USER, Again.NEVER, "failed: the script has a syntax error", "fix the line shown at the end of the log"
    ),
    Cause.CRASHED: Row(
        Whose.USER, Again.IN_BUDGET, "was ended by a signal", "look for a crash in native code near the end of the log"
    ),
    Cause.KILLED: Row(
        Whose.USER,
        Again.IN_BUDGET,
        "was killed by a SIGKILL that Headway did not send",
        "someone on the machine or the kernel killed it; check the kernel log for memory pressure",
    ),
    Cause.OUT_OF_MEMORY: Row(
        Whose.USER, Again.IN_BUDGET, "ran out of memory", "request more memory, or use a smaller batch"
    ),
    Cause.GPU_OUT_OF_MEMORY: Row(
        Whose.USER, Again.NEVER, "ran out of GPU memory", "use a smaller batch, or request a larger GPU"
    ),
    Cause.NOT_A_NUMBER: Row(
        Whose.USER, Again.NEVER, "produced NaN or Inf", "lower the learning rate, or clip gradients"
    ),
    Cause.IMPORT_ERROR: Row(
        Whose.USER, Again.NEVER, "could not import a module", "add the package to what the environment is made from"
    ),
    Cause.DATA_MISSING: Row(
        Whose.USER, Again.NEVER, "did not find its data", "name it under inputs or volumes, or fix the path"
    ),
    Cause.PERMISSION_DENIED: Row(
        Whose.USER, Again.NEVER, "was denied access", "check the file's owner; ranks run as the agent's user"
    ),
    Cause.DISK_FULL: Row(
        Whose.USER, Again.NEVER, "found the disk full", "write less, or free space on the node that is named"
    ),
    Cause.SHARED_MEMORY: Row(
        Whose.USER, Again.NEVER, "ran out of shared memory", "use fewer data loader workers, or enlarge /dev/shm"
    ),
    Cause.COLLECTIVE_TIMEOUT: Row(
        Whose.USER,
        Again.IN_BUDGET,
        "waited too long for another rank",
        "look for the rank that fell behind; the network between the nodes may be at fault",
    ),
    Cause.IMAGE_REFUSED: Row(
        Whose.USER, Again.NEVER, "could not get its image", "check the image's name and the registry's access"
    ),
    Cause.ENVIRONMENT_FAILED: Row(
        Whose.USER,
        Again.NEVER,
        "could not build its environment",
        "correct the file that names the packages, or let the node reach where they come from; then submit again",
    ),
    Cause.INPUT_MISSING: Row(
        Whose.USER, Again.NEVER, "could not get one of its inputs", "check its address, its access and its hash"
    ),
    Cause.BUNDLE_MISSING: Row(
        Whose.USER, Again.NEVER, "could not get its code", "submit it again, so that the bundle is uploaded again"
    ),
    Cause.SECRET_MISSING: Row(
        Whose.USER, Again.NEVER, "could not get one of its secrets", "headway secret ls shows those of its project"
    ),
    Cause.STALLED: Row(
        Whose.USER,
        Again.IN_BUDGET,
        "made no progress for too long",
        "headway artifacts get JOB headway-dumps shows where each rank stood",
    ),
    Cause.OUTPUT_LIMIT: Row(Whose.USER, Again.NEVER, "wrote more output than its limit", "raise limits.output"),
    Cause.TIME_LIMIT: Row(Whose.USER, Again.NEVER, "reached its time limit", "raise --max-duration"),
    Cause.PENDING_LIMIT: Row(
        Whose.USER, Again.NEVER, "waited longer than its limit", "raise limits.pending, or ask for less"
    ),
    Cause.CANCELLED: Row(Whose.USER, Again.NEVER, "was stopped on request"),
    Cause.BAD_SPEC: Row(Whose.USER, Again.NEVER, "asked for something impossible", "correct the job's description"),
    Cause.OUTPUTS_UNKEPT: Row(
        Whose.USER,
        Again.NEVER,
        "ended, but its outputs could not be kept",
        "fix what is named, then headway rerun JOB; what was kept: headway artifacts ls JOB",
    ),
    Cause.REQUEUE_ASKED: Row(Whose.CAPACITY, Again.AT_ONCE, "asked to be queued again (exit code 99)"),
    Cause.PREEMPTED: Row(Whose.CAPACITY, Again.AT_ONCE, "made room for another job"),
    Cause.RECLAIMED: Row(Whose.CAPACITY, Again.AT_ONCE, "lost its machine, which was taken back"),
    Cause.NODE_LOST: Row(Whose.PLATFORM, Again.AT_ONCE, "lost its node"),
    Cause.NEVER_STARTED: Row(Whose.PLATFORM, Again.AT_ONCE, "was not started by its node in time"),
    Cause.UNREACHABLE: Row(
        Whose.PLATFORM,
        Again.AT_ONCE,
        "could not reach the source of its data or packages",
        "check the address, and that the node can reach it",
    ),
    Cause.OUTCOME_LOST: Row(Whose.PLATFORM, Again.AT_ONCE, "lost its keeper on the node, and its outcome with it"),
    Cause.FILES_LOST: Row(Whose.PLATFORM, Again.AT_ONCE, "ended, but its machine went before its files could be kept"),
}
