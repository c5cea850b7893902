"""How an end is named: from the exits of a task's ranks to one outcome with one cause.

Pure. The causes are the words of the server's table; what follows from them is the server's business.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from headway_wire import causes
from headway_wire.kinds import replace
from headway_wire.sync import MetPolicy, TaskOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Sequence

DETAIL_CHARS_MAX = 300
LAST_LINE_CHARS_MAX = 200
# A last line that tells what went wrong; any other was merely the last that a rank wrote.
LOOKS_WRONG = re.compile(
    r"^[\w./-]+: |(?i:error|exception|fail|fatal|abort|denied|no such|not found|cannot|can't|unable|invalid|missing"
    r"|refused|unknown|unexpected|usage|killed|out of|interrupt)"
)
NO_ENTRY = "headway: cannot enter the working directory"  # How the note of a keeper begins that could not.
SIGKILL = 9
SHELL_SIGKILL = 128 + SIGKILL
SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip


@dataclass(frozen=True)
class Exit:
    """How one rank ended. `ours` says why we signalled it before: "" (we did not), "stop", "lease" or "end"."""

    rank: int
    exit_code: int | None = None
    signal: int | None = None
    ours: str = ""
    oom: bool = False  # The kernel's count of out-of-memory kills rose while it ran.
    note: str = ""  # A sentence of the keeper, where the rank could not be started.

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def name_outcome(exits: Sequence[Exit], tail: str, marks: Mapping[str, Any] | None = None) -> TaskOutcome:
    """The outcome of a task whose ranks are all dead: success, or the first failing rank with its cause.

    `marks`: what else was noted: `limit` (cause and sentence, where we ended it for a limit), matching `policies`, and
    `disk_full`: where its output is written, if nothing more can be written there.
    """
    marks = marks or {}
    failed = first_failing(exits)
    outcome = _name(exits, failed, tail)
    if marks.get("limit") and (failed is None or failed.ours):
        cause, detail = marks["limit"]
        outcome = replace(outcome, cause=cause, detail=detail)
    if marks.get("disk_full") and failed is not None and outcome.cause == causes.USER_CODE and not outcome.label:
        # What it had to say of it found no room either, so that its output does not show it.
        outcome = replace(outcome, cause=causes.DISK_FULL, detail=_no_room(failed, marks["disk_full"]))
    noted = tuple(MetPolicy(each["label"], each["action"]) for each in marks.get("policies", ()))
    return replace(outcome, policies=(*noted, *outcome.policies)) if noted else outcome


def _no_room(failed: Exit, place: str) -> str:
    return f"rank {failed.rank} ended with exit code {failed.exit_code}, and there is no room for its output in {place}"


def _name(exits: Sequence[Exit], failed: Exit | None, tail: str) -> TaskOutcome:
    if failed is None:
        return TaskOutcome(0) if exits else lost(exits)
    from headway_agent.decide import symptoms

    if failed.ours or failed.oom or failed.note or failed.signal == SIGKILL or failed.exit_code == SHELL_SIGKILL:
        cause, finding = _plain_cause(failed), None
    else:
        finding = symptoms.find(failed.exit_code, failed.signal, tail)
        cause = finding.cause if finding else _plain_cause(failed)
    line = finding.line if finding else ""
    if not line and failed.signal is None:
        line = symptoms.said_last(tail)
        rank = symptoms.failing_rank(tail)
        failed = failed if rank is None else dataclasses.replace(failed, rank=rank)
    outcome = TaskOutcome(failed.exit_code, failed.signal, failed.rank, cause, _detail(failed, cause, line))
    if finding is None:
        return outcome
    policies = (MetPolicy(finding.label, "exclude_node"),) if finding.exclude_node else ()
    return replace(
        outcome,
        label=finding.label,
        suggestion=finding.suggestion,
        retry_helps=finding.again,
        policies=policies,
    )


def first_failing(exits: Iterable[Exit]) -> Exit | None:
    """The first that failed by itself; one that we ended only where there is no other."""
    ours = None
    for each in exits:
        if not each.ok and not each.ours:
            return each
        if not each.ok and ours is None:
            ours = each
    return ours


def lost(exits: Sequence[Exit]) -> TaskOutcome:
    rank = next((each.rank for each in exits if not each.ok), None)
    return TaskOutcome(
        None, None, rank, causes.OUTCOME_LOST, "the keeper of its ranks died, and how they ended was not recorded"
    )


def how_ended(exits: Sequence[Exit], lost: bool, noticed: bool) -> str:
    """How far the files that a task left can be trusted: see checkpoints/completeness.py for the words."""
    if lost or not exits or any(map(_was_killed, exits)):
        first = None if lost else first_failing(exits)
        return "abrupt" if first is not None and _was_killed(first) else "killed"
    if all(each.ok for each in exits):
        return "well"
    # Who was told to end, by whomever, and was not killed, ended when it was done.
    return "notice" if noticed or all(each.ok or each.ours for each in exits) else "failed"


def _was_killed(each: Exit) -> bool:
    return each.exit_code is None or each.exit_code == SHELL_SIGKILL


def reclaimed(outcome: TaskOutcome, why: str = "") -> TaskOutcome:
    """What a task does after its machine's notice is the echo of that notice, however its ranks ended."""
    return replace(outcome, cause=causes.RECLAIMED, detail=why or "its machine was about to go")


def never_began() -> TaskOutcome:
    return TaskOutcome(cause=causes.NEVER_STARTED, detail="stopped before its ranks began")


def _plain_cause(failed: Exit) -> str:
    """The cause that the exit alone tells."""
    if failed.ours:
        return causes.NODE_LOST if failed.ours in ("lease", "end") else causes.CANCELLED
    if failed.oom:
        return causes.OUT_OF_MEMORY
    if failed.signal == SIGKILL or failed.exit_code == SHELL_SIGKILL:
        return causes.KILLED
    if failed.signal is not None:
        return causes.CRASHED
    if failed.note.startswith(NO_ENTRY):
        return causes.PERMISSION_DENIED if failed.note.endswith("ermission denied") else causes.WORKDIR_MISSING
    return {126: causes.NOT_EXECUTABLE, 127: causes.COMMAND_MISSING}.get(failed.exit_code or 0, causes.USER_CODE)


def _detail(failed: Exit, cause: str, line: str) -> str:
    if failed.note:
        return failed.note[:DETAIL_CHARS_MAX]
    if failed.ours == "end":
        return "its node was given back"
    if cause == causes.NODE_LOST:
        return "its lease ran out: the node had no contact with the server"
    if cause == causes.CANCELLED:
        return "stopped on request"
    signal = SIGNAL_NAMES.get(failed.signal or 0, f"signal {failed.signal}")
    if not LOOKS_WRONG.search(line):
        how = f"ended with exit code {failed.exit_code}" if failed.signal is None else f"was ended by {signal}"
        return f"rank {failed.rank} {how}" + (f"; its last line: {line}" if line else "")[:LAST_LINE_CHARS_MAX]
    # The error first: what follows it in a narrow table may be cut.
    who = f" (rank {failed.rank}, {signal if failed.signal is not None else f'exit code {failed.exit_code}'})"
    return line[: DETAIL_CHARS_MAX - len(who)] + who


def were_cut_off(exits: Sequence[Exit]) -> bool:
    """Whether some of these ranks may have been about to do more: they were killed, or failed."""
    return not exits or any(each.signal == SIGKILL or not (each.ok or each.ours) for each in exits)
