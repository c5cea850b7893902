"""The agent's decisions: what each fact makes of the node's tasks, and what is to be done about it.

One door: `decide(state, fact, now)` changes the state and returns acts. It reads no clock and touches nothing: `now` is
in seconds of CLOCK_BOOTTIME, and the shell (loop/agent.py) or the simulator performs the acts. Its neighbours:
state.py (the state), sync_request.py (requests), outcomes.py (names of ends), output_offsets.py (output).
"""

from __future__ import annotations

from headway_agent.decide import leaders, output_offsets, storage_moved, stored_files, unconfirmed_files, waiting_line
from headway_agent.decide.facts_and_acts import (
    Answered,
    ArtifactStored,
    CheckpointBad,
    CheckpointStored,
    Dumped,
    EndAgent,
    Forget,
    Go,
    Held,
    Hold,
    HoldFailed,
    KeepAgain,
    KeeperListed,
    Kept,
    Lease,
    LimitReached,
    Move,
    NotAnswered,
    NoticeHeard,
    OutputShrank,
    PrepareFailed,
    Preparing,
    RankExited,
    Salvage,
    Salvaged,
    Salvaging,
    Settle,
    Shipped,
    Spawned,
    Stays,
    Stepped,
    Stop,
    Superseded,
    TaskOver,
    Ticked,
    Troubled,
    Upgrade,
    Wrote,
)
from headway_agent.decide.outcomes import Exit, how_ended, lost, name_outcome, never_began, reclaimed
from headway_agent.decide.state import (
    CLAIMED,
    ENDED,
    GOING,
    HOLDING,
    LINED,
    OVER,
    PREPARING,
    REFUSED,
    UNPREPARED,
    Flight,
    NodeState,
    NodeTask,
    go_alone,
)
from headway_agent.decide.sync_request import (
    LAZY_AFTER_S,
    POLL_WAIT_S,
    change,
    enter,
    next_call,
    set_duty,
    sync_body,
    unreport,
)
from headway_wire import causes
from headway_wire.claim import Claim
from headway_wire.kinds import replace
from headway_wire.reply import BACK, CLAIM, GO, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from headway_agent.decide.facts_and_acts import Act, Fact
    from headway_wire.reply import Duty, Reply
    from headway_wire.sync import TaskOutcome

__all__ = [
    "decide", "next_call", "sync_body", "LAZY_AFTER_S", "POLL_WAIT_S", "NodeState", "NodeTask",
    "Answered", "NotAnswered", "Superseded", "KeeperListed", "Kept", "Held", "HoldFailed", "Spawned", "RankExited",
    "Exit", "Stays", "TaskOver", "Shipped", "OutputShrank", "Troubled",
    "Preparing", "PrepareFailed", "LimitReached", "Dumped", "CheckpointBad", "CheckpointStored", "ArtifactStored",
    "Salvaged", "Salvaging", "Stepped", "Wrote", "NoticeHeard", "Ticked", "Act", "Fact",
    "Hold", "Go", "Stop", "Salvage", "Settle", "Move", "KeepAgain", "Forget", "Lease", "Upgrade", "EndAgent",
    "NOT_BEGUN", "HOLDING", "PREPARING", "CLAIMED", "GOING", "OVER", "ENDED", "REFUSED",
]  # fmt: skip

NOT_BEGUN = (HOLDING, PREPARING, CLAIMED, LINED)
NOTICE_RESERVE_S = 5.0  # Of the time that is left to a machine, kept for what follows the end of its ranks.


def decide(state: NodeState, fact: Fact, now: float) -> list[Act]:
    """Take in one fact: change the state, and return what is to be done, in this order."""
    acts: list[Act] = []
    _HANDLERS[type(fact)](state, fact, now, acts)
    while state.just_ended:
        for task in waiting_line.turns(state):
            _turn_comes(state, task, now, acts)
    return acts


def _turn_comes(state: NodeState, task: NodeTask, now: float, acts: list[Act]) -> None:
    """The task before it has ended, or the server says so: it begins once the keeper holds it."""
    task.claim = waiting_line.may_go(task)
    if task.phase in (CLAIMED, LINED):
        _go(state, task.key, go_alone(task), now, acts)


# --- what the keeper says -------------------------------------------------------------------------------------------


def _keeper_listed(state: NodeState, fact: KeeperListed, now: float, acts: list[Act]) -> None:
    named = {kept.task for kept in fact.tasks}
    for key in [key for key in state.tasks if key not in named]:
        _unknown_to_the_keeper(state, state.tasks[key], now, acts)
    for kept in fact.tasks:
        if kept.task not in state.tasks:
            # An agent that has just started: only the server knows how much output it has.
            state.tasks[kept.task] = NodeTask(kept.task, HOLDING, resumable=False, writes=kept.phase != "held")
        _take_over(state, state.tasks[kept.task], kept, now, acts)
    waiting_line.free_places(state, [kept.task for kept in fact.tasks if kept.phase != "held"], now)
    if state.deadline_s > now:
        acts.append(Lease(state.deadline_s, state.granted_s))
    state.listed = True


def _unknown_to_the_keeper(state: NodeState, task: NodeTask, now: float, acts: list[Act]) -> None:
    if task.phase in (HOLDING, CLAIMED, LINED) and task.claim is not None:
        task.anew = task.phase == CLAIMED
        acts.append(Hold(task.key, task.claim))  # A new keeper: nothing of it ran, so it can be held anew.
    elif task.phase in (CLAIMED, GOING):
        _over(state, task, lost(task.exits), {}, now)


def _take_over(state: NodeState, task: NodeTask, kept: Kept, now: float, acts: list[Act]) -> None:
    if kept.address or kept.port:
        task.address, task.port = kept.address, kept.port
    task.started_at = kept.started_at or task.started_at
    if task.phase in (OVER, ENDED, REFUSED, UNPREPARED):
        return
    if len(kept.exits) >= len(task.exits):
        task.exits = list(kept.exits)
    if kept.notice:
        task.warned, task.reclaimed = True, task.reclaimed or kept.notice == causes.RECLAIMED
    if kept.phase == "held":
        if task.phase == HOLDING:
            enter(state, task, CLAIMED, now)
    elif kept.phase == "over" or kept.lost:
        outcome = lost(task.exits) if kept.lost else _named(task, kept.tail, kept.marks)
        if kept.leftovers:
            _salvage(state, task, how_ended(task.exits, kept.lost, _noticed(task)), now, acts)
        _over(state, task, outcome, kept.sizes, now)
        output_offsets.tell_saving(state, task, now, acts, at_once=not kept.lost)
    else:
        task.claim = task.claim or Claim(kept.task, grace_s=kept.grace_s)
        if task.phase != GOING:
            enter(state, task, GOING, now)
        if kept.stays_s:
            _stays(state, Stays(kept.task, kept.stays_s, kept.tail, kept.marks), now, acts)
        _stop_after_failure(task, acts)


def _held(state: NodeState, fact: Held, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is None or task.phase not in NOT_BEGUN:
        return
    task.anew = False
    moved = (task.address, task.port) != (fact.address, fact.port)
    task.address, task.port = fact.address, fact.port
    if task.behind:
        waiting_line.line(state, task, now)
        return
    begins = task.begins
    if begins and task.phase not in (CLAIMED, LINED) and now < state.deadline_s and not _will_go(state, now):
        _begin(state, task, go_alone(task), now, acts)
        return
    if task.phase not in (CLAIMED, LINED) or (moved and task.phase == CLAIMED):
        enter(state, task, CLAIMED, now)
    if fact.task in state.go_waits or begins:
        go = go_alone(task) if begins else state.go_waits[fact.task]
        _go(state, fact.task, go, now, acts)


def _hold_failed(state: NodeState, fact: HoldFailed, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None and task.phase in (HOLDING, PREPARING):
        state.go_waits.pop(fact.task, None)
        task.cause, task.detail = fact.cause, fact.detail
        enter(state, task, REFUSED, now)
    elif task is not None:
        _not_held_anew(state, task, now)


def _not_held_anew(state: NodeState, task: NodeTask, now: float) -> None:
    """It was claimed before its keeper died: too late to refuse, but it cannot go."""
    if task.phase == CLAIMED:
        task.held = task.anew = False
        if state.go_waits.pop(task.key, None) is not None:
            _over(state, task, lost(()), {}, now)


def _preparing(state: NodeState, fact: Preparing, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None and task.phase in (HOLDING, PREPARING):
        task.detail = fact.detail
        enter(state, task, PREPARING, now)


def _prepare_failed(state: NodeState, fact: PrepareFailed, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None and task.phase in (HOLDING, PREPARING):
        state.go_waits.pop(fact.task, None)
        task.cause, task.detail = fact.cause, fact.detail
        enter(state, task, UNPREPARED, now)
    elif task is not None:
        _not_held_anew(state, task, now)


def _checkpoint_bad(state: NodeState, fact: CheckpointBad, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None and task.phase in (HOLDING, PREPARING):
        unconfirmed_files.checkpoint_bad(state, fact)
        task.detail = f"waits for another checkpoint: {fact.detail}"
        enter(state, task, PREPARING, now)
    elif task is not None and task.phase == CLAIMED:
        unconfirmed_files.checkpoint_bad(state, fact)
        _not_held_anew(state, task, now)


def _spawned(state: NodeState, fact: Spawned, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None and task.phase == GOING and not task.started_at:
        task.started_at = fact.started_at
        change(state, task.key, False, now)


def _rank_exited(state: NodeState, fact: RankExited, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is None or task.phase != GOING:
        return
    task.exits.append(fact.exit)
    if not task.failed_s and not fact.exit.ok and not fact.exit.ours:
        task.failed_s = now
    if not fact.stays:
        _stop_after_failure(task, acts)


def _stop_after_failure(task: NodeTask, acts: list[Act]) -> None:
    """The ranks of a task stand and fall together; the first to fail names the cause."""
    if task.stop_grace_s is None and not task.stays and any(not each.ok for each in task.exits):
        task.stop_grace_s = task.grace_s
        acts.append(Stop(task.key, task.stop_grace_s))


def _stays(state: NodeState, fact: Stays, now: float, acts: list[Act]) -> None:
    """All its ranks have ended, one by its own failure: that is told at once, though its place is not free yet."""
    task = state.tasks.get(fact.task)
    if task is not None and task.phase == GOING and task.stays is None:
        task.stays = (name_outcome(task.exits, fact.tail, fact.marks), now + fact.stays_s)
        change(state, task.key, True, now)


def _task_over(state: NodeState, fact: TaskOver, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is not None and task.phase == GOING:
        if fact.leftovers:
            _salvage(state, task, how_ended(task.exits, False, _noticed(task)), now, acts)
        _over(state, task, _named(task, fact.tail, fact.marks), fact.sizes, now)


def _named(task: NodeTask, tail: str, marks: Mapping[str, Any]) -> TaskOutcome:
    """How a task ended whose ranks are all dead."""
    outcome = name_outcome(task.exits, tail, marks)
    if outcome.cause is None and _unasked(task):
        outcome = replace(outcome, unasked=True)
    return reclaimed(outcome, task.detail) if task.reclaimed else outcome


def _noticed(task: NodeTask) -> bool:
    return task.notice is not None or task.warned


def _unasked(task: NodeTask) -> bool:
    """Whether its ranks ended before they could know of any wish that they end."""
    told = task.stop_grace_s is not None or _noticed(task) or task.reclaimed
    return not told and not any(each.ours for each in task.exits)


def _limit_reached(state: NodeState, fact: LimitReached, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(fact.task)
    if task is None or task.phase != GOING or (task.stop_grace_s is not None and task.stop_grace_s <= fact.grace_s):
        return  # Not there any more, or ending already, and no later than this would end it.
    task.stop_grace_s = fact.grace_s
    task.notice = (fact.cause, now + fact.grace_s)
    acts.append(Stop(task.key, fact.grace_s, fact.cause))


def _over(state: NodeState, task: NodeTask, outcome: TaskOutcome, sizes: Mapping[str, int], now: float) -> None:
    """Nothing of it is alive. Its end is told once its output and all that it leaves are in storage."""
    task.over_s = now
    task.sizes = {stream: size for stream, size in sizes.items() if size}
    task.outcome = replace(outcome, log_bytes=output_offsets.log_bytes(task.sizes))
    if task.resumable and output_offsets.all_shipped(task) and unconfirmed_files.settled(state, task.key, now):
        enter(state, task, ENDED, now)
    else:
        state.draining.add(task.key)
        enter(state, task, OVER, now)


def _salvage(state: NodeState, task: NodeTask, end: str, now: float, acts: list[Act]) -> None:
    unconfirmed_files.begin_salvage(state, task.key)
    acts.append(Salvage(task.key, end))


def _ticked(state: NodeState, fact: Ticked, now: float, acts: list[Act]) -> None:
    for key in list(state.draining):
        output_offsets.settle_drained(state, state.tasks[key], now)
        output_offsets.tell_saving(state, state.tasks[key], now, acts)
    if state.notice is not None and not _will_go(state, now):
        state.notice, state.full_due = None, True  # A full sync without it tells the server that the machine stays.


def _notice_heard(state: NodeState, fact: NoticeHeard, now: float, acts: list[Act]) -> None:
    """This machine will go: all its ranks are told at once, without waiting for the server."""
    state.notice, state.notice_due = (fact.cause, now + fact.seconds_left), True
    state.notice_why = fact.why
    grace_s = fact.seconds_left - min(NOTICE_RESERVE_S, fact.seconds_left / 5)
    for key in sorted(state.going):
        task = state.tasks[key]
        if task.stop_grace_s is None:  # Else it is ending already, for another cause that came first.
            task.reclaimed, task.detail = True, fact.why
            task.notice, task.stop_grace_s = (fact.cause, now + grace_s), grace_s
            acts.append(Stop(key, grace_s, fact.cause))


def _will_go(state: NodeState, now: float) -> bool:
    return state.notice is not None and now < state.notice[1] + unconfirmed_files.NOTICE_STALE_S


def _troubled(state: NodeState, fact: Troubled, now: float, acts: list[Act]) -> None:
    if state.troubles.get(fact.what, "") == fact.detail:
        return
    if fact.detail:
        state.troubles[fact.what] = fact.detail
    else:
        del state.troubles[fact.what]
    state.troubles_due = True


# --- what the server says -------------------------------------------------------------------------------------------


def _answered(state: NodeState, fact: Answered, now: float, acts: list[Act]) -> None:
    flight, reply = _landed(state, fact.seq), fact.reply
    if flight is None:
        return
    if reply.leader_epoch < state.leader_epoch and leaders.went_back(state, flight, now):
        state.leader_epoch = state.said = 0  # From here on it is like any new leader.
    if (reply.leader_epoch, reply.said) < (state.leader_epoch, state.said):
        # A later reply came before it. What it says to do may have been done and forgotten since; by its digest the
        # next sync shows what is missing, and what this one told is told again.
        _say_again(state, flight, now)
        return
    state.said = reply.said
    state.leader_heard_s, state.older_since_s = now, 0.0
    storage_moved.heard(state, reply.storage, now, acts)
    if flight.full:
        state.full_due = False
    if reply.leader_epoch != state.leader_epoch:
        # A new leader cannot know whether a full sync that was sent before its first answer is the newest.
        state.full_due = True
        state.leader_epoch = reply.leader_epoch
    state.full_due = state.full_due or reply.resend
    for task in state.tasks.values() if flight.full else ():
        task.resumable = True
    output_offsets.rewind(state, flight, reply.safe, now)
    unconfirmed_files.answered(state, flight.progress, reply, now)
    for key in flight.progress.keys:
        if key in state.tasks:
            output_offsets.settle_drained(state, state.tasks[key], now)
    if reply.lease_left_s is not None and flight.sent_s >= state.granted_by_s:
        state.granted_by_s = flight.sent_s
        state.granted_s = reply.lease_left_s
        state.deadline_s = flight.sent_s + state.granted_s
        acts.append(Lease(state.deadline_s, state.granted_s))
    _apply_duties(state, reply, now, acts)
    if reply.follow is not None:
        state.follow = set(reply.follow)
    version = reply.agent_version
    if version and state.agent_version and version != state.agent_version:
        acts.append(Upgrade(version))


def _landed(state: NodeState, seq: int) -> Flight | None:
    return state.flights.pop(seq or min(state.flights, default=0), None)


def _apply_duties(state: NodeState, reply: Reply, now: float, acts: list[Act]) -> None:
    gone = list(reply.gone)
    if reply.full:
        named = {duty.task for duty in reply.duties}
        known = dict.fromkeys(list(state.tasks) + list(state.duties))
        gone += [key for key in known if key not in named]
    for key in gone:
        _forget(state, key, acts)
    for duty in reply.duties:
        _take_up(state, duty, now, acts)
    if state.go_waits and now < state.deadline_s:
        for key, duty in list(state.go_waits.items()):
            _go(state, key, duty, now, acts)


def _forget(state: NodeState, key: str, acts: list[Act]) -> None:
    set_duty(state, key, None)
    task = state.tasks.get(key)
    if task is None:
        return
    if task.phase in NOT_BEGUN:
        waiting_line.drop_out(state, task)
    del state.tasks[key]
    unreport(state, task)
    if state.changed.pop(key, False):
        state.urgent -= 1
    state.going.discard(key)
    state.draining.discard(key)
    state.go_waits.pop(key, None)
    state.follow.discard(key)
    state.progress.pop(key, None)
    acts.append(Forget(key))


def _take_up(state: NodeState, duty: Duty, now: float, acts: list[Act]) -> None:
    key, do = duty.task, duty.do
    claim = duty.claim if do == CLAIM else None  # A full reply says with every duty what the task is.
    set_duty(state, key, duty.mark or do)
    task = state.tasks.get(key)
    if claim is not None and (task is None or task.resumes_elsewhere(claim)):
        task = state.tasks[key] = NodeTask(key, HOLDING, claim)
        if _will_go(state, now):
            task.detail = "this machine will go"
            enter(state, task, REFUSED, now)
            return
        if claim.behind:
            waiting_line.set_behind(state, task, claim.behind)
        acts.append(Hold(key, task.claim or claim))
    elif claim is not None:
        assert task is not None
        if task.phase in NOT_BEGUN:
            _claim_again(state, task, claim, now, acts)
        return
    elif do == BACK:
        _call_back(state, key, now, acts)
    elif task is not None and task.phase == ENDED:
        # Heard before everybody had claimed, its end meant nothing to the server: it is said again.
        change(state, key, True, now)
    elif task is None:
        # The server believes it to be here. It is not: say so, or it waits for ever.
        state.tasks[key] = NodeTask(key, HOLDING)
        _over(state, state.tasks[key], lost(()), {}, now)
    elif do == GO:
        _go(state, key, duty, now, acts)
    elif do == STOP:
        _stop(state, task, duty.grace_s or 0.0, duty.cause or causes.CANCELLED, now, acts)


def _claim_again(state: NodeState, task: NodeTask, claim: Claim, now: float, acts: list[Act]) -> None:
    """The server says something else of it than before: its turn has come, or it is behind another now."""
    if claim.go and (task.behind or task.phase == CLAIMED):
        # Or an earlier agent held it, and died before it began.
        waiting_line.leave(state, task)
        task.claim = task.claim or claim
        _turn_comes(state, task, now, acts)
    elif claim.behind and claim.behind != task.behind:
        task.claim = task.claim or claim
        waiting_line.set_behind(state, task, claim.behind)
        if task.phase == CLAIMED:
            waiting_line.line(state, task, now)


def _call_back(state: NodeState, key: str, now: float, acts: list[Act]) -> None:
    task = state.tasks.get(key)
    if task is None:
        task = state.tasks[key] = NodeTask(key, HOLDING, Claim(key, behind="nobody"))
    if waiting_line.call_back(state, task, now):
        acts.append(Stop(key, 0.0))  # The keeper lets go of it.


def _go(state: NodeState, key: str, duty: Duty, now: float, acts: list[Act]) -> None:
    task = state.tasks[key]
    if task.phase in (REFUSED, UNPREPARED):
        _over(state, task, lost(()), {}, now)  # An earlier agent had claimed it, and that outweighed what we said.
    if task.phase not in NOT_BEGUN:
        return
    if _will_go(state, now):
        _stop(state, task, 0.0, causes.RECLAIMED, now, acts)
        return
    if not task.held:
        _over(state, task, lost(()), {}, now)
        return
    if task.phase not in (CLAIMED, LINED) or task.anew or now >= state.deadline_s:
        # Not at the keeper yet; or no lease, no user code: it goes once it is held, or with the next reply in time.
        state.go_waits[key] = duty
        return
    _begin(state, task, duty, now, acts)


def _begin(state: NodeState, task: NodeTask, duty: Duty, now: float, acts: list[Act]) -> None:
    key = task.key
    state.go_waits.pop(key, None)
    acts.append(Go(key, duty.peers or (), task.claim, duty.gang))
    if task.begins:
        task.began_s = now  # Else the server knows: it said so.
    held = task.claim or Claim(key)
    task.claim = Claim(key, grace_s=held.grace_s, nodes=held.nodes, resume=held.resume)
    enter(state, task, GOING, now)


def _stop(state: NodeState, task: NodeTask, grace_s: float, cause: str, now: float, acts: list[Act]) -> None:
    state.go_waits.pop(task.key, None)
    if task.phase in NOT_BEGUN:
        waiting_line.drop_out(state, task)
        acts.append(Stop(task.key, 0.0))  # The keeper lets go of it.
        _over(state, task, never_began(), {}, now)
    elif task.phase in (REFUSED, UNPREPARED):
        _over(state, task, never_began(), {}, now)
    elif task.phase == GOING and task.notice is not None and now + grace_s >= task.notice[1]:
        task.stopped = True  # Its ranks were told of an end before, and that it comes no later than this.
    elif task.phase == GOING and (not task.stopped or task.stop_grace_s is None or grace_s < task.stop_grace_s):
        task.stopped = True
        task.stop_grace_s = grace_s
        task.notice = (cause, now + grace_s)
        acts.append(Stop(task.key, grace_s, cause))


def _not_answered(state: NodeState, fact: NotAnswered, now: float, acts: list[Act]) -> None:
    flight = _landed(state, fact.seq)
    if flight is not None:
        _say_again(state, flight, now)


def _say_again(state: NodeState, flight: Flight, now: float) -> None:
    for key, urgent in flight.reports.items():
        if key in state.tasks:
            change(state, key, urgent, now)
    told = [piece for piece in flight.ranges if piece.task in state.tasks]
    state.ranges = told + state.ranges
    state.troubles_due = state.troubles_due or flight.troubles
    unconfirmed_files.not_answered(state, flight.progress)


def _superseded(state: NodeState, fact: Superseded, now: float, acts: list[Act]) -> None:
    state.flights.clear()
    acts.append(EndAgent("a newer agent serves this node"))


_HANDLERS: dict[type, Callable[[NodeState, Any, float, list[Act]], None]] = {
    KeeperListed: _keeper_listed,
    Held: _held,
    HoldFailed: _hold_failed,
    Preparing: _preparing,
    PrepareFailed: _prepare_failed,
    CheckpointBad: _checkpoint_bad,
    Spawned: _spawned,
    Stays: _stays,
    RankExited: _rank_exited,
    TaskOver: _task_over,
    LimitReached: _limit_reached,
    Dumped: stored_files.dumped,
    Shipped: output_offsets.shipped,
    OutputShrank: output_offsets.output_shrank,
    CheckpointStored: stored_files.checkpoint_stored,
    ArtifactStored: stored_files.artifact_stored,
    Salvaged: stored_files.salvaged,
    Salvaging: stored_files.salvaging,
    Stepped: stored_files.stepped,
    Wrote: stored_files.wrote,
    NoticeHeard: _notice_heard,
    Ticked: _ticked,
    Troubled: _troubled,
    Answered: _answered,
    NotAnswered: _not_answered,
    Superseded: _superseded,
}
