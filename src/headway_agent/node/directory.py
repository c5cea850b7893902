"""The node's directory: where everything lies, who holds which lock, and how the small files are written.

One directory belongs to one node; agent and keeper meet nowhere else.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time

from headway_agent.node import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

STDIN_FILE = "stdin"  # In a task's directory: what its ranks read, where they were given something to read.
POLICIES_FILE = "log_policies.json"

SUBDIRECTORIES = ("work", "checkpoints", "output", "sdk")

LOG_BYTES_MAX = 4 << 20
ORDERED = "HEADWAY_AGENT_ORDERED"  # Set in the environment of agent and keeper where the node belongs to an order.
NEXT_TOKEN = "token.next"  # Another token than the one that an ordered node began with, for its next agent.
LEFT = 4  # The agent's exit code when it was told to leave, or has been alone for too long.


class Taken(Exception):
    """Another process holds this lock."""


class NodeDir:
    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def make(self) -> None:
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        os.chmod(self.path, 0o700)
        os.makedirs(self.file("tasks"), mode=0o700, exist_ok=True)

    def task(self, key: str) -> str:
        return os.path.join(self.path, "tasks", key.replace("/", "-"))

    def lock(self, name: str) -> int:
        """Take a lock for the life of this process, or raise Taken."""
        fd = os.open(self.file(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise Taken(name) from None
        return fd

    def locked(self, name: str) -> bool:
        try:
            os.close(self.lock(name))
        except Taken:
            return True
        return False

    def raise_counter(self, name: str, least: int = 1) -> int:
        """Count up a number that survives power loss: no two processes ever get the same."""
        number = max(self.counter(name) + 1, least)
        write_durably(self.file(name), b"%d\n" % number)
        return number

    def counter(self, name: str) -> int:
        try:
            with open(self.file(name), "rb") as file:
                return int(file.read())
        except (OSError, ValueError):
            return 0

    def write_pid(self, name: str) -> None:
        pid = os.getpid()
        seen = processes.look(pid)
        fact = {"pid": pid, "start": seen.start if seen else 0}
        write_durably(self.file(name), json.dumps(fact).encode())

    def read_pid(self, name: str) -> int:
        """The pid in the file if that very process is alive, else 0."""
        try:
            with open(self.file(name), "rb") as file:
                fact = json.loads(file.read())
            return int(fact["pid"]) if processes.same_process(fact["pid"], fact["start"]) else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0


def write_durably(path: str, content: bytes) -> None:
    """Replace a file as a whole: readers see the old content or the new one, after a power cut too."""
    _replace(path, content, os.fsync)


def write_whole(path: str, content: Any) -> None:
    """Replace a file of JSON as a whole. A power cut may leave it empty: for what ends with the boot anyway."""
    # Not `dump`, which has no fast encoder.
    _replace(path, json.dumps(content, separators=(",", ":")).encode(), lambda fd: None)


def _replace(path: str, content: bytes, sync: Callable[[int], None]) -> None:
    fresh = f"{path}.{os.getpid()}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, content)
        sync(fd)
    finally:
        os.close(fd)
    os.replace(fresh, path)


def write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def remove_tree(path: str) -> None:
    """Remove a directory and what is in it; what resists is left."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(path)
    except OSError:
        pass


class FactLog:
    """One JSON line per fact, in a file of limited size: when it is full, it becomes `.1` and a new one begins."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self.size = 0
        self._about = (0, "")
        self._open()

    def about(self, request: str) -> None:
        """What this thread says from now on comes of this call to the server; of none, where it is empty."""
        self._about = (threading.get_ident(), request)

    def _open(self) -> None:
        try:
            self.fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self.size = os.fstat(self.fd).st_size
        except OSError:
            self.fd = -1

    def say(self, fact: str, **fields: Any) -> None:
        moment = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"
        thread, request = self._about
        if request and thread == threading.get_ident():
            fields["request"] = request
        line = json.dumps(dict(at=stamp, fact=fact, **fields), default=str).encode() + b"\n"
        try:
            if self.size + len(line) > LOG_BYTES_MAX and self.fd >= 0:
                os.close(self.fd)
                os.replace(self.path, self.path + ".1")
                self._open()
            self.size += os.write(self.fd, line)
        except OSError:
            pass  # A log that cannot be written (full disk) must not stop anything.


def boottime_s() -> float:
    """Seconds since boot, suspended time included: the only clock that a lease is counted on."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def sync_directory(path: str) -> None:
    """Bring to the disk which files a directory has."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
