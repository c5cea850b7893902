"""Writing past the page cache, which is the training's: for large pieces, on disks of this host (decision 0018).

Over a network it should be slower: NFS makes each such write durable before it answers, and sends nothing meanwhile.
"""

from __future__ import annotations

import fcntl
import mmap
import os

BLOCK_BYTES = 4096  # What goes past the page cache begins and ends at multiples of this, in memory and in the file.
BYTES_MIN = 64 << 10
PAST_CACHE = getattr(os, "O_DIRECT", 0)
OF_THIS_HOST = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay"}
MOUNTS = "/proc/self/mountinfo"


def buffer(size: int) -> mmap.mmap:
    """Memory that can be written past the page cache."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # Shared pages come dearer.


def is_avoidable(directory: str) -> bool:
    """Whether it pays to write past the page cache there."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            return bool(PAST_CACHE) and file_system(os.path.realpath(directory), file.read()) in OF_THIS_HOST
    except OSError:
        return False


def file_system(path: str, mounts: str) -> str:
    """The kind of file system that a path without links is on; empty when nobody knows."""
    found, longest = "", -1
    for line in mounts.splitlines():
        words, _, kind = line.partition(" - ")
        point = _unescaped(words.split(" ")[4])
        if len(point) >= longest and (path == point or path.startswith(point.rstrip("/") + "/")):
            found, longest = kind.split(" ")[0], len(point)  # Of two at one place the later one is on top.
    return found


def _unescaped(point: str) -> str:
    for code in ("040", "011", "012", "134"):
        point = point.replace("\\" + code, chr(int(code, 8)))
    return point


def write(fd: int, view: memoryview) -> memoryview:
    """Write whole blocks straight to the disk. Returns what is left: all of it where that cannot be done."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | PAST_CACHE)
        while len(view) >= BLOCK_BYTES:
            view = view[os.write(fd, view[: len(view) // BLOCK_BYTES * BLOCK_BYTES]) :]
    except OSError:
        pass  # A file system without it, or bytes that do not begin at a block. A disk that fails says so again.
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
    return view
