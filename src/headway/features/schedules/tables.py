"""Where schedules are kept: all of them with the leader."""

from __future__ import annotations

from headway.features.schedules.rules import Schedule
from headway.store.tables import Table

SCHEDULES = Table("schedules", Schedule, key=("name",), packed=True, held=True)
