"""Which files lie on a file system that other machines may see as well. Reads the table of mounts, touches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

KINDS = (
    "nfs",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "cifs",
    "smb",
    "afs",
    "9p",
    "glusterfs",
    "panfs",
    "orangefs",
    "weka",
)
MOUNTS = Path("/proc/self/mountinfo")


def on_network(files: Iterable[Path], mounts: str | None = None) -> list[str]:
    """Those of the files that exist and lie on a network's file system."""
    table = read_mounts(MOUNTS.read_text() if mounts is None else mounts)
    found = []
    for path in files:
        if path.exists() or mounts is not None:
            at = os.path.realpath(path)
            _, kind = max(((len(place), kind) for place, kind in table if _below(at, place)), default=(0, ""))
            if kind.removeprefix("fuse.").startswith(KINDS):
                found.append(str(path))
    return found


def read_mounts(text: str) -> list[tuple[str, str]]:
    """Where something is mounted, and of which kind it is."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) > 4 and after:
            found.append((words[4].encode().decode("unicode_escape"), after.split()[0]))
    return found


def _below(path: str, place: str) -> bool:
    return place == "/" or path == place or path.startswith(f"{place}/")
