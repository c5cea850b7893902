"""Tasks that wait behind others on this node: each begins when the one before it has ended, without asking the server.

Pure; a part of decide.py. The server said whose place each one takes (`behind`), and takes it for granted that it may
have begun from the moment at which that one's end is told: both ends of the line move up in the same way.
"""

from __future__ import annotations

from headway_agent.decide.state import ENDED, HOLDING, LINED, OVER, PREPARING, REFUSED
from headway_agent.decide.sync_request import change, enter
from headway_wire.claim import Claim
from headway_wire.kinds import replace
from headway_wire.sync import CALLED_BACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.decide.state import NodeState, NodeTask


def set_behind(state: NodeState, task: NodeTask, before: str) -> None:
    """Say behind whom a task waits; empty: behind nobody any more."""
    leave(state, task)
    one = state.tasks.get(before)
    while one is not None and one.phase not in (HOLDING, PREPARING, LINED) and one.behind:
        # It dropped out before its turn, which the server did not know yet: it never had a place to give away.
        before = one.behind
        one = state.tasks.get(before)
    task.claim = replace(task.claim or Claim(task.key), behind=before)
    if before:
        state.behind[before] = task.key
        if one is not None and one.phase == ENDED and one.ran:
            state.just_ended.append(before)


def leave(state: NodeState, task: NodeTask) -> None:
    """It waits behind nobody any more, whatever becomes of it."""
    before = task.behind
    if before and state.behind.get(before) == task.key:
        del state.behind[before]


def drop_out(state: NodeState, task: NodeTask) -> None:
    """It gives up its place in line before its turn has come: who was behind it is behind the one before it."""
    before = task.behind
    leave(state, task)
    heir = state.tasks.get(state.behind.pop(task.key, ""))
    if heir is not None:
        set_behind(state, heir, before)


def line(state: NodeState, task: NodeTask, now: float) -> None:
    """The keeper holds it, and its turn has not come."""
    if task.phase != LINED:
        enter(state, task, LINED, now)


def call_back(state: NodeState, task: NodeTask, now: float) -> bool:
    """Give a task back that the server wants to keep in the queue; not if its turn has come."""
    if task.phase not in (HOLDING, PREPARING, LINED) or not task.behind:
        return False
    drop_out(state, task)
    task.cause, task.detail = CALLED_BACK, "called back before it began"
    enter(state, task, REFUSED, now)
    return True


def turns(state: NodeState) -> list[NodeTask]:
    """Those whose turn has come: the task before them ran on this node, and has ended."""
    found = []
    for key in state.just_ended:
        task = state.tasks.get(state.behind.get(key, ""))
        before = state.tasks.get(key)
        if task is None or before is None or before.phase != ENDED:
            continue
        if before.ran and not before.behind:
            leave(state, task)
            found.append(task)
    state.just_ended = []
    return found


def free_places(state: NodeState, begun: list[str], now: float) -> None:
    """An earlier agent may have let one begin in another's place: whoever is over says at once that it holds none."""
    for key in begun if len(begun) > 1 else ():
        task = state.tasks[key]
        if task.phase == OVER and not task.saves:
            task.saves = True
            change(state, key, True, now)


def may_go(task: NodeTask) -> Claim:
    """The claim of a task whose turn has come."""
    return replace(task.claim or Claim(task.key), behind="", go=True)
