"""What the spine asks of schedules: which are due, and whether a project still has some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headway.control.state.feature import Beat, Feature
from headway.control.state.transaction import Command, Transaction
from headway.core.errors import Conflict
from headway.features.schedules.commands import Alarm, Fire
from headway.features.schedules.tables import SCHEDULES
from headway.store.protocol import Store
from headway.store.tables import Layout


class SchedulesFeature(Feature):
    name = "schedules"
    layout = Layout((SCHEDULES,))
    events = {
        "ScheduleChanged": "a schedule was made, changed, paused or removed",
        "ScheduleFired": "a moment of a schedule came, and its job was submitted",
        "ScheduleSkipped": "a moment of a schedule came, and was left out",
    }

    def memory(self, store: Store, older: Any) -> Alarm:
        return Alarm()

    def tick(self, beat: Beat) -> Iterable[Command]:
        every = beat.book.held(SCHEDULES)
        if beat.new_id is None or not every:
            return []
        alarm: Alarm = beat.book.memories[self.name]
        return [Fire(name, beat.new_id) for name in alarm.due({each.name: each for each in every.values()}, beat.now)]

    def leave_project(self, project: str, tx: Transaction) -> None:
        if any(each.spec.project == project for each in tx.book.held(SCHEDULES).values()):
            raise Conflict(f'the project "{project}" has schedules', "headway schedule ls")

    def web(self) -> Any:
        from headway.features.schedules.routes import ROUTES

        return ROUTES


FEATURE = SchedulesFeature()
