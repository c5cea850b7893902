"""Schedules: a job that is submitted again and again, at the moments that a cron expression names.

Pure. What is due is asked with the time as argument, and the answer is data; commands.py submits, stops and
saves it in one commit, so that a moment fires once. Moments that passed while no server was there count as one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys, one_of
from headway.core.model import JobId
from headway.core.spec import cron
from headway.core.spec.job import NAME, JobSpec, read_spec, show_spec

OVERLAPS = {
    "skip": "leave this moment out while the job of an earlier one has not ended",
    "queue": "submit it, to start when the earlier ones have ended",
    "replace": "stop the earlier ones, and submit it",
}
WAITING_MOST = 10
"""How many jobs of a schedule may wait for each other; a moment beyond that is left out."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job's description with the moments at which it is submitted."""

    name: str
    cron: str
    spec: JobSpec
    user: str = ""
    zone: str = "UTC"
    overlap: str = "skip"
    paused: bool = False
    created_at: float = 0.0
    settled_at: float = 0.0  # Every moment up to this one was dealt with: fired, left out, or before its time.
    fired: int = 0
    skipped: int = 0
    jobs: tuple[JobId, ...] = ()  # Its newest jobs, as far as they had not ended when it last fired.


@dataclass(frozen=True, slots=True)
class Firing:
    """What a due moment asks for, and the schedule as it is afterwards."""

    schedule: Schedule
    submit: bool
    after: tuple[JobId, ...] = ()  # Jobs that must have ended before the new one may start.
    stop: tuple[JobId, ...] = ()
    detail: str = ""


KEYS = {
    "cron": f"when: {cron.FIELDS}",
    "zone": "the time zone of the cron expression; UTC when left out",
    "overlap": "what to do while an earlier job runs: " + ", ".join(OVERLAPS),
    "paused": "nothing is submitted while it is paused",
    "job": "the description of the job",
}


def read_schedule(name: str, raw: Mapping[str, Any], user: str, now: float) -> Schedule:
    """A checked schedule, or BadInput naming field, value and a way out."""
    check_keys(raw, KEYS, "schedule")
    if not NAME.match(name):
        raise BadInput(f'schedule: "{name[:80]}" is not a name', "use letters, digits, dots, dashes and underscores")
    expression, zone = raw.get("cron"), raw.get("zone") or "UTC"
    if not isinstance(expression, str) or not isinstance(zone, str):
        raise BadInput("cron: expected a text", f"{cron.FIELDS}; {cron.EXAMPLE}")
    cron.check(expression, zone, now)
    paused = raw.get("paused", False)
    if not isinstance(paused, bool):
        raise BadInput(f'paused: "{str(paused)[:80]}" is not true or false')
    spec = read_spec(raw.get("job") or {})
    if spec.wishes.start_at is not None:
        raise BadInput("job.start_at: the schedule says when it starts", "leave start_at out")
    overlap = one_of(raw.get("overlap", "skip"), "overlap", tuple(OVERLAPS))
    return Schedule(name, expression, spec, user, zone, overlap, paused, created_at=now, settled_at=now)


def show_schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "overlap": schedule.overlap,
        "paused": schedule.paused,
        "user": schedule.user,
        "created_at": schedule.created_at,
        "next_at": next_at(schedule),
        "fired": schedule.fired,
        "skipped": schedule.skipped,
        "jobs": list(schedule.jobs),
        "job": show_spec(schedule.spec),
    }


def next_at(schedule: Schedule) -> float | None:
    """When it is due next; None while it is paused."""
    if schedule.paused:
        return None
    return cron.next_after(schedule.cron, schedule.zone, schedule.settled_at)


def paused(schedule: Schedule, pause: bool, now: float) -> Schedule:
    """The schedule, paused or going on. What it missed while it was paused is not made up for."""
    return schedule if schedule.paused is pause else replace(schedule, paused=pause, settled_at=now)


def fire(schedule: Schedule, unfinished: Collection[JobId], now: float) -> Firing | None:
    """What is to be done now; None when nothing is due. Several missed moments are one: the newest of them."""
    if schedule.paused:
        return None
    moment = cron.newest_until(schedule.cron, schedule.zone, now)
    if moment is None or moment <= schedule.settled_at:
        return None
    alive = tuple(job for job in schedule.jobs if job in unfinished)
    settled = replace(schedule, settled_at=now, jobs=alive)
    if alive and schedule.overlap == "skip":
        return _left_out(settled, f"{alive[-1]} has not ended")
    if len(alive) >= WAITING_MOST and schedule.overlap == "queue":
        return _left_out(settled, f"{len(alive)} of its jobs have not ended")
    stop = alive if schedule.overlap == "replace" else ()
    return Firing(replace(settled, fired=schedule.fired + 1), True, alive[-1:], stop)


def submitted(schedule: Schedule, job: JobId) -> Schedule:
    return replace(schedule, jobs=(*schedule.jobs, job))


def _left_out(schedule: Schedule, detail: str) -> Firing:
    return Firing(replace(schedule, skipped=schedule.skipped + 1), False, detail=detail)
