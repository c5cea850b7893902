"""Features' tables in SQL: made from their rows' dataclasses, written by a group commit, and read by any condition.

Text, numbers and bytes have columns of their own kind; whatever else a field holds is JSON. The rest of a commit is in
commit.py.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from headway.core.model import JobId
from headway.store.sql import rows, schema
from headway.store.sql.statements import Statements
from headway.store.tables import ALL, Key, Layout, RowChange, Table, Which

R = TypeVar("R")
KINDS: dict[Any, sa.types.TypeEngine[Any]] = {
    str: sa.Text(), int: schema.INT, bool: schema.INT, float: sa.Double(), bytes: sa.LargeBinary(),
}  # fmt: skip
DEFAULTS: dict[Any, str | None] = {str: "", int: "0", bool: "0", float: "0.0"}


@dataclass(frozen=True)
class _Column:
    """How one field is kept: its type, whether it may be nothing, and how a value goes in and comes out."""

    name: str
    kind: Any
    maybe: bool
    hint: Any

    @classmethod
    def of(cls, name: str, hint: Any) -> _Column:
        parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        bare = [part for part in parts if part is not type(None)]
        kind = bare[0] if len(bare) == 1 and bare[0] in KINDS else None
        return cls(name, kind, len(bare) < len(parts), hint)

    def made(self, key: bool) -> sa.Column[Any]:
        if key:
            return sa.Column(self.name, schema.ID if self.kind is str else schema.INT, primary_key=True,
                             autoincrement=False)  # fmt: skip
        loose = self.maybe or self.kind is bytes
        default = None if loose else DEFAULTS.get(self.kind, "null")
        return sa.Column(self.name, KINDS.get(self.kind, sa.Text()), nullable=loose, server_default=default)

    def put(self, value: Any) -> Any:
        if value is None:
            return None
        if self.kind is None:
            return rows.to_json(value)
        return rows.plain(value) if self.kind is str else int(value) if self.kind is bool else value

    def get(self, value: Any) -> Any:
        if value is None:
            return b"" if self.kind is bytes and not self.maybe else None
        if self.kind is None:
            return rows.read_hint(self.hint, json.loads(value))
        return bool(value) if self.kind is bool else bytes(value) if self.kind is bytes else value


class KeptTable:
    """One table in one database's words."""

    def __init__(self, table: Table[Any], metadata: sa.MetaData, sql: Callable[[], Statements]) -> None:
        hints = typing.get_type_hints(table.record)
        self._columns = {name: _Column.of(name, hints[name]) for name in table.columns}
        self.table, self._sql = table, sql
        kept = [self._columns[name].made(key=True) for name in table.key]
        if table.packed:
            kept.append(sa.Column("body", sa.Text(), nullable=False, server_default="{}"))
        else:
            kept += [each.made(key=False) for name, each in self._columns.items() if name not in table.key]
        self.sa = sa.Table(table.name, metadata, *kept)
        for names in table.indexes:
            sa.Index(f"ix_{table.name}_{'_'.join(names)}", *(self.sa.c[name] for name in names))
        self._order = [column.name for column in self.sa.columns]

    def key(self, key: Key) -> Key:
        return tuple(self._columns[name].put(value) for name, value in zip(self.table.key, key, strict=True))

    def to_row(self, row: Any) -> tuple[Any, ...]:
        if self.table.packed:
            return (*self.key(self.table.key_of(row)), rows.to_json(row))
        return tuple(self._columns[name].put(getattr(row, name)) for name in self._order)

    def from_row(self, found: Sequence[Any]) -> Any:
        if self.table.packed:
            return rows.read_as(self.table.record, found[-1])
        values = zip(self._order, found, strict=True)
        return self.table.record(**{name: self._columns[name].get(value) for name, value in values})

    def write(self, connection: sa.Connection, changes: Sequence[RowChange], known_jobs: Collection[JobId]) -> None:
        """The last word on each key counts."""
        last = {change.key: change for change in changes}.values()
        put = [each.row for each in last if each.row is not None]
        if self.table.of_job:
            put = [row for row in put if row.job in known_jobs]
        if put:
            statement = self._sql().upsert(self.sa) if self._more_than_key else self._sql().insert_new(self.sa)
            connection.exec_driver_sql(statement, [self.to_row(row) for row in put])
        dropped = [self.key(each.key) for each in last if each.row is None]
        if dropped:
            connection.exec_driver_sql(self._drop_statement(), [self._drop_values(key) for key in dropped])

    @property
    def _more_than_key(self) -> bool:
        return len(self._order) > len(self.table.key)

    def _drop_statement(self) -> str:
        statement = self._sql().delete(self.sa, list(self.table.key))
        if not self.table.used_as:
            return statement
        mark = self._sql().mark
        return f"{statement} AND NOT EXISTS (SELECT 1 FROM uses WHERE kind = {mark} AND name = {mark})"

    def _drop_values(self, key: Key) -> Key:
        return (*key, self.table.used_as, key[0]) if self.table.used_as else key

    def query(self, which: Which) -> sa.Select[Any]:
        column = self.sa.c
        put = {name: self._columns[name].put for name in which.columns}
        wanted = [column[name] == put[name](value) for name, value in which.equal.items()]
        wanted += [column[name] < put[name](value) for name, value in which.below.items()]
        wanted += [column[name] > put[name](value) for name, value in which.above.items()]
        wanted += [column[name].in_([put[name](each) for each in many]) for name, many in which.among.items()]
        if which.unused:
            uses = schema.uses.c
            wanted.append(~sa.exists().where(uses.kind == self.table.used_as, uses.name == column[self.table.key[0]]))
        order = [column[name].desc() if which.backwards else column[name] for name in self.table.key]
        query = sa.select(self.sa).where(*wanted).order_by(*order)
        return query if which.limit is None else query.limit(which.limit)


class KeptTables:
    """All features' tables of one database."""

    def __init__(self, layouts: Iterable[Layout], sql: Callable[[], Statements]) -> None:
        self.layouts = tuple(layouts)
        self.metadata = sa.MetaData()
        self.by_name = {
            table.name: KeptTable(table, self.metadata, sql) for layout in self.layouts for table in layout.tables
        }

    def write(self, connection: sa.Connection, changes: Iterable[RowChange], known_jobs: Collection[JobId]) -> None:
        by_table: dict[str, list[RowChange]] = {}
        for change in changes:
            by_table.setdefault(change.table.name, []).append(change)
        for name, many in by_table.items():
            self.by_name[name].write(connection, many, known_jobs)

    def forget(self, connection: sa.Connection, jobs: Iterable[JobId]) -> None:
        for kept in self.by_name.values():
            if kept.table.of_job:
                connection.execute(kept.sa.delete().where(kept.sa.c.job.in_(list(jobs))))


class TableReads:
    """The reading half, for the store to inherit."""

    _tables: KeptTables

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def rows(self, table: Table[R], which: Which = ALL) -> list[R]:
        kept = self._tables.by_name[table.name]
        with self._reading() as connection:
            return [kept.from_row(row) for row in connection.execute(kept.query(which))]

    def row(self, table: Table[R], *key: Any) -> R | None:
        found = self.rows(table, Which(equal=dict(zip(table.key, key, strict=True)), limit=1))
        return found[0] if found else None
