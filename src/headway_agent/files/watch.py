"""The main loop's side of keeping progress: when a task is looked at, its notice file, and its restore.

Cheap for tasks that keep nothing: no watch in the first half second, no thread before something is there. The keeping
itself is done on the thread of uploader.py.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque

from headway_agent.collect.collection import Collection
from headway_agent.decide.facts_and_acts import KeepAgain, Move, Salvage, Settle
from headway_agent.files import workdir_notes
from headway_agent.files.inotify import Watcher
from headway_agent.files.workdir_notes import Note
from headway_agent.node import settled_tasks
from headway_agent.node.directory import STDIN_FILE, boottime_s, write_durably, write_whole
from headway_agent.prepare import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence

    from headway_agent.decide.facts_and_acts import Act
    from headway_agent.files.restore import Restored
    from headway_agent.files.uploader import Uploader
    from headway_agent.objects.remote import RemoteStorage
    from headway_wire.claim import Claim, Program

WATCH_AFTER_S = 0.1
WORKDIR_AFTER_S = 1.0  # When the working directory is looked at: most tasks that are over sooner saved nothing there.
NOTE_AFTER_S = 2.0  # When packages are looked for. A launcher may take its time before there is a Python:
NOTE_AGAIN_S = 30.0
PLACES = ("checkpoints", "output", "sdk")
NOTICE, ASKED, LEAVING = "notice.json", "progress.json", "leaving.json"
NOTICE_S = 30.0  # How soon a machine goes that does not say when.


class FileWatch:
    def __init__(
        self,
        directory_of: Callable[[str], str],
        storage: RemoteStorage,
        make_checkpointer: Callable[[Watcher], Uploader],
        going: Callable[[str], bool],
        collection: Collection | None = None,
    ) -> None:
        self._directory_of, self._storage, self._make = directory_of, storage, make_checkpointer
        self._going = going
        self._thread: Uploader | None = None
        self._young: deque[tuple[float, str]] = deque()  # Tasks that began so lately that they are not watched yet.
        self._unnoted: deque[tuple[float, str]] = deque()  # Tasks whose packages nobody has looked for yet.
        self._elsewhere: deque[tuple[float, str]] = deque()  # Tasks whose working directory nobody has looked at yet.
        self._workdirs: dict[str, Note] = {}  # The same: where it is.
        self._watched: set[str] = set()
        self._asked: set[str] = set()
        self._first_failures: dict[str, float] = {}
        self._settler = settled_tasks.Settler()
        self._begun: dict[str, float] = {}  # When each task was claimed, by the time of day.
        self.collection = collection or Collection()
        self.watcher = Watcher()

    @property
    def thread(self) -> Uploader:
        if self._thread is None:
            self._thread = self._make(self.watcher)
        return self._thread

    @property
    def fd(self) -> int:
        """What the main loop must listen to; -1 for nothing. Once the thread is there, it listens itself."""
        return self.watcher.fd if self._thread is None else -1

    @property
    def hurries(self) -> bool:
        """A checkpoint of a task that ends is on its way: all other traffic waits."""
        return self._thread is not None and self._thread.hurries

    # --- the life of a task ---

    def held(self, claim: Claim, directory: str, cwd: str) -> dict[str, str]:
        """Returns the variables by which it finds where to post how far it is."""
        asked, key = asked_of(claim.progress, cwd), claim.task
        if asked:
            write_whole(os.path.join(directory, ASKED), asked)
        if claim.progress.stdin:
            write_durably(os.path.join(directory, STDIN_FILE), claim.progress.stdin.encode())
        if asked or claim.resume:
            self._asked.add(key)
        dirs = claim.progress.checkpoint.dirs if claim.progress.checkpoint else ()
        note = self._workdirs[key] = Note(cwd, time.time_ns(), dirs)
        self._begun[key] = time.time()
        self.collection.held(claim, directory, cwd)
        if claim.nodes > 1 and workdir_notes.is_in_place(directory, cwd):
            from headway_agent.files import occupants  # Here: an idle node need not carry it.

            occupants.enter(occupants.occupant(key, directory, note))  # Before the first rank of all starts.
        if dirs or claim.attempt > 1:
            # One that runs again writes over what is there, and no folder shows that something was written.
            self._note_workdir(key)
        return self.collection.env(key)

    def spawned(self, key: str) -> None:
        self._note_later(key)
        if key in self._workdirs:
            self._elsewhere.append((boottime_s() + WORKDIR_AFTER_S, key))
        if key in self._asked:
            self._watch(key)
        else:
            self._young.append((boottime_s() + WATCH_AFTER_S, key))

    def found_going(self, key: str, started_at: float = 0.0) -> None:
        """An agent that has just started finds a task that runs already."""
        self._note_later(key)
        directory = self._directory_of(key)
        cwd = asked_in(directory).get("cwd")
        if not cwd and workdir_notes.read(directory) is None:
            cwd = _cwd_of(key, directory)  # The agent before us was gone before it had noted it.
        if cwd and started_at:
            self._workdirs[key] = Note(str(cwd), int(started_at * 1e9))
            self._note_workdir(key)
        self._begun[key] = started_at
        self._collect(key)
        self.collection.found_going()
        if key not in self._watched:
            self._watch(key)

    def first_failures(self, told: Iterable[Sequence[Any]]) -> None:
        """When the first rank of each task failed, by the time of day; nobody need have watched just then."""
        for key, at in told:
            if at and key not in self._first_failures:
                self._first_failures[key] = float(at)
                if self._thread is not None:
                    self._thread.failing(key, time.time() - float(at))

    def due_s(self) -> float | None:
        queues = (self._young, self._unnoted, self._elsewhere)
        for early in queues:
            while early and not self._going(early[0][1]):
                early.popleft()
        return min([early[0][0] for early in queues if early], default=None)

    def turn(self) -> None:
        now = boottime_s()
        while self._young and self._young[0][0] <= now:
            key = self._young.popleft()[1]
            if self._going(key):
                self._watch(key)
        while self._elsewhere and self._elsewhere[0][0] <= now:
            key = self._elsewhere.popleft()[1]
            if self._going(key) and self._note_workdir(key):
                self.thread.attend(key)
                self._collect(key)
        due = []
        while self._unnoted and self._unnoted[0][0] <= now:
            due.append(self._unnoted.popleft()[1])
        if any(map(self._going, due)):
            threading.Thread(target=self._note, args=(due,), name="packages", daemon=True).start()

    def _collect(self, key: str) -> None:
        """Collect the figures of a task that has been running for a while."""
        directory = self._directory_of(key)
        note = workdir_notes.read(directory)
        if note is not None:
            self.collection.begin(key, directory, note.cwd, self._begun.get(key, 0.0))

    def _note_workdir(self, key: str) -> bool:
        """Note where it works, for whoever looks there; whether it could be noted."""
        directory, note = self._directory_of(key), self._workdirs.pop(key, None)
        try:
            if note is not None and workdir_notes.read(directory) is None:
                workdir_notes.write(directory, note)
        except OSError:
            return False  # A full disk: nothing could be kept from there either.
        return True

    def _note_later(self, key: str) -> None:
        if key.endswith("/0"):  # The other tasks of a gang have the same.
            self._unnoted.append((boottime_s() + NOTE_AFTER_S, key))

    def _note(self, tasks: Sequence[str]) -> None:
        from headway_agent.files import installed_packages  # Here: an idle node need not carry it.

        left = [key for key in tasks if self._going(key) and not installed_packages.note(key, self._storage.put)]
        if left:
            time.sleep(NOTE_AGAIN_S)
            for key in filter(self._going, left):
                installed_packages.note(key, self._storage.put)

    def _watch(self, key: str) -> None:
        self._watched.add(key)
        directory = self._directory_of(key)
        fine = [self.watcher.watch(key, place, f"{directory}/{place}") for place in PLACES]
        if not all(fine) or self.leftovers(key):
            self.thread.attend(key, polled=not all(fine))
        if self._thread is not None:
            self._thread.watches()  # It may have begun to wait before there was anything to watch.

    def heard(self) -> None:
        """Something happened in a watched directory: from here on the thread listens."""
        if self._thread is None:  # It takes a moment to come to life, while jobs print further steps.
            sizes = {key: printed_bytes(self._directory_of(key)) for key in self._watched}
            self.watcher.printed = {key: (size, time.time_ns()) for key, size in sizes.items()}
        self.thread.watches()

    def leftovers(self, key: str) -> bool:
        """Whether there is anything that may have to be kept."""
        directory, note = self._directory_of(key), self._workdirs.get(key)
        if note is not None and _has_made_something(note):
            self._note_workdir(key)  # It is over before anybody looked.
        if key in self._asked or os.path.exists(f"{directory}/{ASKED}") or workdir_notes.read(directory) is not None:
            return True
        return any(_holds_something(f"{directory}/{place}") for place in PLACES)

    def perform(self, act: Act) -> None:
        """Do what concerns files that are kept."""
        if isinstance(act, Salvage):
            self.thread.salvage(act.task, act.end, self._first_failures.get(act.task, 0.0))
        elif isinstance(act, Settle):
            self._settler.ask(self._directory_of(act.task))
        elif isinstance(act, KeepAgain):
            self.thread.keep_again(act.task, act.checkpoint)
        elif isinstance(act, Move):
            self._storage.move(act.storage)
            if self._thread is not None:
                self._thread.wake()

    def _leave_workdir(self, key: str, note: Note | None) -> None:
        """Where it had let others know that it is there, that is over."""
        directory = self._directory_of(key)
        note = workdir_notes.read(directory) or note
        if note is not None and workdir_notes.is_in_place(directory, note.cwd):
            from headway_agent.files import occupants

            occupants.leave(occupants.occupant(key, directory, note))

    def forget(self, key: str) -> None:
        self._asked.discard(key)
        self._leave_workdir(key, self._workdirs.pop(key, None))
        self._first_failures.pop(key, None)
        self._begun.pop(key, None)
        self.collection.forget(key)
        if key in self._watched:
            self._watched.discard(key)
            self.watcher.drop(key)
        if self._thread is not None:
            self._thread.forget(key)

    # --- notices ---

    def notice(self, key: str, cause: str, grace_s: float) -> None:
        """Tell the ranks, before they are signalled, why they end and how long they have."""
        path = os.path.join(self._directory_of(key), NOTICE)
        said = {"cause": cause, "seconds_left": round(grace_s, 3), "at": time.time()}
        try:
            write_whole(path, said)
        except OSError:
            pass  # A full disk: they still get the signal.
        if self._thread is not None:
            self._thread.notice(key)

    # --- restore ---

    def restore(self, work: steps.Work) -> None:
        """Fill the checkpoint directory before the task is claimed; a step of prepare/steps.py."""
        from headway_agent.files import restore, task_files  # Here: an idle node need not carry them.

        resume, objects = work.claim.resume, self._storage.objects()
        assert resume is not None, "a step of claims that have one"
        if objects is None:
            raise OSError("the server has not said yet where storage is")
        directory = f"{work.directory}/checkpoints"
        try:
            restored = restore.restore(objects, resume.key, directory, work.check, resume.others)
        except restore.Bad as problem:
            raise steps.UnusableCheckpoint(problem.key or resume.key, str(problem)) from None
        returned = self._put_back(work, restored)
        tree = {**restore.look(directory), **returned}
        task_files.write_restored(work.directory, resume, restored, tree, objects.mark)

    def _put_back(self, work: steps.Work, restored: Restored) -> dict[str, Any]:
        """What of a checkpoint lay in the working directory goes there again."""
        from headway_agent.files import returned_files

        named = [each for each in (restored.manifest, *restored.others) if each.get("workdir")]
        manifest = dict(restored.manifest, workdir=named[0]["workdir"] if named else None)
        cwd = work.prepared.cwd or work.claim.workdir or f"{work.directory}/work"
        dirs = work.asked.checkpoint.dirs if work.asked.checkpoint else ()
        return returned_files.put_back(work.key, work.directory, cwd, dirs, manifest)


def asked_of(program: Program, cwd: str) -> dict[str, Any]:
    """What of a claim must outlive the agent; nothing for a task that asked for nothing."""
    said = program.show()
    asked = {word: said[word] for word in ("checkpoint", "outputs", "artifacts_every_s") if said.get(word)}
    if asked:
        asked["cwd"] = cwd
    return asked


def asked_in(directory: str) -> dict[str, Any]:
    """What was asked for a task, as an agent before us has noted it."""
    try:
        with open(os.path.join(directory, ASKED)) as file:
            return dict(json.load(file))
    except (OSError, ValueError, TypeError):
        return {}


def notice_in(directory: str) -> str:
    """Why the ranks of a task were told to end, as their notice file says; empty when there is none."""
    try:
        with open(os.path.join(directory, NOTICE)) as file:
            return str(json.load(file)["cause"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"  # They may have read more of it than we can.


def machine_notice_s(node_path: str) -> float:
    """How soon this machine goes, where somebody wrote it down."""
    try:
        with open(os.path.join(node_path, NOTICE)) as file:
            return max(1.0, float(json.load(file)["seconds_left"]))
    except (OSError, ValueError, KeyError, TypeError):
        return NOTICE_S


def machine_why(node_path: str) -> str:
    """Why this machine goes, where somebody wrote it down."""
    try:
        with open(os.path.join(node_path, NOTICE)) as file:
            return str(json.load(file).get("why") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def machine_goes(node_path: str, boot_id: str) -> float:
    """How soon this machine goes, written down for an agent that comes after us."""
    left_s = machine_notice_s(node_path)
    try:
        write_whole(os.path.join(node_path, LEAVING), {"boot_id": boot_id, "at_s": boottime_s() + left_s})
    except OSError:
        pass  # A full disk: as long as we live, we know it.
    return left_s


def machine_left_s(node_path: str, boot_id: str) -> float | None:
    """How soon this machine goes, by what an agent before us heard; None where there was no notice since it started."""
    try:
        with open(os.path.join(node_path, LEAVING)) as file:
            said = json.load(file)
            return float(said["at_s"]) - boottime_s() if said["boot_id"] == boot_id else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _cwd_of(key: str, directory: str) -> str:
    """Where the first rank of a task works that is alive; empty when none is."""
    from headway_agent.node.rank_places import NoPlace, place_of  # Here: few agents find tasks that run already.

    try:
        return place_of(key, os.path.dirname(os.path.dirname(directory)))[1]
    except NoPlace:
        return ""


def _has_made_something(note: Note) -> bool:
    """Whether a folder, or a file that may be a checkpoint, is new in a working directory."""
    try:
        if os.stat(note.cwd).st_mtime_ns <= note.since_ns:
            return False
        from headway_agent.checkpoints import frameworks  # Here: an idle node need not carry it.

        with os.scandir(note.cwd) as entries:
            likely = [
                each for each in entries if frameworks.may_matter(each.name) or each.is_dir(follow_symlinks=False)
            ]
        return any(each.stat(follow_symlinks=False).st_ctime_ns > note.since_ns for each in likely)
    except OSError:
        return False


def printed_bytes(directory: str) -> int:
    """How much the first rank of a task on this node has printed by now."""
    try:
        return os.stat(first_output(directory)).st_size
    except OSError:
        return 0


def first_output(directory: str) -> str:
    """The output file of the first rank on this node."""
    return os.path.join(directory, min(outputs(directory), key=lambda name: int(name[4:-4]), default="rank0.out"))


def outputs(directory: str) -> list[str]:
    """The names of its ranks' output files: one for each rank."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [name for name in names if name.startswith("rank") and name.endswith(".out")]


def _holds_something(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return any(True for _ in entries)
    except OSError:
        return False
