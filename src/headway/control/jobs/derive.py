"""Jobs that come from other jobs (fork, rerun, retry), and what a new job takes up.

A checkpoint that is taken over becomes a row of the new job (attempt 0), so it outlives the job that made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headway.control.state.transaction import Transaction
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.files import checkpoints
from headway.core.files.checkpoints import COMMITTED, Gang, Whole
from headway.core.job.signals import StopDecided
from headway.core.model import Cause, Job, JobId, State
from headway.core.spec.changes import changed
from headway.core.spec.job import JobSpec
from headway.core.spec.params import refuse_unknown, seed_of, with_values
from headway.core.spec.program import PLAIN
from headway.core.spec.program_words import ResumeFrom, read_params
from headway.store.protocol import SharesUsed


def take_up(tx: Transaction, job: Job, like: JobId | None = None) -> Job:
    """The new job with all that it needs noted; refused when its bundle or its checkpoint is not there.

    `like` is the job that it repeats: where the origin is forgotten, what that one took over is taken over again.
    """
    for feature in tx.book.features.who_take_up:
        feature.take_up(job, tx)
    progress = job.spec.progress
    if progress is PLAIN:
        return job
    if progress.resume_from is None:
        return job
    whole, origins = _origin(tx, job, progress.resume_from, like)
    for part in whole.parts:
        taken = replace(part, job=job.id, attempt=0, state=COMMITTED, pinned=False)
        tx.keep.checkpoints.append(taken)
    tx.keep.uses.extend(SharesUsed(job.id, "origin", origin) for origin in sorted(origins))
    resume = replace(progress.resume_from, step=whole.step)
    return replace(job, spec=replace(job.spec, progress=replace(progress, resume_from=resume)))


def _origin(tx: Transaction, job: Job, resume: ResumeFrom, like: JobId | None) -> tuple[Whole, set[JobId]]:
    """The checkpoint to begin from, and every job whose parts it may name."""
    there: list[int] | None = None
    for source in (resume.job, like):
        found = tx.store.jobs([source]) if source else []
        if not found:
            continue
        entries = tx.store.checkpoints(found[0].id)
        if source != resume.job:
            entries = [each for each in entries if each.attempt == 0]
        gang = Gang.of(found[0].spec)
        whole = checkpoints.newest(entries, gang)
        if resume.step is not None:
            whole = checkpoints.at_step(entries, gang, resume.step)
        if whole is None:
            complete = [each.step for each in checkpoints.gather(entries, gang) if each.complete]
            there = [*(there or ()), *complete]
            continue
        whole = _for_nodes(whole, job.spec.nodes)
        origins = {part.key.split("/")[1] for part in whole.parts} | {found[0].id}
        return whole, origins | {use.name for use in tx.store.uses(found[0].id) if use.kind == "origin"}
    if there is None:
        raise NotFound(f'resume_from: no job "{resume.job[:80]}"', "headway ps --all")
    step = f"at step {resume.step}" if resume.step is not None else "yet"
    raise NotFound(f'job "{resume.job[:80]}" has no complete checkpoint {step}', checkpoints.steps_there(there))


def _for_nodes(whole: Whole, nodes: int) -> Whole:
    """The same for a job of so many nodes, where it is the work of one: all of them can be given that."""
    if nodes == whole.gang.tasks:
        return whole
    shares = [part for part in whole.shares if part.task in whole.needed]
    if len(shares) > 1 or (shares[0].sharded and not shares[0].covers):
        had = f"the checkpoint of step {whole.step} is of {whole.gang.tasks} nodes, each with its own share"
        raise BadInput(f"{had}; the job asks for {nodes}", f"use --nodes {whole.gang.tasks}")
    return replace(whole, parts=(replace(shares[0], task=0, savers=(0,), covers=()),), gang=Gang(nodes))


NOT_AGAIN = {
    "array": "a job that is done again is one job",
    "at_once": "a job that is done again is one job",
    "resume_from": "where it begins is said by the checkpoint that is named",
}


def forked(job: Job, step: int | None, values: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> JobSpec:
    """The spec of a job that goes on from a checkpoint of this one, with other parameters, and with changes."""
    spec = _again(job, values, changes or {})
    return replace(spec, progress=replace(spec.progress, resume_from=ResumeFrom(job.id, step)))


def repeated(job: Job, values: Mapping[str, Any] | None = None, changes: Mapping[str, Any] | None = None) -> JobSpec:
    """The spec of a job that does what this one did, but for changes: the same seed, and the same beginning."""
    return _again(job, values or {}, changes or {})


def _again(job: Job, values: Mapping[str, Any], changes: Mapping[str, Any]) -> JobSpec:
    for word, why in NOT_AGAIN.items():
        if word in changes:
            raise BadInput(f"{word}: {why}", f"leave {word} out")
    refuse_unknown(job.spec, values)
    spec = changed(job.spec, changes)
    params = with_values(dict(spec.progress.params), dict(read_params(values, "set")))
    seed = seed_of(job) if "seed" not in changes else spec.progress.seed
    return replace(spec, progress=replace(spec.progress, params=tuple(params.items()), seed=seed))


def continued(tx: Transaction, job: Job) -> JobSpec:
    """The spec of a job that goes on where this one ended: from its newest checkpoint, if it has one."""
    newest = checkpoints.newest(tx.store.checkpoints(job.id), Gang.of(job.spec))
    return forked(job, newest.step, {}) if newest else job.spec


@dataclass(frozen=True, slots=True)
class Preempt:
    """Let a running job make room: it saves within its grace and goes on from there."""

    job: JobId
    by: str
    grace_s: float | None = None

    def apply(self, tx: Transaction) -> Job:
        job = tx.get(self.job)
        if job.state is State.STOPPING and job.cause is Cause.PREEMPTED:
            return job
        if job.state is not State.RUNNING:
            raise Conflict(f"{job.id} is {job.state.value}; only a running job can make room")
        return tx.step(job, StopDecided(job.number, Cause.PREEMPTED, f"asked by {self.by}", self.grace_s))


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep a checkpoint whatever the retention says, or no longer."""

    job: JobId
    step: int
    pinned: bool

    def apply(self, tx: Transaction) -> int:
        job = tx.get(self.job)
        known = tx.store.checkpoints(job.id)
        if job.id in tx.book.jobs:
            known = list(tx.book.trail.checkpoints_of(job.id))
        mine = [replace(each, pinned=self.pinned) for each in known if each.step == self.step]
        if not mine:
            hint = checkpoints.steps_there(each.step for each in known)
            raise NotFound(f"{job.id} has no checkpoint at step {self.step}", hint)
        tx.keep.changed.extend(mine)
        if job.id in tx.book.jobs:
            tx.book.trail.put(job.id, mine)
        return len(mine)
