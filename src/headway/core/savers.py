"""Who saves in a gang: every task its share, the first for all, or some of them. Found out from what is committed.

That a task does not save is known by its agent's word ("the others have saved step 30, and mine has written nothing",
"mine is over, and never wrote anything") or from before; silence says nothing. The tasks of a gang are taken to move
together: where one has saved in its course, the others have begun to as well, or do not save. What was found out is
written down with the shares (`Checkpoint.savers`): whoever reads them sees the same. control/savers.py asks and hears.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headway.core.checkpoints import AUTO, COMMITTED, FIRST, Checkpoint, Gang, Whole, gather

DECLARE = "call headway.checkpoint(step) on each, or put the step into the file's name"
SAY_FIRST = "if the first node saves for all, say so: checkpoint: {saved_by: first}"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of the tasks of an attempt beside what they have committed."""

    attempt: int
    idle: Mapping[int, int] = field(default_factory=dict)  # Who had written nothing when it heard of which step.
    over: frozenset[int] = frozenset()  # They will write no more.
    never_wrote: frozenset[int] = frozenset()  # Of these: those that never did,
    cut_off: frozenset[int] = frozenset()  # and those of them that may have been about to.


def settle(entries: Sequence[Checkpoint], gang: Gang, standing: Standing) -> list[Checkpoint]:
    """The shares of an attempt of which it is known by now who saves beside their task: as they are to be noted."""
    mine = [each for each in entries if each.attempt == standing.attempt]
    if gang.saved_by != AUTO or gang.tasks == 1 or any(each.sharded for each in mine):
        return []  # The names of shares say that there are others.
    savers = _savers(mine)
    others = gang.everybody - savers - {task for each in mine for task in each.covers}
    if not savers or not others:
        return []
    before = _before(entries, gang, standing.attempt)
    quiet = frozenset[int]() if before is None else gang.everybody - before
    open_ = [each for each in mine if not each.savers and each.task in savers]
    if not any(all(_is_idle(task, each, standing, quiet) for task in others) for each in open_):
        return []
    return [replace(each, savers=tuple(sorted(savers))) for each in open_]  # What holds of one holds of all.


def _is_idle(task: int, share: Checkpoint, standing: Standing, quiet: frozenset[int]) -> bool:
    """Whether a task has no share of this step: it knew of a later one, or of this before it was over."""
    if task in quiet:
        return True
    heard = standing.idle.get(task, -1)
    if task in standing.never_wrote and not (share.late and task in standing.cut_off):
        return True
    return heard > share.step or (heard == share.step and task in standing.over)


def question(entries: Sequence[Checkpoint], gang: Gang, attempt: int) -> tuple[int, frozenset[int]] | None:
    """The newest step of which it is not known whether some tasks have a share, and who they are."""
    mine = [each for each in entries if each.attempt == attempt]
    if gang.saved_by != AUTO or gang.tasks == 1 or not mine or any(each.sharded for each in mine):
        return None
    others = gang.everybody - _savers(mine) - {task for each in mine for task in each.covers}
    open_ = [each.step for each in mine if not each.savers and not each.beside]
    return (max(open_), others) if open_ and others else None


def _savers(shares: Iterable[Checkpoint]) -> frozenset[int]:
    return frozenset(each.task for each in shares if not each.beside)


def _before(entries: Sequence[Checkpoint], gang: Gang, attempt: int) -> frozenset[int] | None:
    """Who saved in the newest attempt, up to this one, that has a complete checkpoint."""
    earlier = [whole for whole in gather(entries, gang) if whole.attempt <= attempt and whole.complete]
    newest = max((whole.attempt for whole in earlier), default=None)
    return None if newest is None else _savers(each for each in entries if each.attempt == newest)


def why_incomplete(whole: Whole, entries: Iterable[Checkpoint]) -> str:
    """Why a step of a gang is no checkpoint, for people; empty where it is one, or is damaged."""
    if whole.complete or (not whole.lacks and len(whole.units) <= 1):
        return ""
    mine = [each for each in entries if each.attempt == whole.attempt and each.state == COMMITTED]
    units = {each.task: each.unit for each in mine}
    if len(set(units.values())) > 1:
        said = ", ".join(f"task {task} counts {plural(unit)}" for task, unit in sorted(units.items()))
        return f"the steps of its tasks cannot be matched ({said}); {DECLARE}"
    have, lack = _tasks(whole.gang.everybody - whole.lacks), _tasks(whole.lacks)
    if whole.gang.saved_by == FIRST:
        return "not saved by task 0, which saves for all"
    advice = f"; {SAY_FIRST}" if whole.gang.saved_by == AUTO and 0 not in whole.lacks else ""
    return f"saved by {have}, not by {lack}{advice}"


def plural(unit: str) -> str:
    return unit + "s"


def _tasks(tasks: Iterable[int]) -> str:
    found = sorted(tasks)
    return ("task " if len(found) == 1 else "tasks ") + ", ".join(map(str, found))
