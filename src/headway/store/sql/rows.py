"""What a job, a node, an event look like as rows, and back. Only shapes: no connection, no SQL.

Writers give tuples in the order of the tables' columns; readers take the columns that statements.py selects.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any

from headway.core.files.checkpoints import Checkpoint
from headway.core.job.events import Event
from headway.core.model import (
    NO_LOSSES,
    Attempt,
    Cause,
    Job,
    Losses,
    Node,
    Outcome,
    Phase,
    Resources,
    Retries,
    State,
    Task,
)
from headway.core.spec.job import JobSpec
from headway.core.spec.program import PLAIN, ProgramSpec
from headway.core.spec.scheduling import NO_WISHES, Wishes
from headway.store.protocol import Artifact, LogRange, SubmitKey

Row = Sequence[Any]

SPEC_CACHED_BYTES_MAX = 4096
STATES = {state.value: state for state in State}
PHASES = {phase.value: phase for phase in Phase}
CAUSES: dict[str | None, Cause | None] = {None: None, **{cause.value: cause for cause in Cause}}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


_PLAIN: dict[Any, Any] = {ProgramSpec: PLAIN, Wishes: NO_WISHES}
"""Groups of words that most jobs leave out: nothing is kept of them then."""


def _as_dict(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    if kind in _PLAIN and value == _PLAIN[kind]:
        return {}
    return {name: getattr(value, name) for name in _names(kind)}


# Text beyond ASCII is escaped: so a command of any bytes can be kept, and PostgreSQL meets no NUL.
to_json = json.JSONEncoder(separators=(",", ":"), default=_as_dict).encode


def plain(text: str) -> str:
    """The text without what a database refuses: NUL, and halves of characters."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


# --- specs ---
@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """A function that makes a value of this type from its JSON."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (read,) = {_reader(part) for part in inner if part is not type(None)}
        return _same if read is _same else lambda value: None if value is None else read(value)
    if origin is tuple and inner[-1] is Ellipsis:
        read_one = _reader(inner[0])
        return tuple if read_one is _same else lambda value: tuple(map(read_one, value))
    if origin is tuple:
        readers = [_reader(part) for part in inner]
        if all(read is _same for read in readers):
            return tuple
        return lambda value: tuple(read(part) for read, part in zip(readers, value, strict=True))
    if is_dataclass(hint):
        return _dataclass_reader(hint)
    return _same


def _dataclass_reader(kind: Any) -> Callable[[dict[str, Any]], Any]:
    readers = {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}
    apart = [(name, read) for name, read in readers.items() if read is not _same]
    plain = _PLAIN.get(kind)

    def read_fields(raw: dict[str, Any]) -> Any:
        if not raw and plain is not None:
            return plain
        for name, read in apart:
            if name in raw:
                raw[name] = read(raw[name])
        # Keys of a newer version, which somebody went back from, are passed over.
        return kind(**raw) if raw.keys() <= readers.keys() else kind(**{k: raw[k] for k in raw if k in readers})

    return read_fields


def _same(value: Any) -> Any:
    return value


Read = typing.TypeVar("Read")


def read_as(kind: Callable[..., Read], text: str) -> Read:
    """The dataclass of this JSON."""
    value: Read = _reader(kind)(json.loads(text))
    return value


def read_hint(hint: Any, value: Any) -> Any:
    """A value of this type, from what its JSON says."""
    return _reader(hint)(value)


def _parse_spec(text: str) -> JobSpec:
    spec: JobSpec = _reader(JobSpec)(json.loads(text))
    return spec


_parse_small_spec = lru_cache(maxsize=2048)(_parse_spec)


def read_spec(text: str) -> JobSpec:
    """The spec of this JSON. Small ones are kept: jobs of a sweep or of a queue read again share them."""
    return _parse_small_spec(text) if len(text) <= SPEC_CACHED_BYTES_MAX else _parse_spec(text)


# --- jobs ---
def new_job_row(job: Job, seq: int, spec_json: str) -> Row:
    spec = job.spec
    return (
        seq, job.id, job.version, job.state.value, job.number, spec.project, plain(job.user), spec.queue, spec.pool,
        spec.priority, spec.name, spec_json, job.submitted_at, job.cause and job.cause.value, plain(job.detail),
        job.retries.user, job.retries.platform, job.retries.capacity, job.not_before, job.stop_by, job.grace_s,
        job.ended_at, to_json(job.avoid) if job.avoid else "[]", job.retry_of, job.array_id, job.array_index,
        job.quick_ends, _losses(job),
    )  # fmt: skip


CHANGING = (
    "version", "state", "attempt", "cause", "detail", "retries_user", "retries_platform", "retries_capacity",
    "not_before", "stop_by", "grace_s", "ended_at", "avoid", "quick_ends", "losses",
)  # fmt: skip
"""The columns of a job that change after it was submitted, in the table's order."""


def changed_job_row(job: Job, seq: int) -> Row:
    """The values of CHANGING, and the job's number last."""
    return (
        job.version, job.state.value, job.number, job.cause and job.cause.value, plain(job.detail), job.retries.user,
        job.retries.platform, job.retries.capacity, job.not_before, job.stop_by, job.grace_s, job.ended_at,
        to_json(job.avoid) if job.avoid else "[]", job.quick_ends, _losses(job), seq,
    )  # fmt: skip


def _losses(job: Job) -> str:
    return "{}" if job.losses == NO_LOSSES else to_json(job.losses)


RESPECIFIED = ("project", "queue", "pool", "priority", "name", "spec")


def respecified_row(job: Job, seq: int) -> Row:
    """The values of RESPECIFIED, and the job's number last."""
    spec = job.spec
    return (spec.project, spec.queue, spec.pool, spec.priority, spec.name, to_json(spec), seq)


def tag_rows(job: Job, seq: int) -> list[Row]:
    return [(seq, plain(key), plain(value)) for key, value in dict(job.spec.tags).items()]


def attempt_row(attempt: Attempt, seq: int) -> Row:
    return (
        seq, attempt.number, attempt.placed_at, attempt.started_at, attempt.ended_at,
        attempt.cause and attempt.cause.value, plain(attempt.detail), attempt.exit_code, attempt.resumed_step,
        attempt.seen_step, attempt.committed_step, attempt.committed_at, attempt.first_step,
        attempt.seen_at,
    )  # fmt: skip


TASK = ("job", "attempt", "index", "node", "gpus", "phase", "address", "port", "outcome")


def task_row(task: Task, number: int, seq: int) -> Row:
    return (
        seq, number, task.index, task.node, to_json(task.gpus) if task.gpus else "[]", task.phase.value,
        plain(task.address), task.port, to_json(task.outcome) if task.outcome else None,
    )  # fmt: skip


def read_job(row: Row, tasks: tuple[Task, ...]) -> Job:
    """The job of a row of `jobs` that is joined with the row of its newest attempt."""
    (
        seq, id, version, state, number, _, user, _, _, _, _, spec, submitted_at, cause, detail, retries_user,
        retries_platform, retries_capacity, not_before, stop_by, grace_s, ended_at, avoid, retry_of, array_id,
        array_index, quick_ends, losses, _, *attempt,
    ) = row  # fmt: skip
    if retries_user or retries_platform or retries_capacity:
        retries = Retries(retries_user, retries_platform, retries_capacity)
    else:
        retries = NO_RETRIES
    return Job(
        id, read_spec(spec), user, submitted_at, STATES[state],
        read_attempt(attempt, tasks) if number else None,
        CAUSES[cause], detail, retries, not_before, stop_by, grace_s,
        tuple(json.loads(avoid)) if avoid != "[]" else (),
        ended_at, retry_of, array_id, array_index, version, seq, quick_ends,
        NO_LOSSES if losses == "{}" else read_as(Losses, losses),
    )  # fmt: skip


NO_RETRIES = Retries()


def read_attempt(row: Row, tasks: tuple[Task, ...]) -> Attempt:
    """The attempt of a row of `attempts` without its job."""
    number, placed_at, started_at, ended_at, cause, detail, exit_code, resumed, seen, committed, at, first, seen_at = (
        row
    )
    return Attempt(
        number, tasks, placed_at, started_at, ended_at, CAUSES[cause], detail, exit_code, resumed, seen, committed, at,
        first, seen_at,
    )  # fmt: skip


def read_task(row: Row) -> Task:
    """The task of a row in the order of TASK."""
    _, _, index, node, gpus, phase, address, port, outcome = row
    devices = tuple(json.loads(gpus)) if gpus != "[]" else ()
    return Task(index, node, devices, PHASES[phase], address, port, _outcome(outcome) if outcome else None)


def _outcome(text: str) -> Outcome:
    raw = json.loads(text)
    cause = CAUSES[raw.pop("cause", None)]
    raw["policies"] = tuple(map(tuple, raw.get("policies", ())))
    return Outcome(**{name: value for name, value in raw.items() if name in _names(Outcome)}, cause=cause)


# --- the rest ---
REQUEST = "request"  # Among an event's data: the id of the call that it came of.


def event_row(event: Event, seq: int, job_seq: int, data: str | None = None) -> Row:
    """The row of an event; `data` is what its data look like, where somebody knows already."""
    if data is None:
        said = {**event.data, REQUEST: event.request} if event.request else event.data
        data = to_json(said) if said else "{}"
    return (seq, job_seq, event.job, event.attempt, event.kind, event.at, data)


def read_event(row: Row) -> Event:
    seq, _, job, attempt, kind, at, data = row
    said = json.loads(data) if data != "{}" else {}
    return Event(kind, at, job, attempt, said, seq, said.pop(REQUEST, ""))


def node_row(node: Node) -> Row:
    granted = node.granted
    return (
        plain(node.id), node.pool, granted.cpus, granted.memory_bytes, granted.gpus, plain(node.boot_id),
        node.agent_epoch, plain(node.agent_version), plain(node.address), plain(node.image), plain(node.zone),
        plain(node.kind), to_json(dict(node.labels)), node.available_until, int(node.cordoned), node.joined_at,
        node.gone_at, int(node.draining),
    )  # fmt: skip


def read_node(row: Row) -> Node:
    id, pool, cpus, memory_bytes, gpus, boot_id, agent_epoch, version, address, image, zone, kind, labels = row[:13]
    until, cordoned, joined_at, gone_at, draining = row[13:]
    return Node(
        id, pool, Resources(cpus, memory_bytes, gpus), boot_id, agent_epoch, version, address, image, zone, kind,
        json.loads(labels), until, bool(cordoned), joined_at, gone_at, bool(draining),
    )  # fmt: skip


def log_row(entry: LogRange, seq: int) -> Row:
    return (
        seq, entry.attempt, entry.task, entry.rank, entry.stream, entry.start, entry.end, entry.key, entry.key_offset,
        entry.at, entry.crc32, entry.times,
    )  # fmt: skip


def read_log(row: Row, job: str) -> LogRange:
    return LogRange(job, *row[1:])


def key_row(key: SubmitKey) -> Row:
    return (key.key, to_json(key.jobs), key.digest, key.at)


def read_key(row: Row) -> SubmitKey:
    return SubmitKey(row[0], tuple(json.loads(row[1])), row[2], row[3])


# --- files ---
def checkpoint_row(entry: Checkpoint, seq: int) -> Row:
    return (
        seq, entry.attempt, entry.task, entry.step, entry.how, entry.key, entry.bytes, entry.files, entry.at,
        to_json(dict(entry.metrics)) if entry.metrics else "{}", entry.state, int(entry.pinned),
        entry.unit, plain(entry.found), int(entry.sharded),
        to_json(entry.savers), to_json(entry.covers), int(entry.late), int(entry.beside),
    )  # fmt: skip


def read_checkpoint(row: Row, job: str) -> Checkpoint:
    _, attempt, task, step, how, key, size, files, at, metrics, state, pinned, unit, found, sharded, *gang = row
    savers, covers, late, beside = gang
    return Checkpoint(
        job, attempt, task, step, how, key, size, files, at, json.loads(metrics), state, bool(pinned),
        unit, found, bool(sharded), tuple(json.loads(savers)), tuple(json.loads(covers)),
        bool(late), bool(beside),
    )  # fmt: skip


def artifact_row(entry: Artifact, seq: int) -> Row:
    return (
        seq, entry.attempt, entry.task, plain(entry.path), entry.size, entry.sha256, to_json(entry.keys), entry.at
    )  # fmt: skip


def read_artifact(row: Row, job: str) -> Artifact:
    _, attempt, task, path, size, sha256, keys, at = row
    return Artifact(job, attempt, task, path, size, sha256, tuple(json.loads(keys)), at)
