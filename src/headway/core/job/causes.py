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
class CauseRow:
    whose: Whose
    again: Again
    says: str  # What happened, as the end of the sentence "attempt 2 …".
    hint: str = ""


TABLE: dict[Cause, CauseRow] = {
    Cause.USER_CODE: CauseRow(Whose.USER, Again.IN_BUDGET, "failed", "the log's last lines show the error"),
    Cause.COMMAND_MISSING: CauseRow(
        Whose.USER, Again.NEVER, "could not start: the command was not found", "check its spelling and PATH on the node"
    ),
    Cause.NOT_EXECUTABLE: CauseRow(
        Whose.USER,
        Again.NEVER,
        "could not start: the command is not executable",
        "make it executable (chmod +x) or name its interpreter",
    ),
    Cause.SYNTAX_ERROR: CauseRow(
        Whose.USER, Again.NEVER, "failed: the script has a syntax error", "fix the line shown at the end of the log"
    ),
    Cause.CRASHED: CauseRow(
        Whose.USER, Again.IN_BUDGET, "was ended by a signal", "look for a crash in native code near the end of the log"
    ),
    Cause.KILLED: CauseRow(
        Whose.USER,
        Again.IN_BUDGET,
        "was killed by a SIGKILL that Headway did not send",
        "someone on the machine or the kernel killed it; check the kernel log for memory pressure",
    ),
    Cause.OUT_OF_MEMORY: CauseRow(
        Whose.USER, Again.IN_BUDGET, "ran out of memory", "request more memory, or use a smaller batch"
    ),
    Cause.GPU_OUT_OF_MEMORY: CauseRow(
        Whose.USER, Again.NEVER, "ran out of GPU memory", "use a smaller batch, or request a larger GPU"
    ),
    Cause.NOT_A_NUMBER: CauseRow(
        Whose.USER, Again.NEVER, "produced NaN or Inf", "lower the learning rate, or clip gradients"
    ),
    Cause.IMPORT_ERROR: CauseRow(
        Whose.USER, Again.NEVER, "could not import a module", "add the package to what the environment is made from"
    ),
    Cause.DATA_MISSING: CauseRow(
        Whose.USER, Again.NEVER, "did not find its data", "name it under inputs or volumes, or fix the path"
    ),
    Cause.PERMISSION_DENIED: CauseRow(
        Whose.USER, Again.NEVER, "was denied access", "check the file's owner; ranks run as the agent's user"
    ),
    Cause.DISK_FULL: CauseRow(
        Whose.USER, Again.NEVER, "found the disk full", "write less, or free space on the node that is named"
    ),
    Cause.SHARED_MEMORY: CauseRow(
        Whose.USER, Again.NEVER, "ran out of shared memory", "use fewer data loader workers, or enlarge /dev/shm"
    ),
    Cause.COLLECTIVE_TIMEOUT: CauseRow(
        Whose.USER,
        Again.IN_BUDGET,
        "waited too long for another rank",
        "look for the rank that fell behind; the network between the nodes may be at fault",
    ),
    Cause.IMAGE_REFUSED: CauseRow(
        Whose.USER, Again.NEVER, "could not get its image", "check the image's name and the registry's access"
    ),
    Cause.ENVIRONMENT_FAILED: CauseRow(
        Whose.USER,
        Again.NEVER,
        "could not build its environment",
        "correct the file that names the packages, or let the node reach where they come from; then submit again",
    ),
    Cause.INPUT_MISSING: CauseRow(
        Whose.USER, Again.NEVER, "could not get one of its inputs", "check its address, its access and its hash"
    ),
    Cause.BUNDLE_MISSING: CauseRow(
        Whose.USER, Again.NEVER, "could not get its code", "submit it again, so that the bundle is uploaded again"
    ),
    Cause.SECRET_MISSING: CauseRow(
        Whose.USER, Again.NEVER, "could not get one of its secrets", "headway secret ls shows those of its project"
    ),
    Cause.WORKDIR_MISSING: CauseRow(
        Whose.USER,
        Again.NEVER,
        "did not find its working directory",
        "submit it again from a directory that is there; with --bundle its files are sent along to any node",
    ),
    Cause.STALLED: CauseRow(
        Whose.USER,
        Again.IN_BUDGET,
        "made no progress for too long",
        "headway artifact get JOB headway-dumps shows where each rank stood",
    ),
    Cause.OUTPUT_LIMIT: CauseRow(Whose.USER, Again.NEVER, "wrote more output than its limit", "raise limits.output"),
    Cause.TIME_LIMIT: CauseRow(Whose.USER, Again.NEVER, "reached its time limit", "raise --max-duration"),
    Cause.PENDING_LIMIT: CauseRow(
        Whose.USER, Again.NEVER, "waited longer than its limit", "raise limits.pending, or ask for less"
    ),
    Cause.CANCELLED: CauseRow(Whose.USER, Again.NEVER, "was stopped on request"),
    Cause.NOT_NEEDED: CauseRow(
        Whose.USER, Again.NEVER, "is not needed any more", "to run it all the same, submit it without --after"
    ),
    Cause.BAD_SPEC: CauseRow(
        Whose.USER, Again.NEVER, "asked for something impossible", "correct the job's description"
    ),
    Cause.OUTPUTS_UNKEPT: CauseRow(
        Whose.USER,
        Again.NEVER,
        "ended, but its outputs could not be kept",
        "fix what is named, then headway rerun JOB; what was kept: headway artifact ls JOB",
    ),
    Cause.REQUEUE_ASKED: CauseRow(Whose.CAPACITY, Again.AT_ONCE, "asked to be queued again (exit code 99)"),
    Cause.PREEMPTED: CauseRow(Whose.CAPACITY, Again.AT_ONCE, "made room for another job"),
    Cause.RECLAIMED: CauseRow(Whose.CAPACITY, Again.AT_ONCE, "lost its machine, which was taken back"),
    Cause.NODE_LOST: CauseRow(Whose.PLATFORM, Again.AT_ONCE, "lost its node"),
    Cause.NEVER_STARTED: CauseRow(Whose.PLATFORM, Again.AT_ONCE, "was not started by its node in time"),
    Cause.UNREACHABLE: CauseRow(
        Whose.PLATFORM,
        Again.AT_ONCE,
        "could not reach the source of its data or packages",
        "check the address, and that the node can reach it",
    ),
    Cause.OUTCOME_LOST: CauseRow(Whose.PLATFORM, Again.AT_ONCE, "lost its keeper on the node, and its outcome with it"),
    Cause.FILES_LOST: CauseRow(
        Whose.PLATFORM, Again.AT_ONCE, "ended, but its machine went before its files could be kept"
    ),
}
