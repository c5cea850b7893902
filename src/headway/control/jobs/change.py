"""Changes to jobs that wait: priority, queue and limits, whether they are held; and what is asked of whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headway.control.jobs.submit import check_spec, refuse_cycles
from headway.control.state.transaction import Transaction
from headway.core.errors import Conflict
from headway.core.fields import check_keys
from headway.core.job.signals import SpecChanged
from headway.core.model import Job, JobId, State
from headway.core.spec.changes import one_of_twins
from headway.core.spec.job import WORDS, JobSpec, read_spec, show_spec

# None of these can make a job too large for the house, so that one which was accepted with --force keeps its place.
HARMLESS = frozenset(
    {"after", "deadline", "estimate", "grace", "hold", "log_max", "name", "priority", "retries", "start_at", "tags"}
)


@dataclass(frozen=True, slots=True)
class ChangeJob:
    """Change the description of a job that waits. Null takes a word away."""

    job: JobId
    changes: Mapping[str, Any]
    force: bool = False

    def apply(self, tx: Transaction) -> Job:
        job = tx.get(self.job)
        check_keys(self.changes, WORDS.changeable, "change")
        if job.state is not State.QUEUED:
            raise Conflict(f"{job.id} is {job.state.value}; only a waiting job can be changed")
        spec = changed_spec(job.spec, self.changes)
        if self.changes.keys() != {"hold"}:
            spec = check_spec(tx, spec, job.user, force=self.force or self.changes.keys() <= HARMLESS)
        if "after" in self.changes:
            _refuse_circle(tx, job, spec)
        return tx.step(job, SpecChanged(spec))


def changed_spec(spec: JobSpec, changes: Mapping[str, Any]) -> JobSpec:
    known = show_spec(spec)
    words = {**known, **changes}
    if isinstance(changes.get("resources"), Mapping):
        words["resources"] = {**known["resources"], **changes["resources"]}
    words = one_of_twins({key: value for key, value in words.items() if value is not None}, changes)
    return read_spec(words)


def _refuse_circle(tx: Transaction, job: Job, spec: JobSpec) -> None:
    """All that waits for something, with arrays as nodes of their own: an array has ended when its elements have."""
    graph: dict[JobId, list[JobId]] = {array: list(jobs) for array, jobs in tx.book.arrays.items()}
    for other in tx.book.jobs.values():
        if other.spec.wishes.after:
            graph[other.id] = [each.job for each in other.spec.wishes.after]
    graph[job.id] = [each.job for each in spec.wishes.after]
    refuse_cycles(graph)


class Command(Protocol):
    def apply(self, tx: Transaction) -> Any: ...


@dataclass(frozen=True, slots=True)
class EachOf:
    """The same command for every element of an array that has not ended; answers how many it concerned."""

    array: JobId
    make: Callable[[JobId], Command]

    def apply(self, tx: Transaction) -> int:
        done = 0
        for job in list(tx.book.arrays.get(self.array, ())):
            try:
                self.make(job).apply(tx)
            except Conflict:
                continue  # It runs, or has ended meanwhile.
            done += 1
        return done
