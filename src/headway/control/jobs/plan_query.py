"""What would start when: for a job before it is submitted, and for the queue as it stands. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.control.jobs.submit import check_spec
from headway.control.state.transaction import Transaction
from headway.core import explain
from headway.core.model import Job
from headway.core.scheduling import scheduler
from headway.core.scheduling.run_times import ENDLESS
from headway.core.scheduling.scheduler import Start
from headway.core.spec.job import JobSpec
from headway.core.units import show_duration

STEPS_MOST = 200
"""How often the plan is made for one answer: commands wait meanwhile."""
NEWEST = 2**62


@dataclass(frozen=True, slots=True)
class PlanJob:
    """When this job would start if it were submitted now, and why not earlier; BadInput if it never could."""

    spec: JobSpec
    user: str

    def apply(self, tx: Transaction) -> Mapping[str, Any]:
        spec = check_spec(tx, self.spec, self.user)
        job = Job("new", spec, self.user, tx.now, seq=NEWEST)
        view = tx.book.view
        waits = bool(spec.wishes.after) or spec.wishes.hold
        start = None if waits else scheduler.what_if(view, job, tx.now, STEPS_MOST)
        waiting = scheduler.why_all_waiting([job], view, tx.now)[job.id]
        return {
            "name": spec.name,
            **_shown(start, tx.now),
            "sentence": _sentence(start, tx.now) or explain.explain_waiting(job, waiting, tx.now),
            "waits": explain.explain_waiting(job, waiting, tx.now),
        }


@dataclass(frozen=True, slots=True)
class PlanQueue:
    """When the first of the queue will start."""

    most: int = 500

    def apply(self, tx: Transaction) -> Mapping[str, Any]:
        view = tx.book.view
        forecast = scheduler.expected_starts(view, tx.now, self.most, STEPS_MOST)
        order = scheduler.first_in_order(view, tx.now, self.most)
        jobs = [
            {
                "id": job.id,
                "name": job.spec.name,
                "queue": job.spec.queue,
                "user": job.user,
                "wants": explain.wants(job),
                **_shown(forecast.start(job.id), tx.now),
            }
            for job in order
        ]
        return {"jobs": jobs, "waiting": len(view.queued), "elsewhere": len(view.backing_off) + len(view.blocked)}


def _shown(start: Start | None, now: float) -> dict[str, Any]:
    known = start is not None and start.at != ENDLESS
    at = start.at if start is not None and known else None
    return {
        "starts_at": at,
        "starts_in_s": None if at is None else max(0.0, at - now),
        "exact": bool(start and known and start.exact),
        "guessed": bool(start and start.guessed),
    }


def _sentence(start: Start | None, now: float) -> str:
    if start is None or start.at == ENDLESS:
        return ""
    if start.at <= now:
        return "would start now"
    soon = show_duration(start.at - now)
    if start.guessed:
        return f"would start in about {soon}, if those before it run as long as is usual"
    return f"would start in {soon}" if start.exact else f"would not start before {soon} from now"
