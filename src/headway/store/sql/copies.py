"""The copy of a SQLite database that is made before its tables change, so that an older Headway can be gone back to.

It lies beside the database, `headway.db.before-<revision>`, whole and at rest. What PostgreSQL keeps is its operator's
business: there a migration is never made without being asked for.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from headway.core.errors import OperatorError
from headway.store.sql.databases import Database

BEFORE = ".before-"
KEPT_MOST = 2


def keep(database: Database, revision: str) -> None:
    """Copy the database as it is now. If that fails, nothing is migrated. Of older copies the newest stay."""
    if database.file is None:
        return
    target = database.file.with_name(f"{database.file.name}{BEFORE}{revision}")
    draft = target.with_name(target.name + ".part")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # As private as what is copied.
        with closing(sqlite3.connect(database.file)) as source, closing(sqlite3.connect(draft)) as copy:
            source.backup(copy)
        draft.replace(target)
        for old in _there(database.file)[KEPT_MOST:]:
            old.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise OperatorError(
            f"{database.file} has an older layout, and no copy of it could be made before it is migrated: {error}",
            "make room where it lies; nothing was changed",
        ) from None


def how_to_go_back(database: Database) -> str:
    """What to do with a database that is too new, as the end of a hint."""
    newest = _there(database.file)[:1] if database.file is not None else []
    if not newest:
        return "restore the backup that was made before the upgrade"
    return (
        f"go back to how it was before the upgrade, without what came since: stop the server, then "
        f"mv {newest[0]} {database.file} (and remove {database.file}-wal and -shm)"
    )


def _there(file: Path) -> list[Path]:
    """The copies that lie beside a database, the newest first."""
    found = [each for each in file.parent.glob(f"{file.name}{BEFORE}*") if each.suffix != ".part"]
    return sorted(found, key=lambda each: each.stat().st_mtime, reverse=True)
