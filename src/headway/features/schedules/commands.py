"""Schedules: set, paused, removed; and fired, each moment once, in the same commit as the job that it submits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headway.control.jobs.commands import NewId, Submit
from headway.control.state.cluster_config import nearest
from headway.control.state.transaction import Transaction
from headway.core.errors import HeadwayError, NotFound
from headway.core.job.events import Event
from headway.core.job.signals import CancelAsked
from headway.core.model import JobId
from headway.core.spec.job import JobSpec
from headway.core.spec.scheduling import After
from headway.features.schedules import rules
from headway.features.schedules.rules import Schedule
from headway.features.schedules.tables import SCHEDULES

TAG = "schedule"


@dataclass(frozen=True, slots=True)
class SetSchedule:
    """Make a schedule, or change one: its moments begin anew, its jobs go on."""

    name: str
    raw: Mapping[str, Any]
    by: str = ""

    def apply(self, tx: Transaction) -> Schedule:
        schedule = rules.read_schedule(self.name, self.raw, self.by, tx.now)
        known = tx.row(SCHEDULES, self.name)
        if known is not None:
            schedule = replace(schedule, fired=known.fired, skipped=known.skipped, jobs=known.jobs)
        tx.put(SCHEDULES, schedule)
        _say(tx, "ScheduleChanged", schedule, by=self.by, cron=schedule.cron, overlap=schedule.overlap)
        return schedule


@dataclass(frozen=True, slots=True)
class PauseSchedule:
    name: str
    pause: bool
    by: str = ""

    def apply(self, tx: Transaction) -> Schedule:
        known = known_schedule(tx, self.name)
        schedule = rules.paused(known, self.pause, tx.now)
        if schedule is not known:
            tx.put(SCHEDULES, schedule)
            _say(tx, "ScheduleChanged", schedule, by=self.by, paused=self.pause)
        return schedule


@dataclass(frozen=True, slots=True)
class DropSchedule:
    """Remove a schedule. Jobs that it submitted go on."""

    name: str
    by: str = ""

    def apply(self, tx: Transaction) -> None:
        known = known_schedule(tx, self.name)
        tx.drop(SCHEDULES, self.name)
        _say(tx, "ScheduleChanged", known, by=self.by, removed=True)


@dataclass(frozen=True, slots=True)
class Fire:
    """A schedule is due: submit its job, or leave the moment out, as its overlap says."""

    name: str
    new_id: NewId

    def apply(self, tx: Transaction) -> JobId | None:
        schedule = tx.row(SCHEDULES, self.name)
        firing = rules.fire(schedule, tx.book.jobs.keys(), tx.now) if schedule is not None else None
        if firing is None:
            return None
        if not firing.submit:
            tx.put(SCHEDULES, firing.schedule)
            _say(tx, "ScheduleSkipped", firing.schedule, detail=firing.detail)
            return None
        for job in firing.stop:
            tx.step(tx.get(job), CancelAsked(f"schedule {self.name}"))
        spec = spec_of(firing)
        try:
            made = Submit((spec,), firing.schedule.user, self.new_id).apply(tx)
        except HeadwayError as error:
            # Its queue or pool is gone: the schedule stays, and says so at every moment.
            tx.put(SCHEDULES, replace(firing.schedule, fired=firing.schedule.fired - 1))
            _say(tx, "ScheduleSkipped", firing.schedule, detail=error.message)
            return None
        tx.put(SCHEDULES, rules.submitted(firing.schedule, made[0]))
        _say(tx, "ScheduleFired", firing.schedule, job=made[0])
        return made[0]


def spec_of(firing: rules.Firing) -> JobSpec:
    """The description of the job that is due now: with a tag that names the schedule, after those that go before it."""
    schedule = firing.schedule
    spec = schedule.spec
    after = tuple(After(job, "any") for job in firing.after)
    tags = (*(pair for pair in spec.tags if pair[0] != TAG), (TAG, schedule.name))
    return replace(spec, tags=tags, wishes=replace(spec.wishes, after=(*spec.wishes.after, *after)))


def known_schedule(tx: Transaction, name: str) -> Schedule:
    known = tx.row(SCHEDULES, name)
    if known is None:
        every = [each.name for each in tx.book.held(SCHEDULES).values()]
        raise NotFound(f'no schedule "{name}"', nearest(name, every, "headway schedule ls"))
    return known


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
                kept = self.known[name] = (schedule, rules.next_at(schedule))
            if kept[1] is not None and kept[1] <= now:
                found.append(name)
        return found
