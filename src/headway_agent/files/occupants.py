"""Which tasks of this machine run in one and the same directory of their user, and since when.

What is written there while several jobs do is nobody's for sure; of the tasks of one job, the first keeps what all of
them write. A note per task lies in a folder that all nodes of the machine share; it counts as long as the task's own
directory is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zlib
from dataclasses import dataclass

from headway_agent.node.directory import write_whole
from headway_agent.prepare import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Sequence

    from headway_agent.files.workdir_notes import Note

FOLDER, RESTORED = "workdirs", "workdirs-restored"


@dataclass(frozen=True)
class Occupant:
    """A task that runs in a directory. With `dirs` it saves below these alone."""

    job: str
    directory: str  # Its own, at its node.
    cwd: str
    since_ns: int
    dirs: tuple[str, ...] = ()
    attempt: int = 0
    task: int = 0

    def is_disturbed_by(self, other: Occupant) -> bool:
        """Whether what the other one saves could be taken for its own. What was asked for by name is its own."""
        if self.job == other.job or self.cwd != other.cwd:
            return False
        if not self.dirs:
            return True
        return any(_within(mine, theirs) or _within(theirs, mine) for mine in self.dirs for theirs in other.dirs)


def occupant(key: str, directory: str, note: Note) -> Occupant:
    job, attempt, task = key.split("/")
    of = (int(attempt), int(task))
    return Occupant(job, directory, os.path.realpath(note.cwd), note.since_ns, tuple(note.dirs), *of)


def enter(me: Occupant) -> None:
    """Let the others know. Where it cannot be written down, they do not."""
    try:
        folder = _folder(me)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        said = {"job": me.job, "directory": me.directory, "cwd": me.cwd, "since_ns": me.since_ns, "dirs": me.dirs}
        said.update(attempt=me.attempt, task=me.task)
        write_whole(os.path.join(folder, os.path.basename(me.directory)), said)
    except OSError:
        pass


def leave(me: Occupant) -> None:
    """It is over: nothing is left of its note, nor, with the last one, of what they shared."""
    folder, restored = _folder(me), _restored(me)
    try:
        os.unlink(os.path.join(folder, os.path.basename(me.directory)))
    except OSError:
        pass
    try:
        os.rmdir(folder)
        for path in (restored, restored + ".lock"):
            if os.path.lexists(path):
                os.unlink(path)
        above = os.path.dirname(os.path.dirname(folder))
        for empty in (os.path.dirname(restored), os.path.dirname(folder), above):
            if os.path.isdir(empty):
                os.rmdir(empty)
    except OSError:
        pass  # Somebody else is there, or something else lies beside it.


def others(me: Occupant) -> Iterator[Occupant]:
    """Those of other jobs that are there now and could be mistaken for this one. Notes of the dead are removed."""
    return (each for each in _all(me) if me.is_disturbed_by(each))


def peers(me: Occupant) -> set[int]:
    """The other tasks of the same attempt that work in the same directory."""
    of = (me.job, me.attempt, me.cwd)
    return {each.task for each in _all(me) if (each.job, each.attempt, each.cwd) == of} - {me.task}


@contextlib.contextmanager
def alone(me: Occupant) -> Iterator[None]:
    """While no other task of this machine puts files into the same directory, where that can be known."""
    path, fd = _restored(me) + ".lock", -1
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:
        pass
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def restored_there(me: Occupant, of: str) -> dict[str, tuple[int, ...]]:
    """What other tasks have put into the same directory of the same checkpoint for the same attempt, as it was then."""
    try:
        with open(_restored(me)) as file:
            said: dict[str, Any] = json.load(file)
        found = said["files"] if said["of"] == of else {}
        return {str(path): tuple(map(int, signature)) for path, signature in found.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def note_restored(me: Occupant, of: str, files: Mapping[str, Sequence[int]]) -> None:
    try:
        write_whole(_restored(me), {"of": of, "files": files})
    except OSError:
        pass  # The next one puts them there once more.


def is_there(one: Occupant) -> bool:
    return os.path.isdir(one.directory)


def _all(me: Occupant) -> Iterator[Occupant]:
    folder = _folder(me)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        found = _read(path)
        if found is not None and is_there(found):
            yield found
        elif not name.endswith(".new"):
            try:
                os.unlink(path)
            except OSError:
                pass


def _read(path: str) -> Occupant | None:
    try:
        with open(path) as file:
            said: dict[str, Any] = json.load(file)
        dirs: Sequence[str] = said["dirs"]
        of = (int(said.get("attempt", 0)), int(said.get("task", 0)))
        return Occupant(said["job"], said["directory"], said["cwd"], int(said["since_ns"]), tuple(dirs), *of)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folder(me: Occupant) -> str:
    """Beside the nodes of this machine: two directories that share one by chance are told apart by their notes."""
    return _beside(me, FOLDER)


def _restored(me: Occupant) -> str:
    return _beside(me, RESTORED)


def _beside(me: Occupant, folder: str) -> str:
    node = os.path.dirname(os.path.dirname(me.directory))
    name = f"{zlib.crc32(os.fsencode(me.cwd)):08x}"
    return os.path.join(steps.cache_dir(node, os.environ), folder, name)


def _within(path: str, above: str) -> bool:
    return (os.path.normpath(path) + "/").startswith(os.path.normpath(above) + "/") or os.path.normpath(above) == "."
