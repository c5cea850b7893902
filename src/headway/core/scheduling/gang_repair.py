"""A gang that lost a node, and what it may keep: the places of the others, for a while, until the lost one is replaced.

All of it follows from the job as it waits again, so nothing has to be remembered beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.job.signals import Seat
from headway.core.model import Cause, Job, JobId, NodeId, Phase

REPAIRED = frozenset({Cause.NODE_LOST, Cause.OUTCOME_LOST, Cause.RECLAIMED, Cause.NEVER_STARTED})


@dataclass(frozen=True, slots=True)
class Repair:
    """Places that a waiting gang had before, by task; None where the node was lost."""

    job: JobId
    nodes: tuple[NodeId | None, ...]
    until: float

    @property
    def survivors(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self.nodes if node is not None)


def repair_of(job: Job, repair_s: float) -> Repair | None:
    """What a job that waits may keep; None for most."""
    attempt = job.attempt
    if attempt is None or len(attempt.tasks) < 2 or job.cause not in REPAIRED or attempt.ended_at is None:
        return None
    nodes = tuple(
        None
        if task.node in job.avoid or (task.phase is Phase.LOST and job.cause is not Cause.OUTCOME_LOST)
        else task.node
        for task in attempt.tasks
    )
    return Repair(job.id, nodes, attempt.ended_at + repair_s) if repair_s > 0 and any(nodes) else None


def as_before(seats: tuple[Seat, ...], repair: Repair) -> tuple[Seat, ...]:
    """The seats in such an order that each task whose node is still there stays on it."""
    free = {seat.node: seat for seat in seats}
    kept = [free.pop(node) if node is not None and node in free else None for node in repair.nodes]
    others = iter(free.values())
    return tuple(seat if seat is not None else next(others) for seat in kept)
