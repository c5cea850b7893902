"""Jobs, attempts and ranges in the fewest words, for the suites that are the law of all stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.core.job.events import Event
from headway.core.model import Attempt, Job, Phase, State, Task
from headway.core.spec.job import JobSpec
from headway.store.protocol import Batch, JobChange, LogRange, Store


def a_job(id: str = "j1", *, name: str = "train", user: str = "ada", **fields: Any) -> Job:
    """A new job, ready to be saved. Keywords of JobSpec go there, all others to the job."""
    in_spec = {key: fields.pop(key) for key in list(fields) if key in JobSpec.__slots__}
    spec = JobSpec(command=("python", "train.py"), name=name, **in_spec)
    return Job(id, spec, user, **{"submitted_at": 100.0, "version": 1, **fields})


def placed(job: Job, *nodes: str, number: int = 1, phase: Phase = Phase.PLACED) -> Job:
    """The next version of a job, with an attempt on these nodes."""
    tasks = tuple(Task(index, node, phase=phase) for index, node in enumerate(nodes or ("n1",)))
    attempt = Attempt(number, tasks, placed_at=110.0 + number)
    return replace(job, state=State.STARTING, attempt=attempt, version=job.version + 1)


def ended(job: Job, at: float = 200.0) -> Job:
    """The next version of a job: it succeeded."""
    attempt = job.attempt and replace(job.attempt, ended_at=at, tasks=_phase(job.attempt, Phase.ENDED))
    return replace(job, state=State.SUCCEEDED, attempt=attempt, ended_at=at, version=job.version + 1)


def with_tasks(job: Job, phase: Phase) -> Job:
    """The next version of a job, all its tasks in this phase."""
    assert job.attempt is not None
    return replace(job, attempt=replace(job.attempt, tasks=_phase(job.attempt, phase)), version=job.version + 1)


def change(job: Job, *kinds: str) -> JobChange:
    """The change that makes this version of the job, with events of these kinds."""
    events = tuple(Event(kind, job.submitted_at, job.id, job.number) for kind in kinds)
    return JobChange(job, job.version - 1, events)


def a_range(start: int, end: int, job: str = "j1", attempt: int = 1, **fields: Any) -> LogRange:
    where = {
        "task": 0,
        "rank": 0,
        "stream": "out",
        "key": f"k{start}",
        "key_offset": 0,
        "at": 1.5,
        "crc32": 2**32 - 1,
        "times": "5:a 3:14",
        **fields,
    }
    return LogRange(job=job, attempt=attempt, start=start, end=end, **where)


def save(store: Store, *jobs: Job) -> list[Job]:
    """Save versions of jobs, one batch each, and return them as the store has them."""
    for job in jobs:
        assert not store.commit(Batch(jobs=[change(job, "Saved")])).stale
    return store.jobs([job.id for job in jobs])


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


def numbers(store: Store) -> list[int]:
    return [event.seq for event in store.events(0, 100_000)]


def _phase(attempt: Attempt, phase: Phase) -> tuple[Task, ...]:
    return tuple(replace(task, phase=phase) for task in attempt.tasks)
