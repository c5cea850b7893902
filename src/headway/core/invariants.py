"""What must hold of any job and of all jobs together, whatever happened before.

Checked after every save in the simulator and in tests. Each function returns broken sentences; none means all is well.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.job.states import FOLLOWS, TASK_FOLLOWS
from headway.core.model import ENDS, Job, Node, Phase, State
from headway.core.records import replace
from headway.core.scheduling.fit import CPU_DUST


def broken_in(job: Job) -> list[str]:
    """Sentences that do not hold of one job by itself."""
    said: list[str] = []
    if job.state in (State.STARTING, State.RUNNING, State.STOPPING):
        if job.attempt is None:
            return [f"{job.id} is {job.state.value} without an attempt"]
        if len(job.attempt.tasks) != job.spec.nodes:
            said.append(f"{job.id} has {len(job.attempt.tasks)} tasks, its spec says {job.spec.nodes}")
        if all(task.over for task in job.attempt.tasks):
            said.append(f"{job.id} is {job.state.value} but every task is over")
        waits = any(task.phase in (Phase.PLACED, Phase.CLAIMED) for task in job.attempt.tasks)
        if job.state is not State.STARTING and waits:
            said.append(f"{job.id} is {job.state.value} with a task that was not told to go")
    elif job.attempt is not None and not all(task.over for task in job.attempt.tasks):
        said.append(f"{job.id} is {job.state.value} with a task that is not over")
    if (job.state in ENDS) != (job.ended_at is not None):
        said.append(f"{job.id} is {job.state.value}, ended_at is {job.ended_at}")
    if job.state is State.STOPPING and job.cause is None:
        said.append(f"{job.id} is stopping without a cause")
    if job.state is State.SUCCEEDED and job.cause is not None:
        said.append(f"{job.id} succeeded with the cause {job.cause.value}")
    if job.state in (State.FAILED, State.CANCELLED) and job.cause is None:
        said.append(f"{job.id} {job.state.value} without a cause")
    return said


def untagged(after: Job, before: Job) -> Job:
    """A job with the tags that it had before: they alone may change when all is over."""
    if after.spec is before.spec:
        return after
    return replace(after, spec=replace(after.spec, tags=before.spec.tags))


def broken_between(before: Job, after: Job) -> list[str]:
    """Sentences that do not hold of a change."""
    said: list[str] = []
    if before.state in ENDS and before != untagged(after, before):
        said.append(f"{before.id} changed after its end")
    if after.state is not before.state and after.state not in FOLLOWS[before.state]:
        said.append(f"{before.id} went from {before.state.value} to {after.state.value}")
    if after.number not in (before.number, before.number + 1):
        said.append(f"{before.id} went from attempt {before.number} to {after.number}")
    if before.attempt and after.attempt and before.number == after.number:
        for old, new in zip(before.attempt.tasks, after.attempt.tasks, strict=True):
            if old.phase is not new.phase and new.phase not in TASK_FOLLOWS[old.phase]:
                said.append(f"{before.id}: task {old.index} went from {old.phase.value} to {new.phase.value}")
    return said


def broken_on_nodes(jobs: Iterable[Job], nodes: dict[str, Node]) -> list[str]:
    """Never more on a node than it has; no GPU given twice."""
    cpus: dict[str, float] = {}
    memory: dict[str, int] = {}
    gpus: dict[tuple[str, int], str] = {}
    said: list[str] = []
    for job in jobs:
        for task in job.seated:  # What waits behind another holds nothing.
            cpus[task.node] = cpus.get(task.node, 0.0) + job.spec.resources.cpus
            memory[task.node] = memory.get(task.node, 0) + job.spec.resources.memory_bytes
            for index in task.gpus:
                other = gpus.setdefault((task.node, index), job.id)
                if other != job.id:
                    said.append(f"gpu {index} of {task.node} is held by {other} and {job.id}")
    for name, used in cpus.items():
        node = nodes.get(name)
        if node and (used > node.granted.cpus + CPU_DUST or memory[name] > node.granted.memory_bytes):
            said.append(f"{name} holds more than it has: {used:g} of {node.granted.cpus:g} cpus")
    return said


def broken_in_arrays(jobs: Iterable[Job]) -> list[str]:
    """Never more of an array hold places than it says may run at once."""
    held: dict[str, list[Job]] = {}
    for job in jobs:
        if job.array_id is not None and job.spec.wishes.at_once and job.seated:
            held.setdefault(job.array_id, []).append(job)
    return [
        f"{len(holds)} of array {array} hold places, and {holds[0].spec.wishes.at_once} may at once"
        for array, holds in held.items()
        if len(holds) > holds[0].spec.wishes.at_once
    ]
