"""Schedules: set, paused, removed; and fired, each moment once, in the same commit as the job that it submits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway.control.jobs.commands import NewId, Submit
from headway.control.state.transaction import Transaction
from headway.core.errors import HeadwayError
from headway.core.job.events import Event
from headway.core.job.signals import CancelAsked
from headway.core.model import JobId
from headway.core.spec import schedule as spec_schedule
from headway.core.spec.job import JobSpec
from headway.core.spec.schedule import Schedule, show_schedule
from headway.core.spec.scheduling import After

TAG = "schedule"


@dataclass(frozen=True, slots=True)
class SetSchedule:
    """Make a schedule, or change one: its moments begin anew, its jobs go on."""

    name: str
    raw: Mapping[str, Any]
    by: str = ""

    def apply(self, tx: Transaction) -> Schedule:
        schedule = spec_schedule.read_schedule(self.name, self.raw, self.by, tx.now)
        known = tx.book.house.schedules.get(self.name)
        if known is not None:
            schedule = replace(schedule, fired=known.fired, skipped=known.skipped, jobs=known.jobs)
        put_schedule(tx, schedule)
        _say(tx, "ScheduleChanged", schedule, by=self.by, cron=schedule.cron, overlap=schedule.overlap)
        return schedule


@dataclass(frozen=True, slots=True)
class PauseSchedule:
    name: str
    pause: bool
    by: str = ""

    def apply(self, tx: Transaction) -> Schedule:
        known = tx.book.house.schedule(self.name)
        schedule = spec_schedule.paused(known, self.pause, tx.now)
        if schedule is not known:
            put_schedule(tx, schedule)
            _say(tx, "ScheduleChanged", schedule, by=self.by, paused=self.pause)
        return schedule


@dataclass(frozen=True, slots=True)
class DropSchedule:
    """Remove a schedule. Jobs that it submitted go on."""

    name: str
    by: str = ""

    def apply(self, tx: Transaction) -> None:
        house = tx.book.house
        known = house.schedule(self.name)
        house.schedules = {name: each for name, each in house.schedules.items() if name != self.name}
        tx.arrange.dropped_schedules.append(self.name)
        _say(tx, "ScheduleChanged", known, by=self.by, removed=True)


@dataclass(frozen=True, slots=True)
class Fire:
    """A schedule is due: submit its job, or leave the moment out, as its overlap says."""

    name: str
    new_id: NewId

    def apply(self, tx: Transaction) -> JobId | None:
        schedule = tx.book.house.schedules.get(self.name)
        firing = spec_schedule.fire(schedule, tx.book.jobs.keys(), tx.now) if schedule is not None else None
        if firing is None:
            return None
        if not firing.submit:
            put_schedule(tx, firing.schedule)
            _say(tx, "ScheduleSkipped", firing.schedule, detail=firing.detail)
            return None
        for job in firing.stop:
            tx.step(tx.get(job), CancelAsked(f"schedule {self.name}"))
        spec = spec_of(firing)
        try:
            made = Submit((spec,), firing.schedule.user, self.new_id).apply(tx)
        except HeadwayError as error:
            # Its queue or pool is gone: the schedule stays, and says so at every moment.
            put_schedule(tx, replace(firing.schedule, fired=firing.schedule.fired - 1))
            _say(tx, "ScheduleSkipped", firing.schedule, detail=error.message)
            return None
        put_schedule(tx, spec_schedule.submitted(firing.schedule, made[0]))
        _say(tx, "ScheduleFired", firing.schedule, job=made[0])
        return made[0]


def spec_of(firing: spec_schedule.Firing) -> JobSpec:
    """The description of the job that is due now: with a tag that names the schedule, after those that go before it."""
    schedule = firing.schedule
    spec = schedule.spec
    after = tuple(After(job, "any") for job in firing.after)
    tags = (*(pair for pair in spec.tags if pair[0] != TAG), (TAG, schedule.name))
    return replace(spec, tags=tags, wishes=replace(spec.wishes, after=(*spec.wishes.after, *after)))


def put_schedule(tx: Transaction, schedule: Schedule) -> None:
    house = tx.book.house
    house.schedules = {**house.schedules, schedule.name: schedule}
    tx.arrange.schedules = [each for each in tx.arrange.schedules if each.name != schedule.name] + [schedule]


def _say(tx: Transaction, kind: str, schedule: Schedule, **data: Any) -> None:
    tx.say(Event(kind, tx.now, data={"schedule": schedule.name, "project": schedule.spec.project, **data}))


@dataclass
class Alarm:
    """When each schedule is due next. Asking the cron expression is dear, so the answer is kept while it stays."""

    known: dict[str, tuple[Schedule, float | None]] = field(default_factory=dict)

    def due(self, every: Mapping[str, Schedule], now: float) -> list[str]:
        self.known = {name: kept for name, kept in self.known.items() if name in every}
        found = []
        for name, schedule in every.items():
            kept = self.known.get(name)
            if kept is None or kept[0] is not schedule:
                kept = self.known[name] = (schedule, spec_schedule.next_at(schedule))
            if kept[1] is not None and kept[1] <= now:
                found.append(name)
        return found


def show(schedule: Schedule) -> dict[str, Any]:
    return show_schedule(schedule)
