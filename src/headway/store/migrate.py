"""Brings the tables of a database to this version: `python -m headway.store.migrate URL`.

A process of its own, so that Alembic stays out of the server. Without an argument the URL is read from standard input,
where no list of processes shows its password.
"""

from __future__ import annotations

import sys
from pathlib import Path

from alembic import command
from alembic.config import Config

from headway.store.sql.databases import Database

SCRIPTS = Path(__file__).with_name("migrations")


def config() -> Config:
    """Where the revisions are, for Alembic's own commands too."""
    found = Config()
    found.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    return found


def migrate(url: str, to: str = "head") -> None:
    """Run what is missing, all of it in one transaction: a failure leaves the database as it was."""
    database = Database(url)
    try:
        with database.writes.connect() as connection, connection.begin():
            database.lock_schema(connection)
            asked = config()
            asked.attributes["connection"] = connection
            command.upgrade(asked, to)
    finally:
        database.close()


if __name__ == "__main__":
    migrate(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read().strip())
