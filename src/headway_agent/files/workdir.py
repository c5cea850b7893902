"""The second root of a task: its working directory, where scripts save by habits of their own.

Says which files there are kept: all below the directories that were asked for, else what checkpoints/frameworks.py
recognises among what was written since the job began. Everywhere else their paths begin with PREFIX. Writes nothing
there: returned_files.py does, before the ranks start.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from itertools import islice

from headway_agent.checkpoints import frameworks
from headway_agent.checkpoints.frameworks import FoundHabit
from headway_agent.checkpoints.roots import PREFIX
from headway_agent.files import occupants, workdir_notes
from headway_agent.files.occupants import Occupant
from headway_agent.files.parts import signature_of
from headway_agent.files.restore import unkeepable
from headway_agent.node.directory import boottime_s
from headway_agent.objects.folder import ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator, Sequence

    from headway_agent.checkpoints.completeness import Signature
    from headway_agent.files.workdir_notes import Note

DIRECTORIES_MAX, ENTRIES_MAX = 5000, 50_000  # Of one look through all of it.
ENTRIES_OF_ONE_MAX = 10_000
DEPTH_MAX = 12
WRITTEN_MAX = 5000
WATCHES_MAX = 1000
OTHERS_READ_MAX = 20
SCAN_EVERY_S, SCAN_PART = 10.0, 0.005  # Where not all of it is watched: how often, and what part of the time at most.
ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")  # A folder with one of these holds programs.


class Workdir:
    """What is kept of one task's working directory. Used by the thread of uploader.py; `matters` by any."""

    def __init__(self, key: str, directory: str, note: Note) -> None:
        self.key, self.directory, self.note = key, directory, note
        self.cwd = note.cwd
        self.found = [FoundHabit(*each) for each in note.found]
        self.me = occupants.occupant(key, directory, note)
        self.in_place = workdir_notes.is_in_place(directory, note.cwd)
        peers = occupants.peers(self.me) if self.in_place else set()
        self.kept_by_another = any(task < self.me.task for task in peers)  # The first of a gang keeps it all.
        self.covers = sorted(peers) if not self.kept_by_another else []
        self.unwatched = False  # Some of it: what is written there is found by looking.
        self.scanned = False
        self.off = self.kept_by_another  # Or the job saves elsewhere.
        self._cut = False  # There was more than a look may take.
        self._written: set[str] = set()  # What may be a part of checkpoints, by its name.
        self._other: Occupant | None = None  # A task of another job that is there too.
        self._scan_at_s = 0.0
        self._watches = 0
        self._changed_only = self.me.cwd in ("/", os.path.realpath(os.path.expanduser("~")))

    def enter(self) -> None:
        """Let other tasks of this machine know that this one is there."""
        if self.in_place:
            occupants.enter(self.me)

    @property
    def said(self) -> str:
        """What is kept and why, for people; empty when nothing is."""
        if self.note.dirs:
            return ", ".join(self.note.dirs) + " (asked for)"
        return frameworks.sentence(self.found)

    @property
    def trouble(self) -> str:
        """Why what is saved there may not be kept; empty when all is well."""
        advice = "name where it saves: checkpoint: {dir: …}"
        if self._other is not None and (self.note.dirs or self.found or self._written):
            return f"{self.cwd}: job {self._other.job} runs there too, so what is saved there is not kept; {advice}"
        if self._cut and not self.found:
            return f"{self.cwd}: too large to look for checkpoints in all of it; {advice}"
        return ""

    @property
    def origin(self) -> dict[str, object]:
        """What the next attempt must know of it."""
        return {"cwd": self.cwd, "since_ns": self.note.since_ns}

    def source(self, path: str) -> str:
        return os.path.join(self.cwd, path[len(PREFIX) :])

    def matters(self, path: str) -> bool:
        """Whether news of this file, with PREFIX, may concern a checkpoint."""
        inner = path[len(PREFIX) :]
        if self.off or self.note.dirs:
            return not self.off and _is_below(inner, self.note.dirs)
        return frameworks.is_kept(inner, self.found) or frameworks.may_matter(inner)

    def keeps(self, path: str) -> bool:
        """Whether this file, with PREFIX, is one of those that are kept, as far as is known by now."""
        inner = path[len(PREFIX) :]
        return _is_below(inner, self.note.dirs) if self.note.dirs else frameworks.is_kept(inner, self.found)

    # --- looking ---

    def heard(self, path: str) -> bool:
        """Something happened to this file or folder, with PREFIX. Returns whether it is kept."""
        inner = path[len(PREFIX) :]
        if self.note.dirs:
            if frameworks.is_skipped(inner) and os.path.isdir(os.path.join(self.cwd, inner)):
                self.scanned = False  # Nobody watches it yet.
        elif not frameworks.is_kept(inner, self.found) or self._tells_more(inner):
            seen = _lstat(os.path.join(self.cwd, inner))
            if seen is not None and frameworks.may_matter(inner) and self._is_mine(seen):
                self._note([inner])
        return self.keeps(path)

    def _tells_more(self, path: str) -> bool:
        """Whether it says whose habit this is, which other files of the same folder did not."""
        mark = frameworks.mark_of(path)
        return bool(mark) and all(each.framework != mark for each in self.found)

    def scan(self, watch: Callable[[str], bool] = lambda path: True) -> None:
        """Look through all of it for what the job has written. `watch` is asked to watch each folder."""
        begin_s, self._watches = boottime_s(), 0
        if self.note.dirs:
            for path in self.note.dirs:
                self._watch_whole(path, watch)
        else:
            self._note(self._look_through("", watch))
        self.scanned = True
        took_s = boottime_s() - begin_s
        self._scan_at_s = boottime_s() + max(SCAN_EVERY_S, took_s / SCAN_PART)

    def tree(self, troubles: list[str]) -> dict[str, Signature]:
        """The files that are kept, as they are now, by their paths with PREFIX."""
        if self.unwatched and boottime_s() >= self._scan_at_s:
            self.scan()
        self._meet_others()
        files: dict[str, Signature] = {}
        for path, seen in kept_files(self.cwd, self.note.dirs, self.found):
            if not self._is_mine(seen):
                continue
            problem = unkeepable(self.cwd, path, seen)
            if problem:
                troubles.append(problem)
            else:
                files[PREFIX + path] = signature_of(seen)
        return files

    def _is_mine(self, seen: os.stat_result) -> bool:
        """Whether it was changed since the job began, and while no other job was there that may have done it."""
        changed_ns = max(seen.st_ctime_ns, seen.st_mtime_ns)
        if seen.st_ctime_ns <= self.note.since_ns:
            return False
        return not any(begin <= changed_ns and (not end or changed_ns <= end) for begin, end in self.note.shared)

    def _meet_others(self) -> None:
        """Note since when other jobs run in the same directory, and when they are gone."""
        if not self.in_place or (self._other is not None and occupants.is_there(self._other)):
            return
        others = list(islice(occupants.others(self.me), OTHERS_READ_MAX))
        self._other = others[0] if others else None
        is_open = bool(self.note.shared) and not self.note.shared[-1][1]
        if others and not is_open:
            first_ns = min(each.since_ns for each in others)
            self.note.shared.append([max(first_ns, self.note.since_ns), 0])
        elif is_open and self._other is None:
            self.note.shared[-1][1] = workdir_notes.turning_point_ns()
        else:
            return
        self._remember()

    def _note(self, paths: Iterable[str]) -> None:
        """Take in paths that the job has written, and find out what they say of its habits."""
        fresh = set(paths) - self._written
        if not fresh or len(self._written) > WRITTEN_MAX:
            return
        self._written |= fresh
        found = frameworks.found_in(self._written)
        gone = [each for each in self.found if each not in found and not frameworks.is_kept(each.pattern, found)]
        if [*found, *gone] != self.found:
            self.found = [*found, *gone]  # What was restored, or found by an agent before us, stays.
            self._remember()

    def _remember(self) -> None:
        self.note.found = [[each.pattern, each.framework] for each in self.found]
        try:
            workdir_notes.write(self.directory, self.note)
        except OSError:
            pass  # A full disk: as long as we live, we know it.

    def _look_through(self, top: str, watch: Callable[[str], bool] = lambda path: True) -> list[str]:
        """What was written below a folder of it, as far as its name may matter; the nearest first."""
        waiting, written, directories, entries = deque([top]), [], 0, 0
        while waiting:
            if directories >= DIRECTORIES_MAX or entries >= ENTRIES_MAX:
                self._cut = self.unwatched = True
                break
            above = waiting.popleft()
            directories += 1
            self._watch(above, watch)
            for path, is_folder, seen in self._entries(above):
                entries += 1
                if is_folder:
                    if path.count("/") < DEPTH_MAX and self._is_followed(path, seen):
                        waiting.append(path)
                elif frameworks.may_matter(path) and self._is_mine(seen()):
                    written.append(path)
        return written

    def _entries(self, above: str) -> Iterator[tuple[str, bool, Callable[[], os.stat_result]]]:
        try:
            with os.scandir(os.path.join(self.cwd, above)) as entries:
                found = [entry for _, entry in zip(range(ENTRIES_OF_ONE_MAX), entries)]
        except OSError:
            return
        if above and any(entry.name in (*ENVIRONMENTS, ID) for entry in found):
            return  # Programs, or storage itself.
        for entry in found:
            path = f"{above}/{entry.name}" if above else entry.name
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                yield path, is_folder, lambda entry=entry: entry.stat(follow_symlinks=False)  # type: ignore[misc]
            except OSError:
                continue  # Gone meanwhile.

    def _is_followed(self, path: str, seen: Callable[[], os.stat_result]) -> bool:
        if frameworks.is_skipped(path) or os.path.join(self.me.cwd, path) == _node_of(self.directory):
            return False
        return not self._changed_only or seen().st_mtime_ns > self.note.since_ns

    def _watch_whole(self, path: str, watch: Callable[[str], bool]) -> None:
        """Watch a folder that was asked for with all that is in it, and those above it, where it may be made yet."""
        parts = path.split("/")
        for number in range(len(parts)):
            self._watch("/".join(parts[:number]), watch)
        for above, folders, _ in os.walk(os.path.join(self.cwd, path)):
            folders.sort()
            inner = os.path.relpath(above, self.cwd)
            self._watch("" if inner == "." else inner, watch)

    def _watch(self, path: str, watch: Callable[[str], bool]) -> None:
        self._watches += 1
        if self._watches > WATCHES_MAX or not watch(path):
            self.unwatched = True


def kept_files(cwd: str, dirs: Sequence[str], found: Iterable[FoundHabit]) -> Iterator[tuple[str, os.stat_result]]:
    """The files below the directories that were asked for, else those that match what was found."""
    for path in dirs:
        yield from files_below(cwd, path)
    for each in () if dirs else found:
        for path in matching(cwd, each.pattern.split("/")):
            yield from ((file, seen) for file, seen in files_below(cwd, path) if not frameworks.is_never(file))


def files_below(top: str, path: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files and links at or below a path, relative to the top. A link that is the path itself is followed."""
    seen = _lstat(os.path.join(top, path))
    if seen is None:
        return
    if not stat.S_ISDIR(seen.st_mode) and not os.path.isdir(os.path.join(top, path)):
        yield path, seen
        return
    waiting = [path]
    while waiting:
        above = waiting.pop()
        try:
            names = sorted(os.listdir(os.path.join(top, above)))
        except OSError:
            continue  # Removed while we looked.
        for name in names:
            inner = name if above in ("", ".") else f"{above}/{name}"
            seen = _lstat(os.path.join(top, inner))
            if seen is not None and stat.S_ISDIR(seen.st_mode):
                waiting.append(inner)
            elif seen is not None:
                yield inner, seen


def matching(top: str, parts: Sequence[str], above: str = "") -> Iterator[str]:
    """The paths below the top that match a pattern, given part by part."""
    names = [parts[0]]
    if "*" in parts[0]:
        try:
            names = sorted(os.listdir(os.path.join(top, above)))
        except OSError:
            return
    for name in names:
        path = f"{above}/{name}" if above else name
        if "*" in parts[0] and not frameworks.is_kept(name, [FoundHabit(parts[0], "")]):
            continue
        if len(parts) == 1:
            yield path
        elif os.path.isdir(os.path.join(top, path)):
            yield from matching(top, parts[1:], path)


def _is_below(path: str, dirs: Iterable[str]) -> bool:
    return any(each == "." or path == each or path.startswith(each + "/") for each in dirs)


def _node_of(directory: str) -> str:
    """Where all nodes of this machine lie: what is written there is our own."""
    return os.path.realpath(os.path.dirname(os.path.dirname(os.path.dirname(directory))))


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
