"""How much of each task's output is in storage and known there, and when a task that is over may be told to be.

Pure; a part of decide.py, which calls it when output was shipped and when a sync is answered.
"""

from __future__ import annotations

from headway_agent.decide import storage_moved, unconfirmed_files
from headway_agent.decide.facts_and_acts import Settle
from headway_agent.decide.state import ENDED, OVER, REFUSED, UNPREPARED, Flight, NodeState, NodeTask
from headway_agent.decide.sync_request import change, enter
from headway_wire.sync import LOGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

    from headway_agent.decide.facts_and_acts import Act, OutputShrank, Shipped


def log_bytes(sizes: Mapping[str, int]) -> int:
    """How much of a task's output is its log."""
    return sum(size for slot, size in sizes.items() if slot.rpartition("/")[2] in LOGS)


def all_shipped(task: NodeTask) -> bool:
    return all(task.shipped.get(stream, 0) >= size for stream, size in task.sizes.items())


def shipped(state: NodeState, fact: Shipped, now: float, acts: list[Act]) -> None:
    if not storage_moved.is_here(fact.storage, state.storage):
        return  # Stored while storage moved away: it is shipped once more.
    for piece in fact.ranges:
        task = state.tasks.get(piece.task)
        stream = piece.slot
        if task is None or not task.resumable or task.shipped.get(stream, 0) != piece.start:
            continue  # Forgotten, or sent back to an earlier byte, while this was under way.
        task.shipped[stream] = piece.end
        state.ranges.append(piece)
        if (piece.task, stream) in fact.written:
            state.written[piece.task, stream, piece.end] = fact.written[piece.task, stream]
        # With the output goes the step that it tells: if this is the last of a machine, both are what is left of it.
        unconfirmed_files.printed(state, task.key, fact.printed.get(task.key) or {})
        settle_drained(state, task, now)


def output_shrank(state: NodeState, fact: OutputShrank, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None and task.phase == OVER:
        task.sizes = dict(fact.sizes)
        settle_drained(state, task, now)


def settle_drained(state: NodeState, task: NodeTask, now: float) -> None:
    if task.phase == OVER and task.resumable and all_shipped(task) and unconfirmed_files.settled(state, task.key, now):
        state.draining.discard(task.key)
        task.files_lost = unconfirmed_files.unkept(state, task.key)
        enter(state, task, ENDED, now)


def tell_saving(state: NodeState, task: NodeTask, now: float, acts: list[Act], at_once: bool = False) -> None:
    """Keeping what it left takes its time: the server may give its place to others meanwhile.

    An agent that has just found it tells it at once: by that the server knows, should the machine have been restarted,
    that its ranks had ended before.
    """
    if task.phase == OVER and not task.saves and (at_once or now >= task.over_s + unconfirmed_files.SAVING_S_MIN):
        task.saves = True
        acts.append(Settle(task.key))
        change(state, task.key, True, now)


def rewind(state: NodeState, flight: Flight, safe: Mapping[str, Mapping[str, int]], now: float) -> None:
    """Go on from what the server has: after a full sync for every task, else where it lacks what was just told."""
    told = {(piece.task, piece.slot): piece.end for piece in flight.ranges}
    for piece in flight.ranges:
        state.written.pop((piece.task, piece.slot, piece.end), None)
    if flight.full:
        live = {(piece.task, piece.slot, piece.end) for piece in state.ranges}
        state.written = {key: at for key, at in state.written.items() if key in live}
    for (key, stream), end in () if flight.full else told.items():
        task = state.tasks.get(key)
        if task is not None and key in safe and safe[key].get(stream, 0) < end:
            _ship_from(state, task, stream, safe[key].get(stream, 0))
    for task in list(state.tasks.values()) if flight.full else ():
        have = safe.get(task.key, {})
        for stream in set(task.shipped) | set(have):
            if have.get(stream, 0) < task.shipped.get(stream, 0) and not _told_later(state, task.key, stream, have):
                _ship_from(state, task, stream, have.get(stream, 0))
            elif have.get(stream, 0) > task.shipped.get(stream, 0):
                task.shipped[stream] = have[stream]
        settle_drained(state, task, now)


def _told_later(state: NodeState, key: str, stream: str, have: Mapping[str, int]) -> bool:
    """Whether the pieces that wait for the next sync begin just where the server's index ends."""
    for piece in state.ranges:
        if piece.task == key and piece.slot == stream:
            return piece.start == have.get(stream, 0)
    return False


def _ship_from(state: NodeState, task: NodeTask, stream: str, offset: int) -> None:
    if task.phase in (ENDED, REFUSED, UNPREPARED):
        return
    task.shipped[stream] = offset
    state.ranges = [piece for piece in state.ranges if (piece.task, piece.slot) != (task.key, stream)]
