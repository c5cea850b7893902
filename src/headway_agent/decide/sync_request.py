"""What is told and when: phases and their digests, and the next request.

Pure, like decide.py beside it. `next_call` says whether a sync is due, `sync_body` makes it.
"""

from __future__ import annotations

from headway_agent.decide import node_features, unconfirmed_files
from headway_agent.decide.facts_and_acts import LOST, UNKEPT, WAIT, unkept_words
from headway_agent.decide.outcomes import were_cut_off
from headway_agent.decide.state import (
    CLAIMED,
    ENDED,
    GOING,
    OVER,
    PREPARING,
    REFUSED,
    REPORTED,
    UNPREPARED,
    Flight,
    NodeState,
    NodeTask,
)
from headway_wire import causes
from headway_wire.digests import share, shown
from headway_wire.kinds import replace
from headway_wire.sync import (
    DIGESTED,
    NO_OUTCOME,
    PROTOCOL,
    Facts,
    OutputRange,
    Report,
    SavingFiles,
    Stays,
    SyncRequest,
    TaskOutcome,
    Trouble,
)

NO_FACTS = Facts()
NO_WORDS: dict[str, object] = {}
GATHER_S = 0.02  # So long ends are gathered whose places others have taken already.
POLL_WAIT_S = 20.0
LAZY_AFTER_S = 1.0  # News that nobody waits for may ride along with other news for so long,
SOON_S = 0.1  # and so long a start of which the server does not know yet: most short tasks have ended by then.


def enter(state: NodeState, task: NodeTask, phase: str, now: float) -> None:
    before = REPORTED.get(task.phase)
    after = REPORTED.get(phase)
    task.phase = phase
    if phase == ENDED and task.key in state.behind:
        state.just_ended.append(task.key)
    if phase == GOING:
        state.going.add(task.key)
    else:
        state.going.discard(task.key)
    if before == after and after not in ("claimed", "preparing"):
        return
    if before in DIGESTED:
        state.reports_xor ^= share(task.key, before)
    if after in DIGESTED:
        state.reports_xor ^= share(task.key, after)
    if after is None:
        return
    if phase == ENDED and task.key in state.behind:
        change(state, task.key, False, now, GATHER_S)
        return
    within_s = SOON_S if phase == GOING else LAZY_AFTER_S
    change(state, task.key, after not in ("running", "preparing"), now, within_s)


def unreport(state: NodeState, task: NodeTask) -> None:
    told = REPORTED.get(task.phase)
    if told in DIGESTED:
        state.reports_xor ^= share(task.key, told)


def change(state: NodeState, key: str, urgent: bool, now: float, within_s: float = LAZY_AFTER_S) -> None:
    was = state.changed.get(key)
    state.lazy_due_s = min(state.lazy_due_s, now + within_s) if state.changed else now + within_s
    state.changed[key] = bool(was) or urgent
    state.urgent += state.changed[key] - bool(was)


def set_duty(state: NodeState, key: str, word: str | None) -> None:
    """Keep what the server last said to do: the duty's mark, or from an older server its word."""
    before = state.duties.get(key)
    if before == word:
        return
    if before is not None:
        state.duties_xor ^= share(key, before)
    if word is None:
        del state.duties[key]
    else:
        state.duties[key] = word
        state.duties_xor ^= share(key, word)


def next_call(state: NodeState, now: float) -> str:
    """What to send now: "sync", "wake" (a sync with news, beside the one that the server holds), or "" for nothing.

    Who has no second line for the news may give up the held sync (NotAnswered) and send a new one instead.
    """
    if not state.listed or any(not flight.held for flight in state.flights.values()):
        return ""
    if not state.flights:
        return "sync"
    return "wake" if _news(state, now) else ""


def _news(state: NodeState, now: float) -> bool:
    if state.urgent or state.ranges or state.full_due or state.troubles_due or unconfirmed_files.has_news(state, now):
        return True
    if state.features and node_features.any_due(state, now):
        return True
    return bool(state.changed) and now >= state.lazy_due_s


def sync_body(state: NodeState, facts: Facts, now: float, wait_s: float = POLL_WAIT_S) -> SyncRequest:
    """Make the next request and remember it as under way. With news in it, it asks for an answer at once."""
    assert len(state.flights) < 2, "one sync is held, one brings news; there is never a third"
    full = state.full_due
    keys = list(state.tasks) if full else [key for key in state.changed if key in state.tasks]
    reports = tuple(_report(state, state.tasks[key], now) for key in keys if state.tasks[key].phase in REPORTED)
    if full or state.flights or reports or state.ranges or state.troubles_due or unconfirmed_files.has_news(state, now):
        wait_s = 0.0
    if state.granted_s:
        # So often that a cut which is shorter than half of the lease ends nothing: see keeper/table.py.
        wait_s = min(wait_s, state.granted_s / 8)
    state.seq += 1
    troubles = None
    if state.troubles_due or (full and state.troubles):
        troubles = tuple(Trouble(what, detail) for what, detail in sorted(state.troubles.items()))
    request = SyncRequest(
        state.node,
        state.pool,
        state.boot_id,
        state.agent_epoch,
        PROTOCOL,
        seq=state.seq,
        agent_version=state.agent_version,
        leader_epoch=state.leader_epoch,
        full=full,
        wait_s=wait_s,
        facts=facts if full else NO_FACTS,
        marks=True,
        storage=state.storage or "",  # Where all lies that this call tells of.
        reports_digest=shown(state.reports_xor),
        duties_digest=shown(state.duties_xor),
        reports=reports,
        logs=tuple(_aged(state, piece, now) for piece in state.ranges),
        troubles=troubles,
        features=node_features.said(state, now) if state.features else NO_WORDS,
    )
    request, told = unconfirmed_files.added(request, state, now)
    state.flights[state.seq] = Flight(now, full, wait_s > 0, state.changed, state.ranges, state.troubles_due, told)
    state.changed, state.ranges, state.urgent, state.troubles_due = {}, [], 0, False
    return request


def _aged(state: NodeState, piece: OutputRange, now: float) -> OutputRange:
    """When it was written is told by how long ago: clocks differ, and lines of several nodes are read together."""
    written_s = state.written.get((piece.task, piece.slot, piece.end))
    return piece if written_s is None else replace(piece, written_ago_s=round(max(0.0, now - written_s), 2))


def _report(state: NodeState, task: NodeTask, now: float) -> Report:
    # Where it began by itself, the server was told of no claim before.
    began_ago_s = round(max(0.0, now - task.began_s), 3) if task.began_s else None
    report = Report(task.key, REPORTED[task.phase], began_ago_s)
    if task.phase == CLAIMED:
        return replace(report, address=task.address, port=task.port)
    if task.phase in (REFUSED, PREPARING, UNPREPARED):
        return replace(report, detail=task.detail, cause=task.cause)
    if task.phase == ENDED:
        over_ago_s = round(max(0.0, now - task.over_s), 3) if task.began_s else None
        return replace(report, outcome=_end(state, task, now), over_ago_s=over_ago_s)
    if task.phase == OVER and task.saves:
        done, total = unconfirmed_files.of(state, task.key).saved_bytes
        ago_s = round(max(0.0, now - task.over_s), 3)
        return replace(report, saving=SavingFiles(_outcome(task, now), ago_s, done, total))
    if task.began_s:
        report = replace(report, address=task.address, port=task.port)
    if task.stays:
        report = replace(report, stays=Stays(task.stays[0], round(max(0.0, task.stays[1] - now), 3)))
    return replace(report, started_at=task.started_at)


def _outcome(task: NodeTask, now: float) -> TaskOutcome:
    """How it ended. When a rank failed is told by how long ago: clocks differ, and of a gang the first counts."""
    outcome = task.outcome or NO_OUTCOME
    return replace(outcome, failed_ago_s=round(max(0.0, now - task.failed_s), 3)) if task.failed_s else outcome


def _end(state: NodeState, task: NodeTask, now: float) -> TaskOutcome:
    outcome = _outcome(task, now)
    unconfirmed_files.last_word(state, task.key, task.claim is not None and task.claim.resume is not None)
    if unconfirmed_files.tells_steps(state, task.key):
        outcome = replace(outcome, steps_told=True)
    if task.claim is not None and task.claim.nodes > 1 and task.started_at and not task.writes:
        # Of a gang: those who save make its checkpoints, and this one does not, or did not come to it.
        outcome = replace(outcome, idle=True, cut_off=were_cut_off(task.exits))
    return _with_unkept(state, task, outcome)


def _with_unkept(state: NodeState, task: NodeTask, outcome: TaskOutcome) -> TaskOutcome:
    """Name what of its files is not kept. What ended well and lost what it is for has not ended well."""
    said = [state.troubles[what] for what in unkept_words(task.key) if what in state.troubles]
    if task.files_lost and not said:
        said = [f"files {LOST}: storage took none of them in the time that there was"]
    if not said:
        return outcome
    outcome = replace(outcome, unkept="; ".join(said).replace(WAIT, LOST))
    if outcome.cause is None:
        refused = state.troubles.get(f"outputs {task.key}", "")
        if task.files_lost:
            return replace(outcome, cause=causes.FILES_LOST, detail=outcome.unkept)
        if UNKEPT in refused:
            return replace(outcome, cause=causes.OUTPUTS_UNKEPT, detail=refused)
    return outcome
