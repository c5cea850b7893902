"""What nodes say: one sync of one agent, turned into signals; and what it is answered.

The only place that reads the agent's words. The fence stands in the keys: a report of an older attempt meets a job
that has moved on, and is dropped by `step`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.control import progress, savers, sessions
from headway.control.desk import Desk
from headway.control.logs import note_overgrown
from headway.control.sessions import Session
from headway.core.errors import BadInput, HeadwayError
from headway.core.events import Event
from headway.core.lifecycle import ON_NODE
from headway.core.model import Cause, Node, Outcome, Resources, State, split_key, task_key
from headway.core.replacing import replace
from headway.core.signals import (
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
from headway.storage.protocol import check_key
from headway.store.protocol import LogRange


class StaleAgent(HeadwayError):
    """A newer agent serves this node; the older one must end itself."""

    status = 409
    kind = "stale-agent"


class LateCall(HeadwayError):
    """A later call of this agent was heard before: what this one says may no longer be so. It will be said again."""

    status = 409
    kind = "late-call"


@dataclass(frozen=True, slots=True)
class Sync:
    """One call of one agent."""

    body: Mapping[str, Any]
    session: Session
    current: bool = True  # It was made after this leader had answered, so all that overtook it is known here.
    here: bool = True  # What it tells of lies in the storage place of this server: see core/places.py.

    def apply(self, desk: Desk) -> None:
        body, session = self.body, self.session
        _meet(desk, session, body)
        if not self.here:
            body = without_stored(body)
        # Output first: the report that ends a task comes in the same call as its last bytes.
        ranges = [read_range(raw, desk.now) for raw in body.get("logs", ())]
        ranges = [piece for piece in ranges if _ran_there(desk, piece, session.node)]
        fresh = [piece for piece in ranges if desk.book.log_ends.follows(piece, desk.store)]
        desk.logs.extend(fresh)
        note_overgrown(desk, fresh)
        if not progress.WORDS.isdisjoint(body):
            progress.hear(desk, session, body)
        if "troubles" in body or body.get("full"):
            _troubles(desk, session, body.get("troubles", ()))
        for raw in body.get("reports", ()):
            self._report(desk, raw)
        if body.get("notice"):
            # After the reports: what has ended by itself before the notice did so, whatever is said in the same call.
            progress.hear_notice(desk, session, body["notice"])
        if body.get("full") and self.current:
            self._missing(desk)

    def _report(self, desk: Desk, raw: Mapping[str, Any]) -> None:
        key = str(raw["task"])
        phase = str(raw["phase"])
        job_id, attempt, index = split_key(key)
        if phase not in UNCOUNTED:
            self.session.report(key, phase)
        if not self.here and phase in HANG_ON_STORAGE:
            return
        job = desk.book.jobs.get(job_id)
        if job is None or job.number != attempt or not _is_there(job.attempt, index, self.session.node):
            return
        desk.touched.add(job_id)
        if phase == "preparing":
            desk.book.trail.preparing[job_id] = (desk.now, str(raw.get("detail", ""))[:200])
            return
        signal: Signal
        if phase in ("claimed", "running"):
            signal = Claimed(attempt, index, str(raw.get("address", "")), int(raw.get("port", 0)))
            if raw.get("saving"):
                signal = RanksOver(attempt, index, _over(desk, job_id, index, raw["saving"]))
            elif raw.get("stays"):
                left_s = max(0.0, float(raw["stays"].get("left_s", 0.0)))
                signal = Stayed(attempt, index, read_outcome(raw["stays"].get("outcome") or {}, desk.now), left_s)
        elif phase == "refused":
            signal = Refused(attempt, index, str(raw.get("detail", ""))[:500])
        elif phase == "failed_prepare":
            detail = str(raw.get("detail", ""))[:1000]
            signal = PrepareFailed(attempt, index, _cause(raw.get("cause"), Cause.NEVER_STARTED), detail)
        elif phase == "ended":
            outcome = read_outcome(raw.get("outcome") or {}, desk.now)
            job = savers.task_ended(desk, job, index, outcome)
            signal = TaskEnded(attempt, index, outcome)
        else:
            raise BadInput(f'report of {key}: unknown phase "{phase}"')
        desk.step(job, signal)

    def _missing(self, desk: Desk) -> None:
        """A full report names all that the node has: what is going there and is not named, it has not."""
        named = {str(raw["task"]) for raw in self.body.get("reports", ())}
        for job in desk.book.jobs_on(self.session.node):
            for task in job.alive:
                key = task_key(job.id, job.number, task.index)
                if task.node == self.session.node and task.phase in ON_NODE and key not in named:
                    desk.touched.add(job.id)
                    job = savers.tasks_lost(desk, job, [task.index])
                    job = desk.step(job, TaskMissing(job.number, task.index))
                    if job.state in (State.QUEUED, *_ENDED):
                        break


# What an agent tells of a task's limits; the rest of its troubles is about files.
LIMITS = {"memory": "LimitNear", "output": "LimitNear", "stalled": "LimitNear", "end": "LimitReached"}
UNCOUNTED = frozenset({"refused", "preparing", "failed_prepare"})
"""Phases that are not in the digest of reports: they come before the claim, or instead of it."""

HANG_ON_STORAGE = frozenset({"ended", "failed_prepare"})
"""Phases that say: all that it wrote is in storage, or: storage has not what it needs."""

_STORED = frozenset({"logs", "checkpoints", "artifacts", "dumps", "bad_checkpoints"})


def without_stored(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says beside what it tells of storage. Its agent hears where storage is now, and tells it anew."""
    return {word: said for word, said in body.items() if word not in _STORED}


_ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


def _is_there(attempt: Any, index: int, node: str) -> bool:
    return attempt is not None and index < len(attempt.tasks) and attempt.tasks[index].node == node


def _ran_there(desk: Desk, piece: LogRange, node: str) -> bool:
    """Whether output is told of by the node that its task ran on; anybody else's words are dropped."""
    job = desk.book.jobs.get(piece.job)
    if job is not None and job.number == piece.attempt:
        return _is_there(job.attempt, piece.task, node)
    tries = desk.store.attempts(piece.job)
    return any(each.number == piece.attempt and _is_there(each, piece.task, node) for each in tries)


def _meet(desk: Desk, session: Session, body: Mapping[str, Any]) -> None:
    """Take note of who calls: a new node, a new boot, a new agent."""
    if int(body.get("protocol", 0)) != sessions.PROTOCOL:
        raise BadInput(
            f"agent speaks protocol {body.get('protocol')}, this server {sessions.PROTOCOL}",
            "let the agent fetch /agent.pyz and start again",
        )
    epoch, boot = int(body["agent_epoch"]), str(body["boot_id"])
    known = desk.book.nodes.get(session.node)
    newest = max(session.agent_epoch, known.agent_epoch if known else 0)
    if epoch < newest:
        raise StaleAgent(f"agent {epoch} of {session.node} is older than {newest}")
    if known is not None and known.boot_id and known.boot_id != boot:
        lose_node(desk, session.node, f"{session.node} was started anew", started_anew=True)
    if epoch != session.agent_epoch or boot != session.boot_id:
        session.forget_reports()
        session.seq = 0
    session.agent_epoch, session.boot_id = epoch, boot
    seq = int(body.get("seq", 0))
    if 0 < seq <= session.seq and any(body.get(word) for word in ("full", "reports", "logs")):
        raise LateCall(f"call {seq} of {session.node} comes after call {session.seq}")
    session.seq = max(seq, session.seq)
    if body.get("full"):
        session.forget_reports()
        _save_node(desk, session, body, known)


def _save_node(desk: Desk, session: Session, body: Mapping[str, Any], known: Node | None) -> None:
    facts = body.get("facts") or {}
    granted = Resources(
        float(facts.get("cpus", 0)), int(facts.get("memory_bytes", 0)), min(int(facts.get("gpus", 0)), 1024)
    )
    node = Node(
        id=session.node,
        pool=str(body["pool"]),
        granted=granted,
        boot_id=session.boot_id,
        agent_epoch=session.agent_epoch,
        agent_version=str(body.get("agent_version", "")),
        address=str(facts.get("address", "")),
        joined_at=known.joined_at if known else desk.now,
        cordoned=known.cordoned if known else False,
        draining=known.draining if known else False,
    )
    node = desk.book.house.dressed(node)
    if known is None or known.boot_id != node.boot_id:
        data = {"node": node.id, "pool": node.pool, "cpus": granted.cpus, "memory_bytes": granted.memory_bytes}
        desk.say(Event("NodeJoined", desk.now, data={**data, "gpus": granted.gpus}))
    stays = bool(session.closed_because) and not body.get("notice")
    if stays:
        session.closed_because = ""  # The machine stays after all.
    if node != known or stays:
        desk.save_node(node, not session.closed_because, session.closed_because)


def lose_node(desk: Desk, node: str, detail: str, started_anew: bool = False, silent_s: float = 0.0) -> None:
    """Every rank on this node is over: it was proven dead, or silent for a whole lease."""
    for job in desk.book.jobs_on(node):
        desk.touched.add(job.id)
        job = savers.tasks_lost(desk, job, [task.index for task in job.alive if task.node == node])
        desk.step(job, NodeLost(job.number, node, detail, started_anew, silent_s))
    known = desk.book.nodes.get(node)
    if known is not None:
        desk.save_node(replace(known, gone_at=desk.now))
        desk.say(Event("NodeLost", desk.now, data={"node": node, "detail": detail}))


def _troubles(desk: Desk, session: Session, raws: Iterable[Mapping[str, Any]]) -> None:
    """All that is wrong on the node now. What is new is an event; all of it is shown while it lasts."""
    found = {str(raw.get("what", ""))[:100]: str(raw.get("detail", ""))[:500] for raw in raws}
    for what, detail in found.items():
        if session.troubles.get(what) != detail:
            data = {"node": session.node, "what": what, "detail": detail}
            kind = LIMITS.get(what.partition(" of ")[0], "StorageFailed")
            desk.say(Event(kind, desk.now, *_of_whom(desk, session, what), data=data))
    session.troubles = found


def _of_whom(desk: Desk, session: Session, what: str) -> tuple[str, int]:
    """The job and attempt of a trouble that names a task of this node; no job for one of the node as such."""
    try:
        job_id, attempt, index = split_key(what.rpartition(" ")[2])
    except ValueError:
        return "", 0
    job = desk.book.jobs.get(job_id)
    there = job is not None and job.number == attempt and _is_there(job.attempt, index, session.node)
    return (job_id, attempt) if there else ("", 0)


def _over(desk: Desk, job: str, index: int, raw: Mapping[str, Any]) -> Outcome:
    """How the ranks of a task ended whose files are on their way; how far these are is remembered, not saved."""
    done, total = max(0, int(raw.get("bytes_done", 0))), max(0, int(raw.get("bytes", 0)))
    desk.book.trail.saving.setdefault(job, {})[index] = (done, max(done, total))
    outcome = read_outcome(raw.get("outcome") or {}, desk.now)
    return replace(outcome, over_at=desk.now - max(0.0, float(raw.get("over_ago_s", 0.0))))


def read_outcome(raw: Mapping[str, Any], now: float) -> Outcome:
    cause = raw.get("cause")
    policies = raw.get("policies") or ()
    return Outcome(
        exit_code=raw.get("exit_code"),
        signal=raw.get("signal"),
        rank=raw.get("rank"),
        cause=_cause(cause, Cause.USER_CODE) if cause else None,
        detail=str(raw.get("detail", ""))[:1000],
        log_bytes=int(raw.get("log_bytes", 0)),
        failed_at=None if raw.get("failed_ago_s") is None else now - max(0.0, float(raw["failed_ago_s"])),
        suggestion=str(raw.get("suggestion") or "")[:300],
        hopeless=raw.get("retry_helps") is False,
        unasked=raw.get("unasked") is True,
        unkept=str(raw.get("unkept") or "")[:1000],
        idle=raw.get("idle") is True,
        cut_off=raw.get("cut_off") is True,
        policies=tuple((str(each.get("label", ""))[:100], str(each.get("action", ""))) for each in policies[:20]),
    )


def _cause(word: object, otherwise: Cause) -> Cause:
    """The cause of this name. An agent of another version may know names that we do not."""
    try:
        return Cause(str(word))
    except ValueError:
        return otherwise


def read_range(raw: Mapping[str, Any], now: float) -> LogRange:
    job, attempt, task = split_key(str(raw["task"]))
    start, end, offset = int(raw["start"]), int(raw["end"]), int(raw["key_offset"])
    if not 0 <= start < end or offset < 0:
        raise BadInput(f"log range {start} to {end} of {raw['task']} is empty or negative")
    key = check_key(str(raw["key"]))
    crc32 = None if raw.get("crc32") is None else int(raw["crc32"])
    if crc32 is not None and not 0 <= crc32 < 2**32:
        raise BadInput(f"log range {start} to {end} of {raw['task']}: {crc32} is no CRC-32")
    return LogRange(job, attempt, task, int(raw["rank"]), str(raw["stream"])[:8], start, end, key, offset, now, crc32)
