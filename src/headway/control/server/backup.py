"""A copy of everything, of one moment: first the database, then every object that it names, then a note that says so.

The order makes it whole: what the database names is in storage already, and nothing of it is deleted while the copy is
made, for the store tells every server to hold off. The note is written last; a copy without one is none. What storage
has lost or damaged is named in it, for one object must not keep all others from being copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.control.files.bundle_objects import content_key, manifest_key
from headway.core.errors import BadInput, Conflict, NotFound, OperatorError
from headway.storage.protocol import Storage, check_key
from headway.store.protocol import Store
from headway.whole_files import write_whole
from headway_wire.manifest_seal import is_whole

NOTE, TABLES, OBJECTS = "backup.json", "database.jsonl.gz", "objects"
FORMAT = 1
HOLD_S = 600.0
PIECE_BYTES = 8 << 20

Saw = Callable[[str, Mapping[str, Any]], None]


@dataclass
class Named:
    """The objects that rows of the database name. Manifests name more, which is found when they are copied."""

    keys: set[str] = field(default_factory=set)
    pieces: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)  # By log pack: offset, size, CRC-32.
    manifests: set[str] = field(default_factory=set)  # Of checkpoints.
    bundles: set[str] = field(default_factory=set)

    def saw(self, table: str, row: Mapping[str, Any]) -> None:
        if table == "log_ranges":
            self.keys.add(row["key"])
            if row.get("crc32") is not None:
                piece = (row["key_offset"], row["end"] - row["start"], row["crc32"])
                self.pieces.setdefault(row["key"], []).append(piece)
        elif table == "checkpoints":
            self.manifests.add(row["key"])
        elif table == "artifacts":
            self.keys.update(json.loads(row["keys"]))
        elif table == "bundles":
            self.bundles.add(manifest_key(row["digest"]))
        elif row.get("object_key"):  # So a feature's row names an object of its own.
            self.keys.add(row["object_key"])

    def all(self, read: Callable[[str], bytes | None]) -> Iterator[str]:
        """Every key once, manifests before what they name. What a manifest names that cannot be read, nobody knows."""
        seen: set[str] = set()
        for key in sorted(self.manifests | self.bundles):
            seen.add(key)
            yield key
            content = read(key)
            if content is None or not is_whole(content):
                continue
            files = json.loads(content)["files"]
            if key in self.bundles:
                named = [content_key(each["sha256"]) for each in files if "sha256" in each]
            else:
                named = [part["key"] for each in files for part in each["parts"]]
            self.keys.update(named)
        yield from sorted(self.keys - seen)


@contextmanager
def held_off(store: Store) -> Iterator[None]:
    """Let no server delete objects meanwhile. A copy that dies holds them off for a while, not for ever."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(HOLD_S / 4):
            store.hold_deletions(HOLD_S)

    store.hold_deletions(HOLD_S)
    renewing = threading.Thread(target=renew, name="hold", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        store.hold_deletions(0.0)


def back_up(store: Store, storage: Storage, dump: Callable[[Path, Saw], Any], to: Path, now: float) -> dict[str, Any]:
    """Copy everything into a new directory, and return the note."""
    try:
        to.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise Conflict(f"{to} is there already", "name a directory that does not exist yet") from None
    except OSError as error:
        raise BadInput(f"{to} cannot be made: {(error.strerror or str(error)).lower()}") from None
    problems: dict[str, str] = {}
    with held_off(store):
        named = Named()
        dumped = dump(to / TABLES, named.saw)
        count = size = 0
        for key in named.all(lambda key: _local(to, key)):
            path = to / OBJECTS / check_key(key)
            try:
                size += _fetch(storage, key, path)
                count += 1
            except NotFound:
                problems[key] = "missing"
                continue
            if not _is_sound(path, key, named):
                problems[key] = "damaged"
    note = {"format": FORMAT, "at": now, "revision": dumped.revision, "rows": dumped.rows}
    note |= {"sha256": _sha256(to / TABLES), "objects": count, "object_bytes": size, "problems": problems}
    write_whole(to / NOTE, json.dumps(note, indent=1))
    return note


def _fetch(storage: Storage, key: str, path: Path) -> int:
    size = storage.size(key)
    if size is None:
        raise NotFound(f'storage has no object "{key}"')
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        for at in range(0, size, PIECE_BYTES):
            file.write(storage.get(key, at, min(size, at + PIECE_BYTES)))
        file.flush()
        os.fsync(file.fileno())
        if file.tell() != size:
            raise OperatorError(f'storage gave {file.tell()} of the {size} bytes of "{key}"', "make the backup again")
    return size


def _is_sound(path: Path, key: str, named: Named) -> bool:
    """Whether a copied object is what was stored, as far as rows or the object itself tell."""
    if key in named.manifests or key in named.bundles:
        return is_whole(path.read_bytes())
    with open(path, "rb") as file:
        for offset, size, crc32 in named.pieces.get(key, ()):
            file.seek(offset)
            if zlib.crc32(file.read(size)) != crc32:
                return False
    return True


def _local(of: Path, key: str) -> bytes | None:
    try:
        return (of / OBJECTS / key).read_bytes()
    except OSError:
        return None


def check(of: Path) -> dict[str, Any]:
    """The note of a backup whose file of tables is as it was written."""
    try:
        note: dict[str, Any] = json.loads((of / NOTE).read_text())
    except (OSError, ValueError):
        raise BadInput(f"{of} is not a finished backup: it has no {NOTE}") from None
    if note.get("format") != FORMAT:
        raise BadInput(f"{of} has format {note.get('format')}; this Headway reads {FORMAT}")
    if _sha256(of / TABLES) != note["sha256"]:
        raise BadInput(f"{of / TABLES} is damaged: its hash is not the one that was noted")
    return note


def missing(of: Path, named: Named) -> list[str]:
    """Objects that the tables of a backup name and that it does not hold."""
    held = named.all(lambda key: _local(of, key))
    return [key for key in held if not (of / OBJECTS / check_key(key)).is_file()]


def put_back(of: Path, storage: Storage, named: Named) -> int:
    """Put every object that a backup has into storage, and see that it is there."""
    count = 0
    for key in named.all(lambda key: _local(of, key)):
        path = of / OBJECTS / key
        if not path.is_file():
            continue
        size = path.stat().st_size
        if storage.size(key) != size:
            draft = os.path.join(storage.draft_dir(), f"restore-{os.getpid()}")
            shutil.copyfile(path, draft)  # A storage may take the file away.
            storage.put_file(key, draft)
            if os.path.exists(draft):
                os.unlink(draft)
        if storage.size(key) != size:
            raise NotFound(f'storage did not keep "{key}"', "the restore can be repeated")
        count += 1
    return count


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
