"""From descriptions to new jobs: names become ids, arrays become their elements, and what cannot be is refused at once.

Pure but for questions to the transaction. `commands.Submit` adds what comes out; `change.py` checks changed
descriptions by the same rules.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.control.state.cluster_config import nearest
from headway.control.state.transaction import Transaction
from headway.control.views.jobs import find_job
from headway.core.errors import BadInput, NotFound
from headway.core.model import Job, JobId, Pool, Queue
from headway.core.records import replace
from headway.core.scheduling import admission
from headway.core.spec.job import JobSpec
from headway.core.spec.pool import LEAVING
from headway.core.spec.scheduling import NO_WISHES, After
from headway.store.protocol import JobFilter

COUNT = "HEADWAY_ARRAY_COUNT"
ANY_MEMORY = 1 << 60


@dataclass(frozen=True, slots=True)
class Made:
    """New jobs, and per description the id by which it is known: of its job, or of its array."""

    jobs: list[Job]
    ids: list[JobId]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where new jobs come from: who asked, what their ids are, and which job they repeat or try again."""

    user: str
    new_id: Callable[[], JobId]
    like: Job | None = None
    retry_of: JobId | None = None


def make_jobs(tx: Transaction, specs: Sequence[JobSpec], origin: Origin, force: bool = False) -> Made:
    """Check the descriptions, and make their jobs."""
    ids = [origin.new_id() for _ in specs]
    named = _named(specs, ids)
    before: JobSpec | None = None
    known: list[JobSpec] = []
    for spec in specs:
        # Large batches share their descriptions: each is checked once.
        try:
            known.append(known[-1] if spec is before else check_spec(tx, spec, origin.user, named, force))
        except BadInput as error:
            if len(specs) == 1:
                raise
            raise BadInput(f'job "{spec.name}": {error.message}', error.hint) from None
        before = spec
    if named:
        graph = {id: [each.job for each in spec.wishes.after] for id, spec in zip(ids, known, strict=True)}
        refuse_cycles(graph, {id: spec.name for id, spec in zip(ids, known, strict=True)})
    made = [job for id, spec in zip(ids, known, strict=True) for job in _elements(id, spec, origin, tx.now)]
    return Made(made, ids)


def check_spec(
    tx: Transaction, spec: JobSpec, user: str, named: Mapping[str, JobId] | None = None, force: bool = False
) -> JobSpec:
    """The description with ids for names and the queue's limits; refused where it could never run here."""
    house = tx.book.house
    queue = _queue(tx, spec)
    if spec.pool and spec.pool not in house.pools and house.pools and not queue.allow_waiting:
        raise BadInput(f'pool: no pool "{spec.pool}"', nearest(spec.pool, house.pools, "headway pool ls"))
    if force:
        spec = spec if spec.wall_s_max is not None else replace(spec, wall_s_max=queue.wall_s_default)
    else:
        spec = admission.check(spec, queue, _able(house.pools.values()), tx.book.nodes.values(), house.licences, user)
    for feature in tx.book.features.who_check:
        feature.check(spec, tx)
    if spec.wishes.after:
        spec = replace(spec, wishes=replace(spec.wishes, after=_resolved(tx, spec, named or {})))
    return spec


def _queue(tx: Transaction, spec: JobSpec) -> Queue:
    try:
        return tx.book.house.queue(spec.queue)
    except NotFound as error:
        raise BadInput(f"queue: {error.message}", error.hint) from None


def _able(pools: Iterable[Pool]) -> list[Pool]:
    """Pools that may take something new. Where nobody said how much memory a node has, it may be any amount."""
    able = []
    for pool in pools:
        if pool.state == LEAVING:
            continue
        if pool.shape is not None and not pool.shape.memory_bytes:
            pool = replace(pool, shape=replace(pool.shape, memory_bytes=ANY_MEMORY))
        able.append(pool)
    return able


# --- dependencies ---------------------------------------------------------------------------------------------------


def _named(specs: Sequence[JobSpec], ids: Sequence[JobId]) -> dict[str, JobId]:
    """Jobs of one request may name each other: by name, where it is one job's alone and somebody waits for it."""
    if len(specs) < 2 or not any(spec.wishes.after for spec in specs):
        return {}
    wanted = {each.job for spec in specs for each in spec.wishes.after}
    named: dict[str, JobId] = {}
    for spec, id in zip(specs, ids, strict=True):
        if spec.name in wanted:
            if spec.name in named:
                raise BadInput(f'after: "{spec.name}" could be several jobs of this request', "give them other names")
            named[spec.name] = id
    return named


def _resolved(tx: Transaction, spec: JobSpec, named: Mapping[str, JobId]) -> tuple[After, ...]:
    found = []
    for each in spec.wishes.after:
        if each.each and not spec.wishes.array:
            raise BadInput(f"after: {each.job} element by element, but this is not an array", "add --array N")
        job = named.get(each.job) or known_id(tx, each.job)
        if each.each and each.job not in named:
            _check_size(tx, job, spec.wishes.array)
        found.append(replace(each, job=job))
    return tuple(found)


def known_id(tx: Transaction, ref: str) -> JobId:
    """The id of a job or an array that exists; a name stands for the newest job of that name."""
    if ref in tx.book.jobs or ref in tx.book.arrays or any(change.job.id == ref for change in tx.new):
        return ref
    if tx.store.jobs([ref]) or tx.store.page(JobFilter(array=ref), None, 1):
        return ref
    try:
        return find_job(tx.store, ref).id
    except NotFound as error:
        raise BadInput(f"after: {error.message}", error.hint) from None


def _check_size(tx: Transaction, array: JobId, size: int) -> None:
    first_and_last = tx.store.jobs([element(array, size - 1), element(array, size)])
    if [job.array_index for job in first_and_last] != [size - 1]:
        raise BadInput(f"after: {array} is not an array of {size:,} jobs", "element by element needs two of one size")


def refuse_cycles(graph: Mapping[JobId, Iterable[JobId]], names: Mapping[JobId, str] | None = None) -> None:
    """Refuse jobs that wait for each other in a circle. Ids that nobody has seen yet are told by their names."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        around = " → ".join((names or {}).get(each) or str(each) for each in reversed(error.args[1]))
        raise BadInput(f"after: these jobs wait for each other: {around}", "one of them must not wait") from None


# --- arrays ---------------------------------------------------------------------------------------------------------


def element(array: JobId, index: int) -> JobId:
    """The id of one element of an array."""
    return f"{array}-{index}"


def _elements(id: JobId, spec: JobSpec, origin: Origin, now: float) -> Iterable[Job]:
    size, user, like = spec.wishes.array, origin.user, origin.like
    if not size:
        # An element that is tried again keeps its index: its program reads it.
        array, index = (like.array_id, like.array_index) if like else (None, None)
        return [Job(id, spec, user, now, retry_of=origin.retry_of, array_id=array, array_index=index, version=1)]
    env = (*(pair for pair in spec.env if pair[0] != COUNT), (COUNT, str(size)))
    wishes = replace(spec.wishes, array=0)
    spec = replace(spec, env=env, wishes=NO_WISHES if wishes == NO_WISHES else wishes)
    if not any(each.each for each in spec.wishes.after):
        return [Job(element(id, at), spec, user, now, array_id=id, array_index=at, version=1) for at in range(size)]
    return [
        Job(element(id, at), _each(spec, at), user, now, array_id=id, array_index=at, version=1) for at in range(size)
    ]


def _each(spec: JobSpec, index: int) -> JobSpec:
    after = tuple(After(element(each.job, index), each.when) if each.each else each for each in spec.wishes.after)
    return replace(spec, wishes=replace(spec.wishes, after=after))


def numbered(job: Job, seq: int) -> Job:
    """A new job with its place in the order. Written out: `replace` would be most of what a large array costs."""
    return Job(
        job.id, job.spec, job.user, job.submitted_at, retry_of=job.retry_of, array_id=job.array_id,
        array_index=job.array_index, version=job.version, seq=seq,
    )  # fmt: skip
