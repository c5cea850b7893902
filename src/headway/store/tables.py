"""Tables that a feature brings: what they are called, what their rows are, and which rows somebody asks for.

A row is a frozen dataclass; its fields are the columns. Both stores keep any such table: a feature writes no SQL, and
its tables behave alike in both. What a batch does to them is a list of `RowChange`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

R = TypeVar("R")
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Table(Generic[R]):
    """Rows of one kind. The fields that `key` names tell them apart, and put them in order."""

    name: str
    record: type[R]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    of_job: bool = False  # The field `job` is the id of a job: its rows are left out without it, and go with it.
    used_as: str = ""  # A row stays, though it is dropped, while a job uses its (one) key as this kind of thing.
    packed: bool = False  # All fields in one JSON text beside the key: nobody searches in them.
    held: bool = False  # The leader holds all rows in memory.

    def key_of(self, row: R) -> Key:
        return tuple(getattr(row, name) for name in self.key)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(self.record))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Layout:
    """The tables of one feature. Where they are missing they are made; what changes them later is a migration.

    `revisions` are those of the Alembic scripts in `migrations`, oldest first: a branch of the feature's own.
    """

    tables: tuple[Table[Any], ...] = ()
    revisions: tuple[str, ...] = ()
    migrations: Path | None = None

    @property
    def revision(self) -> str:
        return self.revisions[-1] if self.revisions else ""


NO_TABLES = Layout()


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that is put under its key, in place of what is there; or, with no row, a key that is dropped.

    `after` names a job: where its change in the same batch is stale, this one is left out too.
    """

    table: Table[Any]
    key: Key
    row: Any = None
    after: str = ""


@dataclass(frozen=True, slots=True)
class Which:
    """Which rows somebody asks for: all conditions hold for each of them."""

    equal: Mapping[str, Any] = field(default_factory=dict)
    below: Mapping[str, Any] = field(default_factory=dict)
    above: Mapping[str, Any] = field(default_factory=dict)
    among: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    unused: bool = False  # Of a table whose rows jobs use: those that none uses.
    backwards: bool = False  # The last ones of the order first.
    limit: int | None = None

    def fits(self, row: Any) -> bool:
        return (
            all(getattr(row, name) == value for name, value in self.equal.items())
            and all(getattr(row, name) < value for name, value in self.below.items())
            and all(getattr(row, name) > value for name, value in self.above.items())
            and all(getattr(row, name) in values for name, values in self.among.items())
        )

    @property
    def columns(self) -> set[str]:
        return {*self.equal, *self.below, *self.above, *self.among}


ALL = Which()


def without_stale(changes: Iterable[RowChange], stale: Iterable[str]) -> list[RowChange]:
    """The changes that count: what hangs on a job whose change was left out is left out with it."""
    gone = frozenset(stale)
    return [each for each in changes if not each.after or each.after not in gone]
