"""What people are shown of jobs, attempts, nodes and logs. Reads only; a view never writes.

The words and fields of the API are made here, once, for every way of asking.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from headway.control.files.log_index import marks_of, stream_of
from headway.control.views.files import kept_of, progress_of, show_loss
from headway.core import explain
from headway.core.errors import Conflict, NotFound
from headway.core.files.checkpoints import Checkpoint, unit_of
from headway.core.files.lost_work import Price, loss_of, no_price, set_backs
from headway.core.job.events import Event
from headway.core.job.retry import standing
from headway.core.model import Attempt, Job, NodeId, State
from headway.core.spec.job import show_spec
from headway.core.spec.params import command_with
from headway.store.protocol import JobFilter, LogRange, Store
from headway_wire.sync import LOGS
from headway_wire.tasks import task_key


def find_job(store: Store, ref: str, projects: frozenset[str] | None = None) -> Job:
    """The job of this id, of this unmistakable beginning of an id, or the newest of this name; within projects."""
    found = store.jobs([ref]) if ref else []
    if projects is not None:
        found = [job for job in found if job.spec.project in projects]
    found = found or (store.find(ref, 10, projects) if ref else [])
    exact = [job for job in found if job.id == ref]
    begins = [job for job in found if job.id.startswith(ref)]
    named = [job for job in found if job.spec.name == ref]
    if exact or named:
        return (exact or named)[0]
    if len(begins) == 1:
        return begins[0]
    if begins and all(job.array_id == ref for job in begins):
        raise Conflict(f'"{ref}" is an array', f"name one of its jobs, such as {ref}-0: headway ps --array {ref}")
    if begins:
        shown = ", ".join(f"{job.id} ({job.spec.name})" for job in begins[:5])
        raise Conflict(f'"{ref}" could be any of {shown}', "give more characters of the id")
    raise NotFound(f'no job "{ref[:80]}"', _nearest(store, ref, projects))


def _nearest(store: Store, ref: str, projects: frozenset[str] | None) -> str:
    recent = store.page(JobFilter(projects=projects), None, 200)
    near = difflib.get_close_matches(ref, [job.spec.name for job in recent] + [job.id for job in recent], n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f'the newest is "{recent[0].id}" ({recent[0].spec.name})' if recent else "no job was submitted yet"


def summary(job: Job, sentence: str = "", now: float = 0.0) -> dict[str, Any]:
    attempt = job.attempt
    return {
        "id": job.id,
        "seq": job.seq,
        "name": job.spec.name,
        "state": job.state.value,
        "cause": job.cause.value if job.cause else None,
        "detail": job.detail,
        "sentence": sentence or explain.explain_state(job, None, now),
        "project": job.spec.project,
        "user": job.user,
        "queue": job.spec.queue,
        "pool": job.spec.pool,
        "priority": job.spec.priority,
        "nodes": job.spec.nodes,
        "attempt": job.number,
        "exit_code": attempt.exit_code if attempt else None,
        "submitted_at": job.submitted_at,
        "started_at": attempt.started_at if attempt else None,
        "over_at": attempt.over_at if attempt else None,
        "ended_at": job.ended_at,
        "tags": dict(job.spec.tags),
    }


def detail(
    store: Store,
    job: Job,
    sentence: str = "",
    now: float = 0.0,
    price: Price = no_price,
    troubles: Mapping[NodeId, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    ranges = store.logs(job.id)
    attempts = store.attempts(job.id)
    kept = kept_of(store, job, attempts)
    return {
        **summary(job, sentence, now),
        "spec": show_spec(job.spec),
        "argv": command_with(job.spec.command, job.spec.progress.params),
        **progress_of(store, job, attempts, kept, price),
        "attempts": _show_attempts(attempts, kept, price),
        "troubles": _troubles_of(job, troubles or {}),
        "retries": asdict(job.retries),
        "losses": {**asdict(standing(job)), "sentence": explain.explain_losses(job)},
        "hint": explain.hint_for(job) if job.state in (State.FAILED, State.CANCELLED) else "",
        "retry_of": job.retry_of,
        "request": next((event.request for event in store.events(0, 1, job.id)), ""),
        "log_bytes": sum(piece.end - piece.start for piece in ranges if piece.stream in LOGS),
    }


def _troubles_of(job: Job, troubles: Mapping[NodeId, Mapping[str, str]]) -> list[dict[str, Any]]:
    """What its nodes say is wrong with a job now: files that cannot be kept, limits that are near."""
    tasks = job.attempt.tasks if job.attempt and job.alive else ()
    return [
        {"node": task.node, "task": task.index, "detail": said}
        for task in tasks
        for what, said in sorted(troubles.get(task.node, {}).items())
        if what.endswith(f" {task_key(job.id, job.number, task.index)}")
    ]


def _show_attempts(attempts: Sequence[Attempt], kept: Sequence[Checkpoint], price: Price) -> list[dict[str, Any]]:
    usual = unit_of(kept)
    units = {each.step: each.unit for each in kept}
    told = {back.attempt: explain.explain_set_back(back.to, back.since, usual) for back in set_backs(attempts)}
    return [
        {
            **show_attempt(each, price),
            "resumed_unit": None if each.resumed_step is None else units.get(each.resumed_step, usual),
            "set_back": told.get(each.number, ""),
        }
        for each in attempts
    ]


def show_attempt(attempt: Attempt, price: Price = no_price) -> dict[str, Any]:
    loss = loss_of(attempt, price)
    shown = show_loss(loss)
    return {
        "number": attempt.number,
        "placed_at": attempt.placed_at,
        "started_at": attempt.started_at,
        "over_at": attempt.over_at,
        "ended_at": attempt.ended_at,
        "cause": attempt.cause.value if attempt.cause else None,
        "detail": attempt.detail,
        "sentence": explain.explain_attempt(attempt),
        "exit_code": attempt.exit_code,
        "resumed_step": attempt.resumed_step,
        "seen_step": attempt.seen_step,
        "committed_step": attempt.committed_step,
        "committed_at": attempt.committed_at,
        "heard_at": attempt.seen_at,
        **{f"{what}_lost": shown[what] for what in ("steps", "seconds", "money")},
        "lost_at_least": loss.at_least,
        "steps_told": not loss.steps_untold,
        "tasks": [
            {
                "index": task.index,
                "node": task.node,
                "gpus": list(task.gpus),
                "phase": task.phase.value,
                "outcome": asdict(task.outcome) if task.outcome else None,
            }
            for task in attempt.tasks
        ],
    }


def show_event(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "kind": event.kind,
        "at": event.at,
        "job": event.job,
        "attempt": event.attempt,
        "data": dict(event.data),
        **({"request": event.request} if event.request else {}),
    }


def log_story(store: Store, job: Job, times: bool = False) -> dict[str, Any]:
    """All output there is of a job: per attempt, the files with their size and which bytes are kept.

    With `times`, pieces that were joined are told by when each of them was written.
    """
    by_attempt: dict[int, list[LogRange]] = {}
    for piece in store.logs(job.id):
        if piece.stream in LOGS:
            by_attempt.setdefault(piece.attempt, []).append(piece)
    shown = []
    for attempt in store.attempts(job.id):
        state = "ended" if attempt.ended_at is not None else "running"
        shown.append(
            {
                "number": attempt.number,
                "state": state,
                "cause": attempt.cause.value if attempt.cause else None,
                "sentence": explain.explain_attempt(attempt),
                "started_at": attempt.started_at,
                "nodes": list(attempt.nodes),
                "files": _files(by_attempt.get(attempt.number, []), times),
            }
        )
    return {"job": job.id, "state": job.state.value, "attempts": shown}


def _files(pieces: Iterable[LogRange], times: bool) -> list[dict[str, Any]]:
    files = []
    for (_, _, task, rank, stream), group in groupby(pieces, key=stream_of):
        ranges = list(group)
        files.append(
            {
                "task": task,
                "rank": rank,
                "stream": stream,
                "bytes": ranges[-1].end,
                "kept": _runs(ranges),
                "ranges": [told for piece in ranges for told in _timed(piece, times)],
            }
        )
    return files


def _timed(piece: LogRange, times: bool) -> Iterator[list[float]]:
    start = piece.start
    for end, at in marks_of(piece) if times else [(piece.end, piece.at)]:
        yield [start, end, at]
        start = end


def _runs(ranges: list[LogRange]) -> list[list[int]]:
    runs: list[list[int]] = []
    for piece in ranges:
        if runs and runs[-1][1] == piece.start:
            runs[-1][1] = piece.end
        else:
            runs.append([piece.start, piece.end])
    return runs


def can_grow(job: Job, attempt: int) -> bool:
    """Whether output of this attempt may still come: it is the newest, and not over."""
    if job.number != attempt:
        return job.number < attempt and not job.state.ended
    return bool(job.alive)


def show_node(node: Any, room: Any, tasks: int, heard_s: float, silent: bool) -> Mapping[str, Any]:
    return {
        "id": node.id,
        "pool": node.pool,
        "state": "silent" if silent else "draining" if node.draining else "cordoned" if node.cordoned else "up",
        "closed": "" if room is None or room.open else room.closed_because,
        "zone": node.zone,
        "kind": node.kind,
        "labels": dict(node.labels),
        "granted": asdict(node.granted),
        "free": {"cpus": room.cpus, "memory_bytes": room.memory_bytes, "gpus": len(room.gpus)} if room else None,
        "tasks": tasks,
        "heard_s": round(heard_s, 1),
        "agent_version": node.agent_version[:12],
        "address": node.address,
        "cordoned": node.cordoned,
    }
