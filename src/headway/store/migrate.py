"""Brings the tables of a database to this version: `python -m headway.store.migrate URL`.

A process of its own, so that Alembic stays out of the server. Without an argument, what to do is read from standard
input as JSON, where no list of processes shows a password.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from alembic import command
from alembic.config import Config

from headway.store.sql.databases import Database

SCRIPTS = Path(__file__).with_name("migrations")


def config(folder: str = "") -> Config:
    """Where the revisions are, for Alembic's own commands too; with a folder, those of a feature beside them."""
    found = Config()
    found.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    if folder:
        places = os.pathsep.join((str(SCRIPTS / "versions"), folder))
        found.set_main_option("version_locations", places.replace("%", "%%"))
    return found


def migrate(url: str, to: str = "head", folder: str = "") -> None:
    """Run what is missing, all of it in one transaction: a failure leaves the database as it was."""
    database = Database(url)
    try:
        with database.writes.connect() as connection, connection.begin():
            database.lock_schema(connection)
            asked = config(folder)
            asked.attributes["connection"] = connection
            command.upgrade(asked, to)
    finally:
        database.close()


if __name__ == "__main__":
    migrate(**({"url": sys.argv[1]} if len(sys.argv) > 1 else json.load(sys.stdin)))
