"""Features' tables in memory: the part of store.py that keeps any rows under their keys."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, TypeVar

from headway.core.model import Job, JobId
from headway.store.tables import ALL, Key, RowChange, Table, Which

R = TypeVar("R")


class MemoryTables:
    """To be inherited beside jobs and their uses."""

    _lock: threading.RLock
    _jobs: dict[JobId, Job]

    def __init__(self) -> None:
        self._tables: dict[str, dict[Key, Any]] = {}
        self._of_jobs: dict[str, Table[Any]] = {}

    def users(self, kind: str, name: str) -> list[JobId]:
        raise NotImplementedError

    # --- writing, under the lock ---
    def _save_rows(self, changes: Iterable[RowChange]) -> None:
        for change in changes:
            table = change.table
            rows = self._tables.setdefault(table.name, {})
            if change.row is None:
                if not (table.used_as and self.users(table.used_as, change.key[0])):
                    rows.pop(change.key, None)
            elif not table.of_job or change.row.job in self._jobs:
                rows[change.key] = change.row
            if table.of_job:
                self._of_jobs[table.name] = table

    def _forget_rows(self, job: JobId) -> None:
        for name in self._of_jobs:
            rows = self._tables[name]
            for key in [key for key, row in rows.items() if row.job == job]:
                del rows[key]

    # --- reading ---
    def rows(self, table: Table[R], which: Which = ALL) -> list[R]:
        with self._lock:
            rows = self._tables.get(table.name, {})
            found = [rows[key] for key in sorted(rows, reverse=which.backwards) if which.fits(rows[key])]
            if which.unused:
                found = [row for row in found if not self.users(table.used_as, table.key_of(row)[0])]
            return found if which.limit is None else found[: which.limit]

    def row(self, table: Table[R], *key: Any) -> R | None:
        with self._lock:
            return self._tables.get(table.name, {}).get(key)
