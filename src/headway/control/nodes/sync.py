"""What nodes say: one sync of one agent, turned into signals; and what it is answered.

The agent's words are in headway_wire/sync.py. The fence stands in the keys: a report of an older attempt
meets a job that has moved on, and is dropped by `step`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headway.control.files.log_index import note_overgrown
from headway.control.nodes import file_reports, saver_questions
from headway.control.nodes.sessions import Session
from headway.control.state.transaction import Transaction
from headway.core.errors import BadInput, HeadwayError
from headway.core.job.causes import TABLE, Again
from headway.core.job.events import Event
from headway.core.job.lifecycle import ON_NODE, begins_alone
from headway.core.job.signals import (
    Claimed,
    NodeLost,
    PrepareFailed,
    RanksOver,
    Refused,
    Signal,
    Stayed,
    TaskEnded,
    TaskMissing,
)
from headway.core.model import Cause, Job, Node, Outcome, Phase, Resources, State
from headway.core.protocol import without_stored
from headway.core.records import replace
from headway.core.scheduling.fit import could_go_elsewhere
from headway.storage.protocol import check_key
from headway.store.protocol import LogRange
from headway_wire.sync import (
    CALLED_BACK,
    DIGESTED,
    ENDED,
    FAILED_PREPARE,
    PREPARING,
    REFUSED,
    RUNNING,
    OutputRange,
    Report,
    SavingFiles,
    SyncRequest,
    TaskOutcome,
    Trouble,
)
from headway_wire.tasks import split_key, task_key


class StaleAgent(HeadwayError):
    """A newer agent serves this node; the older one must end itself."""

    status = 409
    kind = "stale-agent"

    def __init__(self, message: str, newest: int) -> None:
        super().__init__(message)
        self.newest = newest


class LateCall(HeadwayError):
    """A later call of this agent was heard before: what this one says may no longer be so. It will be said again."""

    status = 409
    kind = "late-call"


@dataclass(frozen=True, slots=True)
class Sync:
    """One call of one agent."""

    request: SyncRequest
    session: Session
    current: bool = True  # It was made after this leader had answered, so all that overtook it is known here.
    here: bool = True  # What it tells of lies in the storage place of this server: see core/files/storage_identity.py.

    def apply(self, tx: Transaction) -> None:
        request, session = self.request, self.session
        _meet(tx, session, request)
        if not self.here:
            request = without_stored(request)
        # Output first: the report that ends a task comes in the same call as its last bytes.
        ranges = [log_range(told, tx.now) for told in request.logs]
        ranges = [piece for piece in ranges if _ran_there(tx, piece, session.node)]
        note_overgrown(tx, self._fresh(tx, ranges))
        for report in request.reports:
            self._begun(tx, report)
        file_reports.hear(tx, session, request)
        if request.troubles is not None or request.full:
            _troubles(tx, session, request.troubles or ())
        for report in request.reports:
            self._report(tx, report)
        if request.notice is not None:
            # After the reports: what has ended by itself before the notice did so, whatever is said in the same call.
            file_reports.hear_notice(tx, session, request.notice)
        if request.full and self.current:
            self._missing(tx)
        if request.features and isinstance(request.features, dict):
            for feature in tx.book.features.who_hear:
                said = {word: request.features[word] for word in feature.words if word in request.features}
                if said:
                    feature.hear(session.node, said, tx)

    def _fresh(self, tx: Transaction, ranges: Iterable[LogRange]) -> list[LogRange]:
        """The pieces that are new. Each enters the batch at once: where the store cannot be asked about the next one,
        what is remembered of this one is taken back with the rest."""
        fresh = []
        for piece in ranges:
            if tx.book.log_ends.follows(piece, tx.store):
                tx.logs.append(piece)
                fresh.append(piece)
        return fresh

    def _begun(self, tx: Transaction, report: Report) -> None:
        """A single task begins without our `go`: whatever is told of it says that it was claimed."""
        if report.phase not in BEGUN:
            return
        job_id, attempt, index = split_key(report.task)
        job = tx.book.jobs.get(job_id)
        if job is None or job.attempt is None:
            return
        if job.lined and not self.here:
            return  # The end of the task before it does not count either: both are told again.
        if job.state is not State.STARTING and not (job.lined and report.phase == RUNNING):
            return
        if job.number == attempt and begins_alone(job) and _is_there(job.attempt, index, self.session.node):
            tx.touched.add(job_id)
            tx.step(job, Claimed(attempt, index, report.address, report.port, report.began_ago_s or 0.0))

    def _report(self, tx: Transaction, report: Report) -> None:
        phase = report.phase
        job_id, attempt, index = split_key(report.task)
        if phase in DIGESTED:
            self.session.report(report.task, phase)
        if not self.here and phase in HANG_ON_STORAGE:
            return
        job = tx.book.jobs.get(job_id)
        if job is None or job.number != attempt or not _is_there(job.attempt, index, self.session.node):
            return
        tx.touched.add(job_id)
        if phase == PREPARING:
            tx.book.trail.preparing[job_id] = (tx.now, report.detail[:200])
            return
        signal: Signal
        if phase == REFUSED:
            signal = self._refusal(tx, job, index, report)
        elif phase == FAILED_PREPARE:
            signal = PrepareFailed(attempt, index, _cause(report.cause, Cause.NEVER_STARTED), report.detail)
        elif phase == ENDED:
            outcome = outcome_of(report.outcome, tx.now)
            if report.over_ago_s is not None:
                outcome = replace(outcome, over_at=tx.now - report.over_ago_s)
            job = saver_questions.task_ended(tx, job, index, outcome)
            signal = TaskEnded(attempt, index, outcome)
        elif report.saving is not None:
            signal = RanksOver(attempt, index, _over(tx, job_id, index, report.saving))
        elif report.stays is not None:
            stays = report.stays
            signal = Stayed(attempt, index, outcome_of(stays.outcome, tx.now), max(0.0, stays.left_s))
        elif job.lined:
            return  # An agent of before has found it at the keeper; its turn has not come.
        else:
            signal = Claimed(attempt, index, report.address, report.port)
        tx.step(job, signal)

    def _refusal(self, tx: Transaction, job: Job, index: int, report: Report) -> Refused:
        detail = report.detail[:500]
        if report.cause == CALLED_BACK:
            return Refused(job.number, index, detail, called_back=True)
        cause = _cause(report.cause, Cause.NEVER_STARTED)
        if TABLE[cause].again is not Again.NEVER:
            return Refused(job.number, index, detail)
        others = could_go_elsewhere(tx.book.view.need(job), tx.book.nodes.values(), self.session.node)
        return Refused(job.number, index, detail, cause=cause, elsewhere=others)

    def _missing(self, tx: Transaction) -> None:
        """A full report names all that the node has: what is going there and is not named, it has not."""
        named = {report.task for report in self.request.reports}
        for job in tx.book.jobs_on(self.session.node):
            for task in job.alive:
                key = task_key(job.id, job.number, task.index)
                if task.node == self.session.node and task.phase in ON_NODE and key not in named:
                    tx.touched.add(job.id)
                    job = saver_questions.tasks_lost(tx, job, [task.index])
                    job = tx.step(job, TaskMissing(job.number, task.index))
                    if job.state in (State.QUEUED, *_ENDED):
                        break


EPOCH_AHEAD_S = 10 * 365 * 86400.0
# What an agent tells of a task's limits; the rest of its troubles is about files.
LIMITS = {"memory": "LimitNear", "output": "LimitNear", "stalled": "LimitNear", "end": "LimitReached"}
BEGUN = frozenset({RUNNING, ENDED})
"""Phases that only a task can be in which was begun, or told to."""

HANG_ON_STORAGE = frozenset({ENDED, FAILED_PREPARE})
"""Phases that say: all that it wrote is in storage, or: storage has not what it needs."""

_ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


def _is_there(attempt: Any, index: int, node: str) -> bool:
    return attempt is not None and index < len(attempt.tasks) and attempt.tasks[index].node == node


def _ran_there(tx: Transaction, piece: LogRange, node: str) -> bool:
    """Whether output is told of by the node that its task ran on; anybody else's words are dropped."""
    job = tx.book.jobs.get(piece.job)
    if job is not None and job.number == piece.attempt:
        return _is_there(job.attempt, piece.task, node)
    tries = tx.store.attempts(piece.job)
    return any(each.number == piece.attempt and _is_there(each, piece.task, node) for each in tries)


def _meet(tx: Transaction, session: Session, request: SyncRequest) -> None:
    """Take note of who calls: a new node, a new boot, a new agent."""
    epoch, boot = request.agent_epoch, request.boot_id
    known = tx.book.nodes.get(session.node)
    newest = max(session.agent_epoch, known.agent_epoch if known else 0)
    if epoch < newest:
        raise StaleAgent(f"agent {epoch} of {session.node} is older than {newest}", newest)
    if epoch > max(newest + 1, tx.now + EPOCH_AHEAD_S):
        # An agent's number is the time at which it began. One from far ahead would shut all later agents out.
        raise BadInput(
            f"sync: agent_epoch: {epoch} is more than ten years ahead of this server's clock",
            f"set the clock of {session.node}, and remove the file agent.epoch from its directory",
        )
    if known is not None and known.boot_id and known.boot_id != boot:
        over = frozenset(report.task for report in request.reports if _had_ended(report))
        lose_node(tx, session.node, f"{session.node} was started anew", started_anew=True, over=over)
    if epoch != session.agent_epoch or boot != session.boot_id:
        session.forget_reports()
        session.seq = 0
    session.agent_epoch, session.boot_id = epoch, boot
    seq = request.seq
    if 0 < seq <= session.seq and (request.full or request.reports or request.logs):
        raise LateCall(f"call {seq} of {session.node} comes after call {session.seq}")
    session.seq = max(seq, session.seq)
    if request.full:
        session.forget_reports()
        _save_node(tx, session, request, known)


def _save_node(tx: Transaction, session: Session, request: SyncRequest, known: Node | None) -> None:
    facts = request.facts
    granted = Resources(facts.cpus, facts.memory_bytes, min(facts.gpus, 1024))
    node = Node(
        id=session.node,
        pool=request.pool,
        granted=granted,
        boot_id=session.boot_id,
        agent_epoch=session.agent_epoch,
        agent_version=request.agent_version,
        address=facts.address,
        joined_at=known.joined_at if known else tx.now,
        cordoned=known.cordoned if known else False,
        draining=known.draining if known else False,
    )
    node = tx.book.house.dressed(node)
    if known is None or known.boot_id != node.boot_id:
        data = {"node": node.id, "pool": node.pool, "cpus": granted.cpus, "memory_bytes": granted.memory_bytes}
        tx.say(Event("NodeJoined", tx.now, data={**data, "gpus": granted.gpus}))
    stays = bool(session.closed_because) and request.notice is None
    if stays:
        session.closed_because = ""  # The machine stays after all.
    if node != known or stays:
        tx.save_node(node, not session.closed_because, session.closed_because)


def _had_ended(report: Report) -> bool:
    """Whether the ranks of a task ended before its machine did, and what they left is there."""
    if report.saving is not None:
        return report.saving.outcome.cause != Cause.OUTCOME_LOST
    return report.phase == ENDED and report.outcome.cause != Cause.OUTCOME_LOST


def lose_node(
    tx: Transaction,
    node: str,
    detail: str,
    started_anew: bool = False,
    silent_s: float = 0.0,
    over: frozenset[str] = frozenset(),
) -> None:
    """Every rank on this node is over: it was proven dead, or silent for a whole lease.

    Of a machine that was started anew, `over` are the tasks that had ended before, and whose files it has.
    """
    _lose_tasks(tx, node, NodeLost(0, node, detail, started_anew, silent_s), over)
    known = tx.book.nodes.get(node)
    if known is not None:
        tx.save_node(replace(known, gone_at=tx.now))
        tx.say(Event("NodeLost", tx.now, data={"node": node, "detail": detail}))


def machine_restarted(tx: Transaction, node: str, detail: str) -> None:
    """An engine sees that a machine was started anew, and its agent has not called yet.

    What ran there is lost. Where it has files of tasks that had ended, it is waited for, for as long as its lease.
    """
    tasks = [task for job in tx.book.jobs_on(node) for task in job.alive if task.node == node]
    if not any(task.phase is Phase.SAVING for task in tasks):
        lose_node(tx, node, detail)
        return
    _lose_tasks(tx, node, NodeLost(0, node, detail, started_anew=True), frozenset())
    known = tx.book.nodes.get(node)
    if known is not None:
        tx.save_node(known, False, detail)


def _lose_tasks(tx: Transaction, node: str, lost: NodeLost, over: frozenset[str]) -> None:
    for each in tx.book.jobs_on(node):
        job = tx.book.jobs[each.id]  # It may have moved up when the one before it was lost.
        tx.touched.add(job.id)
        kept = frozenset(index for id, attempt, index in map(split_key, over) if (id, attempt) == (job.id, job.number))
        spared = kept | {task.index for task in job.alive if lost.started_anew and task.phase is Phase.SAVING}
        gone = [task.index for task in job.alive if task.node == node and task.index not in spared]
        job = saver_questions.tasks_lost(tx, job, gone) if gone else job
        tx.step(job, replace(lost, attempt=job.number, over=kept))


def _troubles(tx: Transaction, session: Session, troubles: Iterable[Trouble]) -> None:
    """All that is wrong on the node now. What is new is an event; all of it is shown while it lasts."""
    found = {trouble.what: trouble.detail for trouble in troubles}
    for what, detail in found.items():
        if session.troubles.get(what) != detail:
            data = {"node": session.node, "what": what, "detail": detail}
            kind = LIMITS.get(what.partition(" of ")[0], "StorageFailed")
            tx.say(Event(kind, tx.now, *_of_whom(tx, session, what), data=data))
    tx.book.troubled = tx.book.troubled or session.troubles != found
    session.troubles = found


def _of_whom(tx: Transaction, session: Session, what: str) -> tuple[str, int]:
    """The job and attempt of a trouble that names a task of this node; no job for one of the node as such."""
    try:
        job_id, attempt, index = split_key(what.rpartition(" ")[2])
    except ValueError:
        return "", 0
    job = tx.book.jobs.get(job_id)
    there = job is not None and job.number == attempt and _is_there(job.attempt, index, session.node)
    return (job_id, attempt) if there else ("", 0)


def _over(tx: Transaction, job: str, index: int, said: SavingFiles) -> Outcome:
    """How the ranks of a task ended whose files are on their way; how far these are is remembered, not saved."""
    tx.book.trail.saving.setdefault(job, {})[index] = (said.bytes_done, max(said.bytes_done, said.bytes))
    return replace(outcome_of(said.outcome, tx.now), over_at=tx.now - max(0.0, said.over_ago_s))


def outcome_of(said: TaskOutcome, now: float) -> Outcome:
    return Outcome(
        exit_code=said.exit_code,
        signal=said.signal,
        rank=said.rank,
        cause=_cause(said.cause, Cause.USER_CODE) if said.cause else None,
        detail=said.detail,
        log_bytes=said.log_bytes,
        failed_at=None if said.failed_ago_s is None else now - max(0.0, said.failed_ago_s),
        suggestion=said.suggestion,
        hopeless=said.retry_helps is False,
        unasked=said.unasked,
        unkept=said.unkept,
        idle=said.idle,
        cut_off=said.cut_off,
        steps_told=said.steps_told,
        policies=tuple((each.label, each.action) for each in said.policies[:20]),
    )


def _cause(word: str, otherwise: Cause) -> Cause:
    """The cause of this name. An agent of another version may know names that we do not."""
    try:
        return Cause(word)
    except ValueError:
        return otherwise


def log_range(told: OutputRange, now: float) -> LogRange:
    if told.start >= told.end:
        raise BadInput(f"log range {told.start} to {told.end} of {told.task} is empty or negative")
    key, (job, attempt, task) = check_key(told.key), split_key(told.task)
    at = now - (told.written_ago_s or 0.0)
    return LogRange(
        job, attempt, task, told.rank, told.stream, told.start, told.end, key, told.key_offset, at, told.crc32
    )
