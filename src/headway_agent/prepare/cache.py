"""Things that are made once per machine and used by many tasks: environments, inputs, files of bundles.

An entry is visible only when it is whole. Who makes it holds its lock; all others who want it wait for it. The
least recently used go when there is too much, never one that a task uses. Knows nothing of what the entries are.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from headway_agent.node.directory import remove_tree, write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Mapping

BLOCK_BYTES = 512
DRAFT = ".new"
LOOK_EVERY_S = 0.1


class Cache:
    """A directory with `<key>` (the entry), `<key>.json` (it is whole; last used at this time), `<key>.lock`, and
    `<key>.uses/` with a link for each task directory that uses it: as long as that is there, so is the entry."""

    def __init__(self, root: str, bytes_max: int) -> None:
        self.root = root
        self.bytes_max = bytes_max
        self.held: dict[str, int] = {}  # The locks that are held here; who makes an entry may pass its own on.

    def path(self, key: str) -> str:
        return os.path.join(self.root, key)

    def get(
        self,
        key: str,
        user: str,
        make: Callable[[str], Any],
        in_place: bool = False,
        fresh: Any = None,
        check: Callable[[], None] | None = None,
    ) -> tuple[str, Mapping[str, Any]]:
        """The entry and what is noted of it; made by `make(path)` where it is not there. `user` is a task's directory.

        `in_place`: what cannot be moved is made where it will be. `fresh(noted)`: whether an old entry is still good.
        `check` raises where the wait for another who makes it is to end.
        """
        with self._locked(key, check=check):
            self._use(key, user)
            noted = self.noted(key)
            if noted is not None and (fresh is None or fresh(noted)):
                os.utime(self.path(key) + ".json")
                return self.path(key), noted
            made = self._make(key, make, in_place)
        self.evict()
        return self.path(key), made

    def _make(self, key: str, make: Callable[[str], Any], in_place: bool) -> Mapping[str, Any]:
        final = self.path(key)
        draft = final if in_place else final + DRAFT
        _remove(f"{final}.json")
        _remove(draft)  # Left by one that died; the lock says that nobody is at it.
        try:
            noted = dict(make(draft) or {})
            noted["bytes"] = size_of(draft)
            if not in_place:
                _remove(final)
                os.rename(draft, final)
        except BaseException:
            _remove(draft)
            raise
        write_durably(f"{final}.json", json.dumps(noted).encode())
        return noted

    def noted(self, key: str) -> dict[str, Any] | None:
        """What was noted when the entry was made; None where there is no whole entry."""
        try:
            with open(self.path(key) + ".json", "rb") as file:
                noted = json.loads(file.read())
        except (OSError, ValueError):
            return None
        return noted if os.path.lexists(self.path(key)) else None

    def _use(self, key: str, user: str) -> None:
        uses = self.path(key) + ".uses"
        os.makedirs(uses, mode=0o700, exist_ok=True)
        try:
            os.symlink(user, os.path.join(uses, user.replace("/", "%")[-200:]))
        except FileExistsError:
            pass

    def in_use(self, key: str) -> bool:
        uses = self.path(key) + ".uses"
        found = False
        for name in _names(uses):
            link = os.path.join(uses, name)
            if os.path.isdir(link):
                found = True
            else:
                _remove(link)
        return found

    def evict(self) -> list[str]:
        """Remove the least recently used entries until the rest is within the limit. Returns their keys."""
        entries = []
        for name in _names(self.root):
            if name.endswith(DRAFT):
                self._drop_draft(name[: -len(DRAFT)])
            if name.endswith(".json"):
                with contextlib.suppress(OSError):
                    key = name[:-5]
                    entries.append(
                        (os.stat(self.path(name)).st_mtime, key, int((self.noted(key) or {}).get("bytes", 0)))
                    )
        total, gone = sum(size for _, _, size in entries), []
        for _, key, size in sorted(entries):
            if total <= self.bytes_max:
                break
            if self._drop(key):
                total -= size
                gone.append(key)
        return gone

    def _drop(self, key: str) -> bool:
        with self._locked(key, wait=False) as held:
            if not held or self.in_use(key):
                return False
            _remove(self.path(key) + ".json")
            _remove(self.path(key))
            _remove(self.path(key) + ".uses")
            return True

    def _drop_draft(self, key: str) -> None:
        """Remove what one that died has left; nobody may ever want it again."""
        with self._locked(key, wait=False) as held:
            if held:
                _remove(self.path(key) + DRAFT)

    @contextlib.contextmanager
    def _locked(self, key: str, wait: bool = True, check: Callable[[], None] | None = None) -> Iterator[bool]:
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        fd = os.open(self.path(key) + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                if wait and check is not None:
                    _lock_patiently(fd, check)
                else:
                    fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                self.held[key] = fd
                yield True
        finally:
            self.held.pop(key, None)
            os.close(fd)


def _lock_patiently(fd: int, check: Callable[[], None]) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            check()
            time.sleep(LOOK_EVERY_S)


def size_of(path: str) -> int:
    """What a file or a tree takes on the disk; what is linked from elsewhere counts too."""
    found = os.lstat(path)
    total = found.st_blocks * BLOCK_BYTES
    if os.path.isdir(path) and not os.path.islink(path):
        for name in _names(path):
            with contextlib.suppress(OSError):
                total += size_of(os.path.join(path, name))
    return total


def bytes_max(environ: Mapping[str, str], name: str, most: int, part: float, root: str) -> int:
    """The limit of a cache: as the environment says, else a part of the disk, and no more than `most`."""
    said = environ.get(f"HEADWAY_AGENT_{name}_BYTES_MAX", "")
    if said.isdigit():
        return int(said)
    while root and not os.path.isdir(root):
        root = os.path.dirname(root)
    disk = os.statvfs(root or "/")
    return min(most, int(disk.f_blocks * disk.f_frsize * part))


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
