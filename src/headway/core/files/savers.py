"""Who saves in a gang: every task its share, the first for all, or some of them. Found out from what is committed.

That a task does not save is known by its agent's word ("others have saved step 30, and mine has written nothing",
"still nothing a while later", "it is over, and never wrote anything") or from before; silence says nothing. Tasks of a
gang are taken to move together, but not to the second: of the newest save one that was interrupted may have been about
to write its share, and of one on notice all the more. Who has saved in an attempt is one who saves in the next. What
was found out is written down with the shares (`Checkpoint.savers`). control/nodes/saver_questions.py asks and hears.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headway.core.files.checkpoints import AUTO, COMMITTED, FIRST, Checkpoint, Gang, Whole, gather

DECLARE = "call headway.checkpoint(step) on each, or put the step into the file's name"
SAY_FIRST = "if the first node saves for all, say so: checkpoint: {saved_by: first}"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of the tasks of an attempt beside what they have committed."""

    attempt: int
    idle: Mapping[int, int] = field(default_factory=dict)  # Who had written nothing when it heard of which step,
    still_idle: Mapping[int, int] = field(default_factory=dict)  # and who had not a while later.
    over: frozenset[int] = frozenset()  # Who will write no more;
    never_wrote: frozenset[int] = frozenset()  # of these: those that never did;
    finished: frozenset[int] = frozenset()  # of them: those that ended well before they were told of any end,
    cut_off: frozenset[int] = frozenset()  # and those that were killed or failed.
    failed: bool = False  # It ends because a rank failed by itself, perhaps in the very save.


def settle(entries: Sequence[Checkpoint], gang: Gang, standing: Standing) -> list[Checkpoint]:
    """The shares of an attempt of which it is known by now who saves beside their task: as they are to be noted."""
    mine = [each for each in entries if each.attempt == standing.attempt]
    if gang.saved_by != AUTO or gang.tasks == 1 or any(each.sharded for each in mine):
        return []  # The names of shares say that there are others.
    savers = _savers(mine)
    others = gang.everybody - savers - {task for each in mine for task in each.covers}
    if not savers or not others:
        return []
    since, before = _before(entries, gang, standing.attempt)
    if others & before & _savers(each for each in entries if each.attempt >= max(1, since)):
        return []
    open_ = [each for each in mine if not each.savers and each.task in savers]
    newest = max((each.step for each in open_), default=0)
    asked = others & before
    if not any(all(_is_idle(task, each, newest, standing) for task in asked) for each in open_):
        return []
    return [replace(each, savers=tuple(sorted(savers))) for each in open_]  # What holds of one holds of all.


def _is_idle(task: int, share: Checkpoint, newest: int, standing: Standing) -> bool:
    """Whether a task has no share of this step: it knew of a later one, or cannot have been about to write it."""
    if standing.idle.get(task, -1) > share.step:
        return True
    if share.late:  # It was told to end as well, and ended without a save of its own: unless it did not come to it.
        return task in standing.never_wrote - standing.cut_off - standing.finished
    if standing.still_idle.get(task, -1) >= share.step or task in standing.finished:
        return True
    asked = standing.idle.get(task, -1) == share.step and task in standing.over
    if not standing.failed and (asked or task in standing.never_wrote):
        return True  # What ended it came from outside, at any moment: hardly in the one between two nodes' saves.
    return task in standing.never_wrote and share.step < newest


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


def _before(entries: Sequence[Checkpoint], gang: Gang, attempt: int) -> tuple[int, frozenset[int]]:
    """The newest attempt, up to this one, that has a complete checkpoint, and who saved in it; 0 and all at first."""
    earlier = [whole for whole in gather(entries, gang) if whole.attempt <= attempt and whole.complete]
    if not earlier:
        return 0, gang.everybody
    newest = max(whole.attempt for whole in earlier)
    return newest, _savers(each for each in entries if each.attempt == newest)


def why_incomplete(whole: Whole, entries: Iterable[Checkpoint]) -> str:
    """Why a step of a gang is not a checkpoint, for people; empty where it is one, or is damaged."""
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
