"""What time alone does to jobs that hold places: a claim that nobody takes up, an attempt that reaches its limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.control.state.transaction import Transaction
from headway.core.job.lifecycle import begins_alone, only_saves
from headway.core.job.signals import ClaimOverdue, StopDecided
from headway.core.model import Cause, Job, NodeId, State
from headway.core.units import show_duration

if TYPE_CHECKING:
    from headway.control.leader.cycle import Cycle

NEVER = float("inf")


def any_at(cycle: Cycle, now: float) -> bool:
    return any(limit_of(cycle, job) <= now for job in cycle.book.active.values())


def limit_of(cycle: Cycle, job: Job) -> float:
    """When time alone changes this job: its claim runs out, or its attempt reaches the time limit."""
    attempt = job.attempt
    assert attempt is not None
    if job.state is State.STARTING and job.lined:
        return NEVER  # Its turn has not come: see lines.py.
    if job.state is State.STARTING:
        # An agent that prepares says so; and before we listened nobody could.
        prepared_at, _ = cycle.book.trail.preparing.get(job.id, (0.0, ""))
        due = max(attempt.placed_at, prepared_at, cycle.listening_since or 0.0) + cycle.settings.claim_within_s
        may_run = begins_alone(job) and job.id not in cycle.book.untold
        # A node that is silent may have begun what it was told, and silence ends nothing.
        return NEVER if may_run and _heard_at(cycle, attempt.nodes[0]) < due else due
    if job.state is State.RUNNING and job.spec.wall_s_max is not None and not only_saves(job):
        return (attempt.started_at or attempt.placed_at) + job.spec.wall_s_max
    return NEVER


def _heard_at(cycle: Cycle, node: NodeId) -> float:
    session = cycle.sessions.get(node)
    return 0.0 if session is None else cycle.ticked_at - (cycle.last_tick - session.heard_at)


@dataclass(frozen=True, slots=True)
class Overdue:
    """Claims that were not taken up in time, attempts that reached their time limit."""

    cycle: Cycle

    def apply(self, tx: Transaction) -> None:
        for job in list(tx.book.active.values()):
            if limit_of(self.cycle, job) > tx.now:
                continue
            tx.touched.add(job.id)
            if job.state is State.STARTING:
                tx.step(job, ClaimOverdue(job.number))
            else:
                limit = f"limit {show_duration(job.spec.wall_s_max or 0)}"
                tx.step(job, StopDecided(job.number, Cause.TIME_LIMIT, limit))
