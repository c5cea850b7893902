"""Remembers the sha256 of files that have not changed, so that a project that is known is not read again.

A file counts as unchanged when size, times and inode are the same and it was not written in the seconds before it was
read: a later write in the same tick of the clock would not show.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

from headway.core.errors import BadInput
from headway.whole_files import write_whole

FRESH_NS = 2_000_000_000
BLOCK_BYTES = 1 << 20

Fact = tuple[int, int, int, int]


class StatCache:
    """The remembered hashes of one project. Losing it costs time, nothing else."""

    def __init__(self, folder: Path, root: str) -> None:
        self.root = root
        self.file = folder / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"
        self.read_bytes = 0
        self._known = self._load()
        self._seen: dict[str, list[int | str]] = {}
        self._changed = False

    def sha256(self, path: str, found: os.stat_result) -> str:
        """The hash of a file, read only when it is not known."""
        fact = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        kept = self._known.get(path)
        if kept is not None and tuple(kept[:4]) == fact:
            self._seen[path] = kept
            return str(kept[4])
        began_ns = time.time_ns()
        digest = hash_file(os.path.join(self.root, path))
        self.read_bytes += found.st_size
        self._changed = True
        if max(found.st_mtime_ns, found.st_ctime_ns) < began_ns - FRESH_NS:
            self._seen[path] = [*fact, digest]
        return digest

    def save(self) -> None:
        if not self._changed and len(self._seen) == len(self._known):
            return
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.file, json.dumps(self._seen))
        except (OSError, ValueError):
            pass  # A full disk, or a name that is not UTF-8: the next time it is read again.

    def _load(self) -> dict[str, list[int | str]]:
        try:
            found = json.loads(self.file.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def hash_file(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise BadInput(f'"{path}" cannot be read: {(error.strerror or str(error)).lower()}') from None
    return digest.hexdigest()
