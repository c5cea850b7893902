"""Seeing that the tables of a database are those of this version: made where there are none, migrated where older.

An empty database gets them in this process. Migrations run in a process of their own (migrate.py): Alembic's 30 MB do
not stay in a server that needs them once. A feature's missing tables are made by the way: nobody else knows them yet.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable

import sqlalchemy as sa

from headway.core.errors import OperatorError
from headway.store.sql import copies, schema
from headway.store.sql.databases import Database
from headway.store.sql.statements import Statements
from headway.store.sql.tables import KeptTables
from headway.store.tables import Layout

MIGRATE_S_MAX = 3600.0


def bring_to_head(database: Database, url: str, migrating: bool, kept: KeptTables) -> None:
    with database.writes.connect() as connection, connection.begin():
        database.lock_schema(connection)
        there = set(sa.inspect(connection).get_table_names())
        if schema.revision.name not in there:
            schema.create(connection)
            _make(connection, kept, kept.layouts, there)
            return
        stamped = set(connection.execute(sa.select(schema.revision.c.version_num)).scalars())
    of_features = {revision for layout in kept.layouts for revision in layout.revisions}
    at = next(iter(sorted(stamped - of_features)), None)
    if at != schema.REVISION:
        _check_known(database, at)
        _check_migrating(database, at, schema.REVISION, migrating)
        copies.keep(database, str(at))
        _migrate(database, url, schema.REVISION)
    _features_to_head(database, url, migrating, kept)


def _features_to_head(database: Database, url: str, migrating: bool, kept: KeptTables) -> None:
    with database.writes.connect() as connection, connection.begin():
        database.lock_schema(connection)
        there = set(sa.inspect(connection).get_table_names())
        _make(connection, kept, kept.layouts, there)
        stamped = set(connection.execute(sa.select(schema.revision.c.version_num)).scalars())
    for layout in kept.layouts:
        if layout.revision and layout.revision not in stamped:
            before = next((each for each in layout.revisions if each in stamped), "")
            _check_migrating(database, before or "the first one", layout.revision, migrating)
            copies.keep(database, before or "first")
            _migrate(database, url, layout.revision, layout)


def _make(connection: sa.Connection, kept: KeptTables, layouts: Iterable[Layout], there: set[str]) -> None:
    """Make the tables that are missing. A feature that is new here begins with its newest layout."""
    for layout in layouts:
        missing = [kept.by_name[table.name].sa for table in layout.tables if table.name not in there]
        kept.metadata.create_all(connection, tables=missing, checkfirst=False)
        if layout.revision and len(missing) == len(layout.tables):
            connection.execute(schema.revision.insert().values(version_num=layout.revision))


def make_missing(database: Database, layouts: Iterable[Layout]) -> None:
    """Make the tables of features that a database of an earlier time lacks."""
    kept = KeptTables(layouts, lambda: Statements(database.reads.dialect))
    with database.writes.connect() as connection, connection.begin():
        _make(connection, kept, kept.layouts, set(sa.inspect(connection).get_table_names()))


def _check_known(database: Database, at: str | None) -> None:
    if at not in schema.KNOWN_REVISIONS:
        raise OperatorError(
            f'the database {database.name} has the layout "{at}", which this Headway does not know; '
            f'it was written by a newer one, and this one reads up to "{schema.REVISION}"',
            f"install the newer Headway again; or {copies.how_to_go_back(database)}",
        )


def _check_migrating(database: Database, at: str | None, head: str, migrating: bool) -> None:
    if not migrating:
        raise OperatorError(
            f'the database {database.name} has the layout "{at}"; this Headway works on "{head}"',
            "stop all servers on it, make a backup, then run: headway server migrate",
        )


def _migrate(database: Database, url: str, to: str, layout: Layout | None = None) -> None:
    folder = str(layout.migrations) if layout is not None and layout.migrations else ""
    program = [sys.executable, "-m", "headway.store.migrate"]
    asked = json.dumps({"url": url, "to": to, "folder": folder})
    done = subprocess.run(program, input=asked, capture_output=True, text=True, timeout=MIGRATE_S_MAX, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise OperatorError(
            f"the database {database.name} could not be migrated: {reason[0]}",
            "nothing was changed; the whole story: python -m headway.store.migrate URL",
        )
