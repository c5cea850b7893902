"""What an operator does to a database and its objects beside a server: migrate, back up, restore.

Like wiring.py it picks implementations, by the same settings; no server need run, and for a restore none may.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from headway.core.errors import OperatorError
from headway.settings import Home, Resolved
from headway.wiring import is_shared, key_ring, look_at_storage, open_storage, open_store, own_home, store_url


def migrate(resolved: Resolved, home: Home) -> str:
    """Bring the tables of the database to this version, and say which that is."""
    from headway.features.catalog import load
    from headway.store.sql import schema
    from headway.store.sql.store import SqlStore

    if not is_shared(resolved.settings):
        os.close(own_home(home))  # Nobody else may be at work on it.
    SqlStore.open(store_url(resolved.settings, home), layouts=load().layouts).close()
    return schema.REVISION


def back_up(resolved: Resolved, home: Home, to: Path) -> dict[str, Any]:
    """Copy database and objects, while servers work on them or not."""
    from headway.control.server import backup

    store = open_store(resolved.settings, home)
    try:
        return backup.back_up(store, open_storage(resolved.settings, home), store.dump, to, time.time())
    finally:
        store.close()


def rotate_keys(resolved: Resolved, home: Home, step: str) -> dict[str, Any]:
    """Take one step of giving a database other keys; what that is, the command line says.

    `begin` adds a key, and signs with it at once where there is one server; `use` signs with it; `finish` drops all
    others; `lost` makes new ones where the file is gone.
    """
    from headway.control.access.signing_keys import BEFORE, CHECK, added, check_of, promoted

    ring, shared = key_ring(resolved.settings, home), is_shared(resolved.settings)
    if step == "lost":
        ring.make_sure()
    keys = ring.keys()
    steps = {"begin": lambda: added(keys, on_top=not shared), "use": lambda: promoted(keys)}
    if step == "finish":
        keys = {name: keys[name] for name in list(keys)[:1]}
    elif step in steps:
        keys = steps[step]()
    if step != "lost":
        ring.write(keys)
    newest = next(iter(keys))
    if step in ("finish", "lost"):
        store = open_store(resolved.settings, home)
        store.put_shared_value(CHECK, check_of(newest, keys[newest]))
        store.close()
    return {
        "file": str(ring.path),
        "signs": newest,
        "accepted": [name for name in keys if name != newest and not name.startswith(BEFORE)],
        "several": shared,
    }


def restore(resolved: Resolved, home: Home, of: Path, allow_missing: bool = False) -> dict[str, Any]:
    """Fill an empty database and storage from a copy; what is missing in it is found before anything is written."""
    from headway.control.access.signing_keys import CHECK
    from headway.control.server import backup
    from headway.features import catalog as features
    from headway.store.migrate import migrate as bring_to
    from headway.store.sql.databases import Database
    from headway.store.sql.dump import check_empty, load, rows_of

    note = backup.check(of)
    named = backup.Named()
    for table, row in rows_of(of / backup.TABLES):
        named.saw(table, row)
    gone = backup.missing(of, named)
    if gone and not allow_missing:
        knew = all(note.get("problems", {}).get(key) == "missing" for key in gone)
        raise OperatorError(
            f"{of} lacks {len(gone)} objects that its tables name, such as {gone[0]}"
            + ("; storage had lost them when it was made" if knew else ""),
            "use another copy; or go on without them: --allow-missing",
        )
    lock = own_home(home)
    url = store_url(resolved.settings, home)
    database = Database(url)
    try:
        check_empty(database)
        storage = open_storage(resolved.settings, home)
        objects = backup.put_back(of, storage, named)
        layouts = features.load().layouts
        rows = load(database, of / backup.TABLES, note["revision"], lambda revision: bring_to(url, revision), layouts)
        store = open_store(resolved.settings, home)
        look_at_storage(store, storage, resolved.settings, accept=True)  # Here the objects are from now on.
        store.put_shared_value(CHECK, "")  # Whose key file it is says the first server that starts.
        store.close()
    finally:
        database.close()
        os.close(lock)
    return {
        "rows": sum(rows.values()),
        "jobs": rows.get("jobs", 0),
        "objects": objects,
        "missing": gone,
        "from": note["at"],
    }
