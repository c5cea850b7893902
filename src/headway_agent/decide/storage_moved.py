"""What follows when the server's storage is elsewhere than it was: what nobody has answered for is stored again.

Pure, a part of decide.py. The server tells the mark of the place where its objects are; all that a call tells of lies
there. What was stored under another mark is dropped here, for the server would not take it: its bytes are still on this
node. An empty mark is that of an older agent or server, and means the first place that a server had.
"""

from __future__ import annotations

from headway_agent.decide import unconfirmed_files
from headway_agent.decide.facts_and_acts import Hold, KeepAgain, Move, Salvage
from headway_agent.decide.outcomes import how_ended
from headway_agent.decide.state import ENDED, GOING, HOLDING, OVER, PREPARING, UNPREPARED, NodeTask
from headway_agent.decide.sync_request import enter
from headway_wire import storage_marks
from headway_wire.kinds import replace
from headway_wire.reply import StorageTold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.decide.facts_and_acts import Act
    from headway_agent.decide.state import NodeState


def is_here(told: str, here: str | None) -> bool:
    """Whether what was stored under this mark lies where the server looks, as far as it has told where that is."""
    return here is None or storage_marks.is_here(told, here)


def heard(state: NodeState, told: StorageTold | None, now: float, acts: list[Act]) -> None:
    """Take in what a reply says of storage: nothing where it is as we believe, or where the server knows no marks."""
    if told is None and state.storage is not None:
        return
    told = told or StorageTold()
    mark, before = told.mark, state.storage
    if mark == before:
        return
    state.storage = mark
    acts.append(Move(told))
    if before is not None and is_here(before, mark):
        return  # Only its name is new.
    if before is not None:
        state.full_due = True  # Only the server knows how much of each output it has.
        _drop_ranges(state, now)
        _prepare_again(state, acts)
    for key in list(state.progress):
        stale = unconfirmed_files.drop_stale(state, key, mark)
        if stale and key in state.tasks:
            store_again(state, state.tasks[key], "checkpoint" in stale, now, acts)


def _drop_ranges(state: NodeState, now: float) -> None:
    state.ranges = []
    for flight in state.flights.values():
        flight.ranges = []
    for task in state.tasks.values():
        if task.phase == ENDED:
            state.draining.add(task.key)
            task.saves = True  # Another may have begun in its place.
            enter(state, task, OVER, now)  # Not all of it may be where the server looks: it is told again once it is.
        if task.phase in (GOING, OVER):
            task.resumable = False


def _prepare_again(state: NodeState, acts: list[Act]) -> None:
    """What could not be had from the old place may be in the new one."""
    for key, task in list(state.tasks.items()):
        if task.phase in (HOLDING, PREPARING, UNPREPARED) and task.claim is not None:
            state.changed.pop(key, None)
            claim = replace(task.claim)  # Another one: what is under way for the old one ends.
            state.tasks[key] = NodeTask(key, HOLDING, claim)
            acts.append(Hold(key, claim))
    state.urgent = sum(state.changed.values())


def counts(state: NodeState, key: str, mark: str, checkpoint: bool, now: float, acts: list[Act]) -> bool:
    """Whether what was just stored of a task is where the server looks; else it is stored again."""
    task = state.tasks.get(key)
    if task is not None and not is_here(mark, state.storage):
        store_again(state, task, checkpoint, now, acts)
        return False
    return task is not None


def store_again(state: NodeState, task: NodeTask, checkpoint: bool, now: float, acts: list[Act]) -> None:
    """Files of this task were stored where the server does not look."""
    acts.append(KeepAgain(task.key, checkpoint))
    if task.phase in (OVER, ENDED) and unconfirmed_files.of(state, task.key).begun:
        if task.phase == ENDED:
            state.draining.add(task.key)
            task.saves = True
            enter(state, task, OVER, now)
        unconfirmed_files.begin_salvage(state, task.key)
        acts.append(Salvage(task.key, how_ended(task.exits, False, task.notice is not None)))
