"""Jobs, nodes and what happens to them, in the fewest words. What does not matter in a test stays at its default."""

from __future__ import annotations

from typing import Any

from headway.core.job.lifecycle import step
from headway.core.job.signals import CancelAsked, Claimed, Placed, Seat, Signal, StopDecided, TaskEnded
from headway.core.model import Cause, Job, Node, Outcome, Resources
from headway.core.spec.job import JobSpec
from headway.engines.table import KINDS

NOW = 1_000_000.0
ENGINES = {kind.name: kind for kind in KINDS}
FINE = Outcome(exit_code=0)
BROKEN = Outcome(exit_code=1, rank=0, cause=Cause.USER_CODE, detail="ValueError: no")


def a_spec(**fields: Any) -> JobSpec:
    """A checked spec. `cpus`, `memory_bytes` and `gpus` go to its resources."""
    amounts = {name: fields.pop(name) for name in ("cpus", "memory_bytes", "gpus") if name in fields}
    resources = Resources(**{"cpus": 1.0, **amounts})
    return JobSpec(**{"command": ("python", "train.py"), "name": "train", "resources": resources, **fields})


def a_job(id: str = "j1", **fields: Any) -> Job:
    """A queued job. Keywords of the spec and its resources go there, all others to the job."""
    in_spec = {*JobSpec.__slots__, "cpus", "memory_bytes", "gpus"}
    spec = a_spec(**{name: fields.pop(name) for name in list(fields) if name in in_spec})
    return Job(id, spec, **{"user": "ada", "submitted_at": NOW - 100, "version": 1, "seq": 1, **fields})


def a_node(id: str = "n1", cpus: float = 8.0, gpus: int = 0, memory_bytes: int = 2**40, **fields: Any) -> Node:
    return Node(id, fields.pop("pool", "local"), Resources(cpus, memory_bytes, gpus), **fields)


def after(job: Job, *signals: Signal, now: float = NOW) -> Job:
    """The job after all of these have happened to it."""
    for signal in signals:
        job = step(job, signal, now)
    return job


def seats(*nodes: str) -> Placed:
    return Placed(tuple(Seat(node) for node in nodes))


def placed(job: Job | None = None, *nodes: str) -> Job:
    """Starting: every task has its place, none is claimed."""
    job = job or a_job()
    return after(job, seats(*(nodes or [f"n{number}" for number in range(1, job.spec.nodes + 1)])))


def running(job: Job | None = None, *nodes: str) -> Job:
    """Running: every task was claimed and told to go."""
    job = placed(job, *nodes)
    return after(job, *(Claimed(job.number, index, "host", 4000 + index) for index in range(job.spec.nodes)))


def stopping(job: Job | None = None, *nodes: str, cause: Cause = Cause.TIME_LIMIT, detail: str = "limit 1 h") -> Job:
    """Stopping: told to end, and every task still alive."""
    job = running(job, *nodes)
    if cause is Cause.CANCELLED:
        return after(job, CancelAsked("ada"))
    return after(job, StopDecided(job.number, cause, detail))


def succeeded(job: Job | None = None) -> Job:
    job = running(job)
    return after(job, *(TaskEnded(job.number, index, FINE) for index in range(job.spec.nodes)))


def failed(job: Job | None = None) -> Job:
    job = running(job)
    return after(job, *(TaskEnded(job.number, index, BROKEN) for index in range(job.spec.nodes)))


def cancelled(job: Job | None = None) -> Job:
    return after(job or a_job(), CancelAsked("ada"))
