"""What people ask for: submit, stop, retry, forget, and the question why.

Each command is data with one method that works in a transaction: load, step, put back. It is done on the control
thread, saved with its neighbours in one commit, and done again if a job had moved on meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from headway.control.jobs.derive import continued, take_up
from headway.control.jobs.submit import Origin, make_jobs
from headway.control.state.transaction import Transaction
from headway.core import explain
from headway.core.errors import BadInput, Conflict
from headway.core.job.events import Event
from headway.core.job.lifecycle import only_saves
from headway.core.job.signals import CancelAsked, RetryAsked
from headway.core.model import Job, JobId, State
from headway.core.spec.job import JobSpec
from headway.core.spec.scheduling import ARRAY_MAX
from headway.store.protocol import Forget, SubmitKey

NewId = Callable[[], JobId]


@dataclass(frozen=True, slots=True)
class Submit:
    """New jobs, all or none. The same key with the same contents gives the same jobs, however often it is sent."""

    specs: tuple[JobSpec, ...]
    user: str
    new_id: NewId
    key: str = ""
    digest: str = ""
    retry_of: JobId | None = None
    like: JobId | None = None  # The job that they repeat.
    force: bool = False  # Accepted though nothing here could ever run it.

    def apply(self, tx: Transaction) -> list[JobId]:
        if self.key:
            known = self.known(tx)
            if known is not None:
                return known
        like = tx.find(self.like) if self.like else None
        made = make_jobs(tx, self.specs, Origin(self.user, self.new_id, like, self.retry_of), self.force)
        for job in [take_up(tx, job, self.like) for job in made.jobs]:
            tx.add(job)
        if self.key:
            tx.keys.append(SubmitKey(self.key, tuple(made.ids), self.digest, tx.now))
        return made.ids

    def known(self, tx: Transaction) -> list[JobId] | None:
        """What the same request was answered before, if it was."""
        # A repetition may stand beside its original in one batch, before the store knows the key.
        known = next((each for each in tx.keys if each.key == self.key), None) or tx.store.submitted(self.key)
        if known is None:
            return None
        if known.digest != self.digest:
            raise Conflict(
                f'the idempotency key "{self.key}" was used for another request', "use a new key for a new request"
            )
        return list(known.jobs)


def digest_of(raw: object) -> str:
    """What was submitted, as a short name, to tell a repeated request from another one with the same key."""
    return hashlib.sha256(json.dumps(raw, sort_keys=True, default=str).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Stop:
    job: JobId
    by: str
    grace_s: float | None = None
    drop_files: bool = False

    def apply(self, tx: Transaction) -> Job:
        job = tx.get(self.job)
        if only_saves(job) and job.state is State.RUNNING and not self.drop_files:
            how_far = tx.book.trail.saved(job.id)
            said = f"{job.id} has ended, and its files are being saved" + (f" ({how_far})" if how_far else "")
            raise Conflict(said, f"headway stop {job.id} --drop-files gives them up")
        return tx.step(job, CancelAsked(self.by, self.grace_s, self.drop_files))


@dataclass(frozen=True, slots=True)
class Retry:
    """A job that backs off goes now; an ended one, which never changes, gives a new job that goes on from its end."""

    job: JobId
    by: str
    new_id: NewId
    key: str = ""

    def apply(self, tx: Transaction) -> JobId:
        digest = digest_of(["retry", self.job])
        asked = Submit((), self.by, self.new_id, self.key, digest, retry_of=self.job, like=self.job)
        known = asked.known(tx) if self.key else None
        if known:
            return known[0]
        job = tx.get(self.job)
        if job.state.ended:
            return replace(asked, specs=(continued(tx, job),)).apply(tx)[0]
        if job.state is not State.QUEUED or job.not_before <= tx.now:
            raise Conflict(f"{job.id} is {job.state.value}; only an ended or backing-off job can be retried")
        if self.key:
            # Said again when the job has ended meanwhile, it must not make a second one.
            tx.keys.append(SubmitKey(self.key, (job.id,), digest, tx.now))
        return tx.step(job, RetryAsked()).id


@dataclass(frozen=True, slots=True)
class ForgetJob:
    job: JobId
    by: str

    def apply(self, tx: Transaction) -> None:
        job = tx.get(self.job)
        if not job.state.ended:
            raise Conflict(f"{job.id} is {job.state.value}; only an ended job can be removed", f"headway stop {job.id}")
        if not any(each.job == job.id for each in tx.forget):
            data = {"name": job.spec.name, "by": self.by}
            tx.forget_job(Forget(job.id, Event("JobForgotten", tx.now, job.id, job.number, data)))


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job is where it is: the sentence and the counted evidence. Changes nothing."""

    job: JobId

    def apply(self, tx: Transaction) -> Mapping[str, Any]:
        job = tx.get(self.job)
        waiting = None
        if job.state is State.QUEUED:
            waiting = tx.book.foresight.why([job], tx.book.view, tx.now)[job.id]
        evidence = asdict(waiting) if waiting else {}
        sentence = explain.explain_state(job, waiting, tx.now, tx.book.trail.saved(job.id), _preparing(tx, job))
        for node in sorted({task.node for task in job.alive} & tx.book.silent.keys()):
            sentence += "; " + explain.explain_silence(node, *tx.book.silent[node], tx.now)
        return {
            "job": job.id,
            "state": job.state.value,
            "sentence": sentence,
            "hint": explain.hint_for(job) if job.state.ended else "",
            "evidence": evidence,
        }


@dataclass(frozen=True, slots=True)
class WhyMany:
    """The sentences of many jobs that wait or start, for a list of them. Changes nothing."""

    jobs: tuple[JobId, ...]

    def apply(self, tx: Transaction) -> dict[JobId, str]:
        held = [tx.book.jobs[job] for job in self.jobs if job in tx.book.jobs]
        queued = [job for job in held if job.state is State.QUEUED]
        evidence = tx.book.foresight.why(queued, tx.book.view, tx.now)
        starting = {job.id: said for job in held if (said := _preparing(tx, job))}
        return {job.id: explain.explain_state(job, evidence[job.id], tx.now) for job in queued} | {
            job.id: explain.explain_state(job, preparing=starting[job.id]) for job in held if job.id in starting
        }


def _preparing(tx: Transaction, job: Job) -> str:
    """What a node says that it does before the job can begin there."""
    return tx.book.trail.preparing.get(job.id, (0.0, ""))[1] if job.state is State.STARTING else ""


def check_count(specs: list[Any], most: int) -> None:
    if not specs:
        raise BadInput("no jobs in the request")
    if len(specs) > most:
        raise BadInput(f"{len(specs):,} jobs in one request; at most {most:,} are taken", "send them in several")


def check_elements(specs: Sequence[JobSpec]) -> None:
    """Arrays in one request may have as many elements together as one of them alone."""
    total = sum(spec.wishes.array or 1 for spec in specs)
    if total > ARRAY_MAX:
        raise BadInput(f"{total:,} jobs in one request; at most {ARRAY_MAX:,} are taken", "send them in several")
