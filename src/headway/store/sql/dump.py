"""All tables of a database as one file, of one moment, and back into an empty database of either kind.

The file is JSON, a line for each row, compressed; no tool of the database is needed. It holds hashed tokens and
ciphertexts, but no key: whoever has it without the key file can open and sign nothing. Objects are not its business.
"""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headway.core.errors import Conflict, OperatorError
from headway.store.sql import schema
from headway.store.sql.databases import Database
from headway.store.sql.layout import make_missing
from headway.store.sql.tables import KeptTables
from headway.store.tables import Layout

AT_ONCE = 1000
LEFT_OUT = frozenset({"servers"})  # They are not part of what happened: whoever serves says so again.
BYTES = "base64:"


@dataclass
class Dump:
    """What a dump holds: the layout of the tables, and how many rows of each."""

    revision: str
    rows: dict[str, int] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)  # The revisions of features' tables that have some.


def dump(database: Database, path: Path, saw: Callable[[str, Mapping[str, Any]], None], kept: KeptTables) -> Dump:
    """Write all tables as they are at one moment; `saw` is told of each row."""
    with database.reads.connect() as connection, gzip.open(path, "wt", compresslevel=3) as file:
        stamped = set(connection.execute(sa.select(schema.revision.c.version_num)).scalars())
        (revision,) = stamped & schema.KNOWN_REVISIONS
        done = Dump(revision, features=sorted(stamped - {revision}))
        for table in (*schema.metadata.sorted_tables, *kept.metadata.sorted_tables):
            if table.name in LEFT_OUT:
                continue
            count = 0
            for row in connection.execution_options(yield_per=AT_ONCE).execute(sa.select(table)).mappings():
                plain = {str(name): _plain(value) for name, value in row.items()}
                saw(table.name, plain)
                file.write(json.dumps([table.name, plain], separators=(",", ":")) + "\n")
                count += 1
            done.rows[table.name] = count
    return done


def check_empty(database: Database) -> None:
    """Refuse a database in which there is something."""
    with database.reads.connect() as connection:
        inspected = sa.inspect(connection)
        if not inspected.has_table(schema.revision.name):
            return
        used = connection.execute(sa.select(schema.counters.c.event_seq)).scalar() if inspected.has_table("jobs") else 0
    if used:
        raise Conflict(
            f"the database {database.name} is not empty: {used} events are in it",
            "restore into a new one: set store_url, or move the old file away",
        )


def load(
    database: Database, path: Path, revision: str, migrate: Callable[[str], None], layouts: Sequence[Layout] = ()
) -> dict[str, int]:
    """Fill an empty database. `migrate` brings its tables to a revision: first to the dump's own, then to ours.

    Features' tables are made as they are now; of rows of another time, what fits is taken.
    """
    if revision not in schema.KNOWN_REVISIONS:
        raise OperatorError(
            f'the backup has the layout "{revision}", which this Headway does not know; it reads up to "'
            f'{schema.REVISION}"',
            "restore it with the Headway that made it, or a newer one",
        )
    check_empty(database)
    migrate(revision)
    make_missing(database, layouts)
    rows: dict[str, int] = {}
    with database.writes.connect() as connection, connection.begin():
        found = sa.MetaData()
        found.reflect(connection)
        for table in found.sorted_tables:
            if table.name != schema.revision.name:
                connection.execute(table.delete())
        for name, many in _read(path):
            if name not in found.tables:
                raise OperatorError(
                    f'the backup has the table "{name}", which this Headway does not know',
                    "restore it with the Headway that made it, or a newer one",
                )
            kept = found.tables[name].c.keys()
            fitting = [{column: row[column] for column in row if column in kept} for row in many]
            connection.execute(found.tables[name].insert(), fitting)
            rows[name] = rows.get(name, 0) + len(many)
        # Whoever led, leads no more; and nobody leads in an epoch again that others have seen: nodes have heard of
        # leaders since this dump was made, also of such that led after an earlier restore. Leads are never as many as
        # seconds have passed.
        leader = found.tables["leader"]
        last = connection.execute(sa.select(leader.c.epoch)).scalar() or 0
        epoch = max(last + 1, int(time.time()))
        connection.execute(leader.update().values(server="", until=0.0, address="", epoch=epoch))
    migrate("head")
    return rows


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of a dump with the name of its table."""
    with gzip.open(path, "rt") as file:
        for line in file:
            name, row = json.loads(line)
            yield name, row


def _read(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    of = ""
    many: list[dict[str, Any]] = []
    with gzip.open(path, "rt") as file:
        for line in file:
            name, row = json.loads(line)
            if many and (name != of or len(many) >= AT_ONCE):
                yield of, many
                many = []
            of = name
            many.append({column: _rich(value) for column, value in row.items()})
    if many:
        yield of, many


def _plain(value: Any) -> Any:
    return BYTES + base64.b64encode(value).decode() if isinstance(value, bytes | memoryview) else value


def _rich(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(BYTES):
        return base64.b64decode(value.removeprefix(BYTES))
    return value
