"""What agents say about progress: checkpoints, artifacts, steps, damaged checkpoints, dumps, and the notice of an end.

One part of a sync. The fence stands here in the order of things: whatever comes from another attempt than the job's
newest, or from a task that is not going, changes nothing, and is answered like the rest so that it is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import structlog

from headway.control.nodes import saver_questions
from headway.control.nodes.sessions import Session
from headway.control.state.transaction import Transaction
from headway.core.errors import BadInput, HeadwayError, Unavailable
from headway.core.files import checkpoints
from headway.core.files.checkpoints import SET_ASIDE, Checkpoint, Gang
from headway.core.job.events import Event
from headway.core.job.lifecycle import ON_NODE, begins_alone
from headway.core.job.signals import NodeLost, PendingOver, PrepareFailed, Progressed, ResumeSpoiled, StopDecided
from headway.core.model import Cause, Job, State
from headway.core.steps import STEP, named
from headway.core.units import show_duration
from headway.storage.protocol import check_key
from headway.store.protocol import Artifact
from headway_wire import kinds
from headway_wire.kinds import WordRefused
from headway_wire.reply import Reply
from headway_wire.sync import BadCheckpoint, Notice, StackDump, StoredArtifact, StoredCheckpoint, SyncRequest
from headway_wire.tasks import split_key

log = structlog.get_logger()

DUMPS = "headway-dumps"  # Where stack dumps stand among the artifacts.
MOST_AGO_S = 7 * 86400.0
SAVE_STEPS_S = 10.0
REFUSED_MOST = 20  # So many of the entries that were refused are named in a reply.

Stored = dict[str, tuple[Job, int, int]]


def hear(tx: Transaction, session: Session, request: SyncRequest) -> None:
    """Take over all that a sync says about progress. Before its reports: an end comes with what was saved last."""
    stored: Stored = {}
    idle, still_idle = (
        [pair for pair in said if not isinstance(pair, WordRefused)] for said in (request.idle, request.still_idle)
    )
    saver_questions.hear(tx, session.node, idle, still_idle)
    for word, take in (
        ("checkpoints", _checkpoint),
        ("artifacts", lambda tx, session, told: _artifact(tx, session, told, stored)),
        ("bad_checkpoints", _bad_checkpoint),
        ("dumps", _dump),
    ):
        for told in getattr(request, word):
            try:
                if not isinstance(told, WordRefused):
                    take(tx, session, told)
            except Unavailable:
                raise  # Not its fault: the whole call fails, and is made again.
            except HeadwayError as error:
                # One entry that is wrong must not hold up all else that this node has to say, for ever.
                log.warning("refused what a node said", node=session.node, word=word, error=error.message)
    for word, refused in request.refused():
        log.warning("refused what a node said", node=session.node, word=word, error=refused.why)
    for job, files, size in stored.values():
        tx.say(Event("ArtifactStored", tx.now, job.id, job.number, {"files": files, "bytes": size}))
    for pair in request.steps:
        if not isinstance(pair, WordRefused):
            _seen(tx, session, *pair)


def _seen(tx: Transaction, session: Session, key: str, step: int) -> None:
    job, _ = _going(tx, session, key)
    if job is not None:
        seen = tx.book.trail.seen
        seen[job.id] = max(step, seen.get(job.id, 0))


def brings(request: SyncRequest) -> bool:
    """Whether a call tells of anything for which it is answered by name."""
    return bool(request.checkpoints or request.artifacts) or next(request.refused(), None) is not None


def answered(reply: Reply, request: SyncRequest) -> Reply:
    """The reply, saying that all that the sync brought is committed or refused, and need not be said again."""
    safe: dict[str, tuple[object, ...]] = {}
    for task, step in _named(request.checkpoints, "step"):
        safe[task] = (*safe.get(task, ()), step)
    refused = tuple(f"{word}{each.why}" for word, each in request.refused())
    stored = tuple(_named(request.artifacts, "path"))
    return kinds.replace(reply, checkpoints_safe=safe, artifacts_safe=stored, refused=refused[:REFUSED_MOST])


def _named(entries: Iterable[object], word: str) -> Iterator[tuple[str, object]]:
    """By what an agent knows each entry again: those that were refused too, as far as they can be told apart."""
    for each in entries:
        if isinstance(each, StoredCheckpoint | StoredArtifact):
            yield each.task, getattr(each, word)
        elif (
            isinstance(each, WordRefused)
            and isinstance(each.entry, dict)
            and isinstance(each.entry.get("task"), str)
            and word in each.entry
        ):
            yield each.entry["task"], each.entry[word]


def _going(tx: Transaction, session: Session, key: str) -> tuple[Job | None, int]:
    """The job whose newest attempt has this task going on the node that speaks; None for anybody else's words."""
    job_id, attempt, index = split_key(key)
    job = tx.book.jobs.get(job_id)
    if job is None or job.attempt is None or job.number != attempt or not 0 <= index < len(job.attempt.tasks):
        return None, index
    task = job.attempt.tasks[index]
    if task.node != session.node or task.phase not in ON_NODE:
        return None, index
    tx.touched.add(job_id)
    return job, index


# --- checkpoints ----------------------------------------------------------------------------------------------------


def _checkpoint(tx: Transaction, session: Session, told: StoredCheckpoint) -> None:
    job, index = _going(tx, session, told.task)
    if job is None:
        return
    entry = checkpoint_of(told, job, index, tx.now)
    trail = tx.book.trail
    there = next((each for each in trail.checkpoints_of(job.id) if each.id == entry.id), None)
    if there is not None and (there.key, there.bytes, there.how) == (entry.key, entry.bytes, entry.how):
        return  # Said again because the answer was lost.
    if there is not None:
        entry = replace(entry, savers=there.savers)
    trail.put(job.id, [entry])
    tx.keep.checkpoints.append(entry)
    of_step = [each for each in trail.checkpoints_of(job.id) if (each.attempt, each.step) == (job.number, entry.step)]
    whole = checkpoints.newest(of_step, Gang.of(job.spec))
    if whole is not None:  # Else other tasks of the gang do not have that step yet, or nobody knows whether they save.
        job = saver_questions.announce(tx, job, [whole])
    job = saver_questions.settle(tx, job)
    retain(tx, job)


def retain(tx: Transaction, job: Job) -> None:
    """Let checkpoints go that need not be kept. Their objects are collected later."""
    trail = tx.book.trail
    drop = checkpoints.to_drop(
        trail.checkpoints_of(job.id), Gang.of(job.spec), job.spec.progress.checkpoint, job.number
    )
    if drop:
        tx.keep.dropped.extend(drop)
        trail.drop(job.id, drop)


def checkpoint_of(told: StoredCheckpoint, job: Job, index: int, now: float) -> Checkpoint:
    key = _key(told.key, job, "checkpoints")
    # Only our own clock decides anything, so a node says how long ago it was.
    at = now - min(max(0.0, told.saved_ago_s or 0.0), MOST_AGO_S)
    return Checkpoint(
        job.id, job.number, index, told.step, told.how, key, told.bytes, told.files, at, told.metrics,
        unit=told.unit or STEP, found=told.found, sharded=told.sharded,
        covers=_covered(told.covers, job, index), late=told.late, beside=told.beside,
    )  # fmt: skip


def _covered(tasks: tuple[int, ...], job: Job, index: int) -> tuple[int, ...]:
    return tuple(sorted({each for each in tasks if each < job.spec.nodes} - {index}))


def _key(value: str, job: Job, folder: str) -> str:
    key = check_key(value)
    if not key.startswith(f"jobs/{job.id}/{job.number}/{folder}/"):
        raise BadInput(f'"{key[:100]}" is not under {folder} of attempt {job.number} of {job.id}')
    return key


def _bad_checkpoint(tx: Transaction, session: Session, told: BadCheckpoint) -> None:
    """A checkpoint failed its hash when it was restored: set it aside, and go on from the one before."""
    job_id, attempt, index = split_key(told.task)
    job = tx.book.jobs.get(job_id)
    if job is None or job.attempt is None or job.number != attempt or job.state is not State.STARTING:
        return
    if index >= len(job.attempt.tasks) or job.attempt.tasks[index].node != session.node:
        return
    tx.touched.add(job_id)
    trail = tx.book.trail
    known = trail.checkpoints_of(job_id)
    bad = next((each for each in known if each.key == told.key), None)  # Perhaps another task's share.
    if bad is None or bad.state == SET_ASIDE:
        return
    aside = replace(bad, state=SET_ASIDE)
    trail.put(job_id, [aside])
    tx.keep.changed.append(aside)
    detail = told.detail
    before = checkpoints.newest(trail.checkpoints_of(job_id), Gang.of(job.spec))
    data = {
        "step": bad.step,
        "unit": bad.unit,
        "of_attempt": bad.attempt,
        "task": bad.task,
        "key": bad.key,
        "detail": detail,
    }
    data["instead"] = before.step if before else None
    tx.say(Event("CheckpointSetAside", tx.now, job_id, job.number, data))
    trail.spoiled[job_id] = trail.spoiled.get(job_id, 0) + 1
    which = named(bad.step, bad.unit)
    said = f"the checkpoint of {which} is damaged: {detail}"
    origin = job.spec.progress.resume_from
    if before is None and origin is not None:
        # Somebody asked for what begins there. To begin with nothing instead would look like an answer.
        said = f"the checkpoint of {which} of {origin.job}, from which it was to begin, is damaged: {detail}"
        tx.step(job, PrepareFailed(attempt, index, Cause.INPUT_MISSING, said))
        return
    tx.step(job, ResumeSpoiled(job.number, before.step if before else None, said))


# --- artifacts and dumps --------------------------------------------------------------------------------------------


def _artifact(tx: Transaction, session: Session, told: StoredArtifact, stored: Stored) -> None:
    job, index = _going(tx, session, told.task)
    if job is None:
        return
    path, size = told.path, told.size
    if path.startswith("/") or ".." in path.split("/"):
        raise BadInput(f'artifact: "{path[:80]}" is not a path inside the tree')
    keys = tuple(_key(key, job, "output") for key in told.keys)
    tx.keep.artifacts.append(Artifact(job.id, job.number, index, path, size, told.sha256, keys, tx.now))
    _, files, total = stored.get(job.id, (job, 0, 0))
    stored[job.id] = (job, files + 1, total + size)


def _dump(tx: Transaction, session: Session, told: StackDump) -> None:
    job, index = _going(tx, session, told.task)
    if job is not None:
        key = _key(told.key, job, "dumps")
        data = {"task": index, "key": key, "what": told.what}
        tx.say(Event("StackDumped", tx.now, job.id, job.number, data))
        if told.sha256:  # So that it can be listed and fetched like whatever else the job leaves.
            path = f"{DUMPS}/{key.rpartition('/')[2]}"
            tx.keep.artifacts.append(Artifact(job.id, job.number, index, path, told.size, told.sha256, (key,), tx.now))


# --- notices --------------------------------------------------------------------------------------------------------


def hear_notice(tx: Transaction, session: Session, notice: Notice) -> None:
    """The machine will go: nothing more is placed there, and what runs there saves itself while it can."""
    left_s = min(max(0.0, notice.seconds_left), 7 * 86400.0)
    said = notice.why or notice.cause
    known = tx.book.nodes.get(session.node)
    if session.closed_because == "" and known is not None:
        session.closed_because = "will be reclaimed"
        tx.book.saw_node(known, False, session.closed_because)
        data = {"node": session.node, "cause": said, "seconds_left": round(left_s, 1)}
        tx.say(Event("NoticeGiven", tx.now, data=data))
    detail = f"{session.node} goes in {left_s:.0f} s" + (f" ({said})" if said else "")
    if notice.why:
        detail = f"{notice.why} ({session.node})"
    for job in tx.book.jobs_on(session.node):
        tx.touched.add(job.id)
        if job.state is State.STARTING and (job.id in tx.book.untold or not begins_alone(job)):
            tx.step(job, NodeLost(job.number, session.node, detail))
        elif job.state in (State.STARTING, State.RUNNING):  # A single task that it was told of may have begun.
            grace_s = min(job.spec.grace_s, left_s)
            tx.step(job, StopDecided(job.number, Cause.RECLAIMED, detail, grace_s))


@dataclass(frozen=True, slots=True)
class SaveSteps:
    """Write down the steps that were seen since the last time."""

    def apply(self, tx: Transaction) -> None:
        for job_id in list(tx.book.trail.seen):
            job = tx.book.jobs.get(job_id)
            if job is None:
                tx.book.trail.seen.pop(job_id, None)
            else:
                tx.touched.add(job_id)
                tx.step(job, Progressed(job.number, tx.book.trail.seen.pop(job_id)))


@dataclass(frozen=True, slots=True)
class EndPending:
    """End queued jobs that have waited longer than their description allows."""

    def apply(self, tx: Transaction) -> None:
        for job_id, until in list(tx.book.trail.pending.items()):
            job = tx.book.jobs.get(job_id)
            if job is not None and job.state is State.QUEUED and until <= tx.now:
                tx.touched.add(job_id)
                limit = show_duration(job.spec.progress.limits.pending_s or 0.0)
                tx.step(job, PendingOver(f"limit {limit}"))
