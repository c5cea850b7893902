"""The thread that hears what happens to the files of tasks, and puts by what was closed before it is written anew.

It must never wait for storage: between two saves of a job there may be a second. What it heard goes to the thread of
uploader.py, in order. The kernel's events come from inotify.py.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time
import traceback
from dataclasses import dataclass

from headway_agent.checkpoints.completeness import is_half_written
from headway_agent.files import staged_files
from headway_agent.files.inotify import APPEARED, CLOSED, FOUND, MOVED, WRITTEN, SeenFile
from headway_agent.files.watch import first_output, outputs
from headway_agent.formats import file_formats
from headway_agent.node.directory import boottime_s
from headway_agent.node.task_processes import TaskProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

    from headway_agent.checkpoints.rounds import Signature
    from headway_agent.files.inotify import Watcher
    from headway_agent.node.directory import FactLog

GATHER_S = 0.05  # Events that come together are looked at together;
HEAR_S = 0.01  # but they are heard sooner: how far the job was at a close is what it had told by then.
AGAIN_S = 0.2
AFTER_S = 0.05  # A line that comes so soon after a save tells the step of that save,
SILENT_S = 0.15  # where none had come for so long before it: else it is the next step's.
STAGED = "staged"
CLOSES_WITHIN_S, CLOSES_EVERY_S = 0.5, 0.002
SHARED_MAX = 1000
HEARD_WITHIN_S, REMEMBERED_MAX = 10.0, 10_000
SAME_SAVE_NS = 60_000_000  # What is heard so shortly before a file was written to for the last time is its own save.
UNSURE, NEVER = "unsure", "never"  # What is put by: only files of unknown format, which are stored late; none.


@dataclass(frozen=True)
class Caught:
    """A file that was closed after writing, and that nobody has open for writing."""

    task: str
    place: str
    path: str
    signature: Signature
    at_s: float
    verdict: str  # What its format says: whole, cut or unknown.
    source: str = ""
    source_signature: Signature = (0, 0, 0)
    printed_bytes: int = 0  # How much its first rank had printed by then.
    doubtful: bool = False  # A process of its task ended about then: perhaps in the middle of writing it.
    alive: bool = False  # All of them were alive after it: none has closed it by its death.


@dataclass(frozen=True)
class Printed:
    """How much its first rank had printed when a file was renamed, or right after it was saved."""

    task: str
    place: str
    path: str
    printed_bytes: int


class FileEvents:
    def __init__(
        self,
        watcher: Watcher,
        file_of: Callable[[str, str, str], str],
        directory_of: Callable[[str], str],
        tell: Callable[[Sequence[SeenFile | Caught | Printed]], None],
        log: FactLog,
        concerns: Callable[[SeenFile], bool] = lambda seen: True,
    ) -> None:
        self.watcher, self._concerns = watcher, concerns
        self.put_by: dict[str, str] = {}  # By task: LINK, COPY, UNSURE or NEVER; nothing is known of a new one: COPY.
        self._file_of, self._directory_of, self._tell, self._log = file_of, directory_of, tell, log
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._waiting: list[threading.Event] = []
        self._silent: dict[str, bool] = {}  # By task that writes: whether it printed nothing for long before that.
        self._after: dict[tuple[str, str, str], tuple[float, int]] = {}  # Saved just now: what is printed right after.
        self._caught_as: dict[tuple[str, str, str], tuple[Signature, float]] = {}  # And until when that is of use.
        self._shared: set[str] = set()  # Files that somebody had open for writing still after a close.
        self._processes = TaskProcesses()
        self._ended: dict[str, bool] = {}  # By task: whether a process of it has ended, as far as was asked in a turn.
        self._met: set[str] = set()  # Tasks first seen in this turn, when not all of their ranks were alive.
        threading.Thread(target=self._work, name="file events", daemon=True).start()

    def wake(self) -> None:
        try:
            os.write(self._wake_w, b"x")
        except BlockingIOError:
            pass

    def flush(self, limit_s: float) -> None:
        """Wait until all is told that has happened so far."""
        done = threading.Event()
        self._waiting.append(done)
        self.wake()
        done.wait(limit_s)

    def _work(self) -> None:
        while True:
            try:
                ends = [self._wake_r] + ([self.watcher.fd] if self.watcher.fd >= 0 else [])
                ready, _, _ = select.select(ends, [], [], AFTER_S if self._after else None)
                if self._wake_r in ready:
                    os.read(self._wake_r, 4096)
                self._turn()
                time.sleep(HEAR_S)  # A rank that writes a large file must not wake us with each of its writes.
            except Exception as error:  # Whatever went wrong with one file, the others are still to be seen.
                self._log.say("hearing failed", error=repr(error), where=traceback.format_exc()[-2000:])
                time.sleep(AGAIN_S)

    def _turn(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            seen: list[SeenFile] = []
            while self.watcher.fd >= 0:
                more = self.watcher.read()
                if not more:
                    break
                seen += filter(self._concerns, more)
            if seen:
                self._hear(seen)
                self.watcher.printed = {}
            self._tell_after(at_once=bool(waiting))
        finally:
            for each in waiting:
                each.set()

    def _hear(self, seen: Sequence[SeenFile]) -> None:
        """Tell it in the order in which it happened; of a thousand writes to one file the first, and its last close."""
        last = {(each.task, each.place, each.path): number for number, each in enumerate(seen)}
        met = {task for task in {each.task for each in seen} if self._processes.meet(task)}
        self._met = {task for task in met if self._processes.leaders(task) < len(outputs(self._directory_of(task)))}
        self._ended = dict.fromkeys(met, False)
        told: list[SeenFile | Caught | Printed] = []
        written: set[SeenFile] = set()
        old = {key for key in last if self._is_caught(*key)}
        for number, each in enumerate(seen):
            if each.what in (WRITTEN, APPEARED, CLOSED, FOUND) and (each.task, each.place, each.path) in old:
                continue
            newest = last[each.task, each.place, each.path] == number
            told += self._printed_at(each)
            caught = self._catch(each) if newest and each.what in (CLOSED, FOUND) else None
            if each.what == WRITTEN and each in written:
                continue
            if caught is None or each.what == FOUND:
                told.append(each)  # A close alone: it came too late to be of use.
            if caught is not None:
                told.append(caught)
                self._remember(caught)
            if each.what == WRITTEN:
                written.add(each)
            elif each.what == CLOSED:
                written.discard(SeenFile(each.task, each.place, WRITTEN, each.path))
        if told:
            self._tell(told)

    def _is_caught(self, task: str, place: str, path: str) -> bool:
        """Whether it is as it was caught a moment ago: what is heard of it happened before that.

        A file in a new folder is found by looking, and heard of too. Taken for written anew, it would end its save.
        """
        signature, until_s = self._caught_as.get((task, place, path), (None, 0.0))
        if signature is None or boottime_s() > until_s:
            return False
        try:
            return staged_files.signature_at(self._file_of(task, place, path)) == signature
        except OSError:
            return False

    def _remember(self, caught: Caught) -> None:
        now = boottime_s()
        if len(self._caught_as) >= REMEMBERED_MAX:
            self._caught_as = {key: each for key, each in self._caught_as.items() if each[1] > now}
        self._caught_as[caught.task, caught.place, caught.path] = (caught.signature, now + HEARD_WITHIN_S)

    def _printed_at(self, seen: SeenFile) -> list[Printed]:
        """Note how much was printed when a save begins and ends; of a rename it is told at once."""
        task = seen.task
        if seen.place in ("sdk", "output"):
            return []
        if seen.what in (WRITTEN, APPEARED) and task not in self._silent:
            self._silent[task] = time.time() - self._printed(task)[1] >= SILENT_S
        if seen.what not in (CLOSED, MOVED) or is_half_written(seen.path):
            return []
        size = self._printed(task)[0]
        if self._silent.pop(task, False):
            self._after[task, seen.place, seen.path] = (boottime_s() + AFTER_S, size)
        return [Printed(task, seen.place, seen.path, size)] if seen.what == MOVED else []

    def _tell_after(self, at_once: bool) -> None:
        now = boottime_s()
        due = {key: size for key, (at_s, size) in self._after.items() if at_once or at_s <= now}
        sizes = {task: self._printed(task)[0] for task, _, _ in due}
        told = [Printed(*key, sizes[key[0]]) for key, size in due.items() if sizes[key[0]] > size]
        self._after = {key: each for key, each in self._after.items() if key not in due}
        if told:
            self._tell(told)

    def _catch(self, seen: SeenFile) -> Caught | None:
        """The file as it was closed; None when it is being written to again, or is none that counts."""
        task, place, path = seen.task, seen.place, seen.path
        if place in ("sdk", "output") or is_half_written(path):
            return None
        file = self._file_of(task, place, path)
        try:
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None  # Renamed or removed.
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode) or self._has_writer(fd, file, seen.what == CLOSED):
                return None
            return self._caught(task, place, path, file, fd, os.fstat(fd))
        except OSError:
            return None  # Removed meanwhile.
        finally:
            os.close(fd)

    def _has_writer(self, fd: int, file: str, closed: bool) -> bool:
        """Whether somebody else still writes to it.

        The kernel tells of a close before it has done with it: while it finds room for a large file that replaced an
        older one, the file counts as being written to.
        """
        until_s = boottime_s() + (CLOSES_WITHIN_S if closed and file not in self._shared else 0.0)
        while staged_files.has_writer(fd):
            if boottime_s() >= until_s:
                if len(self._shared) < SHARED_MAX:
                    self._shared.add(file)  # Two have it open: it need not be waited for again.
                return True
            time.sleep(CLOSES_EVERY_S)
        self._shared.discard(file)
        return False

    def _caught(self, task: str, place: str, path: str, file: str, fd: int, found: os.stat_result) -> Caught | None:
        signature = (found.st_size, found.st_mtime_ns, found.st_ino)
        verdict, printed = file_formats.check(file).verdict, self._printed(task, found.st_mtime_ns)[0]
        doubtful = verdict == file_formats.UNKNOWN and self._has_one_ended(task)  # Before the copy, which takes time.
        source, of_source = "", (0, 0, 0)
        how = self._how(task, verdict)
        if how:
            source, of_source = self._put_by(task, file, fd, how)
        if staged_files.signature_at(file) != signature or of_source[0] not in (signature[0], 0):
            staged_files.drop(source)
            return None  # The next save has begun; its close will come.
        alive = not doubtful and task not in self._met
        return Caught(task, place, path, signature, boottime_s(), verdict, source, of_source, printed, doubtful, alive)

    def _how(self, task: str, verdict: str) -> str:
        """Whether it is copied or linked; empty for neither."""
        how = self.put_by.get(task, staged_files.COPY)
        if how == NEVER or verdict == file_formats.CUT or (how == UNSURE and verdict == file_formats.WHOLE):
            return ""
        return staged_files.LINK if how == staged_files.LINK else staged_files.COPY

    def _put_by(self, task: str, file: str, fd: int, how: str) -> tuple[str, Signature]:
        try:
            source = staged_files.put_by(file, fd, f"{self._directory_of(task)}/{STAGED}", how)
            return source, staged_files.signature_at(source)
        except OSError as error:  # A full disk: the file itself may still be there when it is stored.
            self._log.say("not put by", task=task, path=file, error=str(error))
            return "", (0, 0, 0)

    def _has_one_ended(self, task: str) -> bool:
        if task not in self._ended:
            self._ended[task] = self._processes.has_one_ended(task)
        return self._ended[task]

    def forget(self, task: str) -> None:
        self.put_by.pop(task, None)
        self._silent.pop(task, None)
        self._processes.forget(task)

    def _printed(self, task: str, written_ns: int = 0) -> tuple[int, float]:
        """How much its first rank had printed when this was heard, perhaps by somebody before us; and when it did."""
        size, at_ns = self.watcher.printed.get(task, (0, 0))
        if written_ns and at_ns + SAME_SAVE_NS > written_ns:
            return size, at_ns / 1e9
        try:
            found = os.stat(first_output(self._directory_of(task)))
        except OSError:
            return 0, 0.0
        return found.st_size, found.st_mtime
