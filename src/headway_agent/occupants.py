"""Which tasks of this machine run in one and the same directory of their user, and since when.

What is written there while several jobs do is nobody's for sure. A note per task lies in a folder that all nodes of the
machine share; it counts as long as the task's own directory is there.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass

from headway_agent import preparing
from headway_agent.progressing import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Sequence

FOLDER = "workdirs"


@dataclass(frozen=True)
class Occupant:
    """A task that runs in a directory. With `dirs` it saves below these alone."""

    job: str
    directory: str  # Its own, at its node.
    cwd: str
    since_ns: int
    dirs: tuple[str, ...] = ()

    def is_disturbed_by(self, other: Occupant) -> bool:
        """Whether what the other one saves could be taken for its own. What was asked for by name is its own."""
        if self.job == other.job or self.cwd != other.cwd:
            return False
        if not self.dirs:
            return True
        return any(_within(mine, theirs) or _within(theirs, mine) for mine in self.dirs for theirs in other.dirs)


def enter(me: Occupant) -> None:
    """Let the others know. Where it cannot be written down, they do not."""
    try:
        folder = _folder(me)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        said = {"job": me.job, "directory": me.directory, "cwd": me.cwd, "since_ns": me.since_ns, "dirs": me.dirs}
        write_whole(os.path.join(folder, os.path.basename(me.directory)), said)
    except OSError:
        pass


def others(me: Occupant) -> Iterator[Occupant]:
    """Those of other jobs that are there now and could be mistaken for this one. Notes of the dead are removed."""
    return (each for each in _all(me) if me.is_disturbed_by(each))


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
        return Occupant(said["job"], said["directory"], said["cwd"], int(said["since_ns"]), tuple(dirs))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folder(me: Occupant) -> str:
    """Beside the nodes of this machine: two directories that share one by chance are told apart by their notes."""
    node = os.path.dirname(os.path.dirname(me.directory))
    name = f"{zlib.crc32(os.fsencode(me.cwd)):08x}"
    return os.path.join(preparing.cache_dir(node, os.environ), FOLDER, name)


def _within(path: str, above: str) -> bool:
    return (os.path.normpath(path) + "/").startswith(os.path.normpath(above) + "/") or os.path.normpath(above) == "."
