"""The thread that keeps what tasks write: it looks, takes snapshots, stores them, and tells the main loop.

One for the node, started when the first task has something to keep. It does one thing at a time: what is over first,
then what has notice, checkpoints before artifacts. What happens to files meanwhile is heard by file_events.py. Nothing
that goes wrong here stops a task: it is said, and tried again.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
import traceback
from functools import partial
from queue import Empty, SimpleQueue

from headway_agent.checkpoints import completeness
from headway_agent.checkpoints.completeness import CUT, WHOLE
from headway_agent.checkpoints.roots import PREFIX, WORKDIR
from headway_agent.checkpoints.rounds import Closed
from headway_agent.decide.facts_and_acts import (
    UNKEPT,
    WAIT,
    ArtifactStored,
    CheckpointStored,
    Salvaged,
    Salvaging,
    Troubled,
    Wrote,
    unkept_words,
)
from headway_agent.decide.unconfirmed_files import STEPS_EVERY_S
from headway_agent.files import artifacts, sdk_lines, staged_files
from headway_agent.files.file_events import GATHER_S, NEVER, STAGED, UNSURE, Caught, FileEvents, Printed
from headway_agent.files.inotify import APPEARED, CLOSED, FOUND, MISSED, MOVED, WRITTEN
from headway_agent.files.parts import Changed, send_files
from headway_agent.files.restore import look
from headway_agent.files.task_files import TaskFiles
from headway_agent.formats import file_formats
from headway_agent.node.directory import boottime_s
from headway_agent.objects.folder import StoreFailed, StoreRefused, put
from headway_wire.manifest_seal import sealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Sequence

    from headway_agent.checkpoints.completeness import Signature
    from headway_agent.decide.facts_and_acts import Fact
    from headway_agent.files.inotify import SeenFile, Watcher
    from headway_agent.files.parts import Known, Place
    from headway_agent.node.directory import FactLog
    from headway_agent.objects.folder import Objects

SDK_EVERY_S = 1.0
POLL_EVERY_S = 2.0  # Where the kernel gives no watches.
AGAIN_S = 0.2
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.5, 30.0
ENDING_BACKOFF_S_MAX = 2.0
GETTING_ON_EVERY_S = 5.0
CHANGED_TRIES = 3
NICE = 5  # Hashing must not take a processor from the training: about a quarter of one where all are busy.
TROUBLE_CHARS_MAX = 400
OPEN_EVERY_S = 2.0  # How often a file is looked into that a job keeps open.
FLUSH_S = 60.0  # How long is waited for the news of files of a task that is over: a large one may be being put by.


class Uploader:
    def __init__(
        self,
        objects: Callable[[], Objects | None],
        watcher: Watcher,
        directory_of: Callable[[str], str],
        epoch: int,
        tell: Callable[[Fact], None],
        log: FactLog,
    ) -> None:
        self._place, self.watcher = objects, watcher
        self._directory_of, self._epoch, self._tell, self._log = directory_of, epoch, tell, log
        self._charges: dict[str, TaskFiles] = {}
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.events = FileEvents(watcher, self._file_of, directory_of, self._heard, log, self._concerns)
        self._troubled: dict[str, str] = {}
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self.hurries = False  # It stores what a task with notice, or one that is over, has saved.
        threading.Thread(target=self._work, name="checkpoints", daemon=True).start()

    # --- what the main loop asks for; done on the thread ---

    def attend(self, key: str, polled: bool = False) -> None:
        """The task has, or may have, something to keep."""
        self._ask(lambda: self._open(key, polled))

    def notice(self, key: str) -> None:
        self._ask(lambda: self._noticed(key))

    def failing(self, key: str, since_s: float) -> None:
        """One of its ranks has failed, and left what it was writing just then; others may live on."""
        failed_s = boottime_s() - max(0.0, since_s)
        self._ask(lambda: self._failed(key, failed_s))

    def salvage(self, key: str, end: str, first_failure_at: float = 0.0) -> None:
        self._ask(lambda: self._ended(key, end, first_failure_at))

    def forget(self, key: str) -> None:
        self._ask(lambda: self._drop(key))

    def keep_again(self, key: str, checkpoint: bool) -> None:
        """What was stored of it lies where nobody looks."""
        self._ask(lambda: self._again(key, checkpoint))

    def _ask(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)
        self.wake()

    def wake(self) -> None:
        try:
            os.write(self._wake_w, b"x")
        except BlockingIOError:
            pass

    def watches(self) -> None:
        """There is something to listen to, or more of it."""
        self.events.wake()

    # --- the thread ---

    def _work(self) -> None:
        self._yield_to_ranks(NICE)
        while True:
            charge = None
            try:
                self._hear(self._pause_s())
                objects, charge = self._place(), self._most_urgent()
                if charge is not None and objects is not None:
                    self.objects = objects  # One place for all that is done now, whatever is heard meanwhile.
                    self._attend(charge)
            except Exception as error:  # Whatever went wrong, the other tasks' files are still to be kept.
                self._log.say("keeping failed", error=repr(error), where=traceback.format_exc()[-2000:])
                time.sleep(AGAIN_S)
                if charge is not None:  # And this one's, which must not be told to be safe.
                    self._later(charge)
                    charge.look_by(boottime_s() + charge.backoff_s)

    def _yield_to_ranks(self, by: int) -> None:
        """Set how far this thread, and those that it starts, stand back. Its traffic to the disk follows."""
        try:
            os.setpriority(os.PRIO_PROCESS, 0, min(19, self._nice + by))  # In Linux: of the calling thread.
        except OSError:
            pass  # Without the right to hurry again it is slower, but no less sure.

    def _pause_s(self) -> float | None:
        if self._place() is None:
            return None  # We are woken when the server has said where storage is.
        times = [at for at in (charge.due_s() for charge in self._charges.values()) if at is not None]
        return max(0.0, min(times) - boottime_s()) if times else None

    def _hear(self, pause_s: float | None) -> None:
        ready, _, _ = select.select([self._wake_r], [], [], pause_s)
        if ready:
            os.read(self._wake_r, 4096)
        self._do_jobs()

    def _do_jobs(self) -> None:
        while True:
            try:
                self._jobs.get_nowait()()
            except Empty:
                return

    # --- what happens to files ---

    def _file_of(self, task: str, place: str, path: str) -> str:
        charge = self._charges.get(task) if place == WORKDIR else None
        return charge.file_of(path) if charge else os.path.join(self._directory_of(task), place, path)

    def _concerns(self, seen: SeenFile) -> bool:
        """Called by the other thread: of what happens in a working directory most is nothing to us."""
        if seen.place != WORKDIR:
            return True
        charge = self._charges.get(seen.task)
        return charge is not None and charge.workdir is not None and charge.workdir.matters(seen.path)

    def _heard(self, told: Sequence[SeenFile | Caught | Printed]) -> None:
        """Called by the other thread. That a task has begun to write is told at once, however busy this one is."""
        for each in told:
            charge = self._charges.get(each.task)
            if charge is not None and each.path and charge.has_begun(each.place, each.path):
                self._writes(charge, [each.path])
        self._ask(lambda: self._take_in(told))

    def _take_in(self, told: Sequence[SeenFile | Caught | Printed]) -> None:
        now = boottime_s()
        for each in told:
            charge = self._take_up(each.task, False)
            if isinstance(each, Caught):
                self._caught(charge, each)
            elif isinstance(each, Printed):
                if charge is not None:
                    completeness.told_at(charge.knowledge, each.path, charge.told_by(each.printed_bytes))
                continue
            elif charge is not None:
                self._saw(charge, each, now)
            if charge is not None and each.place not in ("sdk", "output"):
                charge.look_by(now + GATHER_S)

    def _writes(self, charge: TaskFiles, paths: Iterable[str]) -> None:
        if charge.begins_to_write(paths):
            self._tell(Wrote(charge.key))

    def _caught(self, charge: TaskFiles | None, caught: Caught) -> None:
        if charge is None or (caught.place == WORKDIR and not charge.has_in_workdir(caught.path)):
            staged_files.drop(caught.source)
            return
        charge.copies |= {caught.source} - {""}
        if caught.verdict == CUT or caught.doubtful:
            completeness.closed_in_vain(charge.knowledge, caught.path, caught.at_s)
        else:
            told, whole = charge.told_by(caught.printed_bytes), caught.verdict == WHOLE
            copy, inside = (caught.source, caught.source_signature), charge.inside(caught.path, caught.source)
            what = Closed(caught.signature, caught.at_s, completeness.CLOSED, whole, *copy, told, inside, caught.alive)
            completeness.closed(charge.knowledge, caught.path, what)

    def _saw(self, charge: TaskFiles, seen: SeenFile, now: float) -> None:
        if seen.place == "sdk":
            charge.sdk_at_s = 0.0
        if seen.place in ("sdk", "output") or (seen.place == WORKDIR and not charge.has_in_workdir(seen.path)):
            return
        if seen.what == MOVED:
            completeness.renamed(charge.knowledge, seen.path)
        elif seen.what in (WRITTEN, APPEARED, FOUND):
            charge.rewrites = charge.rewrites or seen.path in charge.knowledge.kept
            completeness.touched(charge.knowledge, seen.path, now)
        elif seen.what == CLOSED:
            completeness.closed_in_vain(charge.knowledge, seen.path, now)
        elif seen.what == MISSED:
            self._log.say("events were lost", task=charge.key)
            charge.unheard = True
            self.watcher.watch(charge.key, "checkpoints", charge.checkpoints)  # With directories that are new.
            if charge.workdir is not None:
                charge.workdir.scanned = False

    def _open(self, key: str, polled: bool) -> None:
        charge = self._take_up(key, polled)
        if charge is not None:
            charge.open_workdir()
            charge.look_at_s = 0.0

    def _take_up(self, key: str, polled: bool) -> TaskFiles | None:
        charge = self._charges.get(key)
        if charge is None:
            directory = self._directory_of(key)
            if not os.path.isdir(directory):
                return None
            charge = self._charges[key] = TaskFiles(key, directory, self._epoch)
            if charge.report is not None:
                # Perhaps the agent before us could not say it.
                self._tell(CheckpointStored(key, charge.report, charge.saved_s))
            charge.sdk_at_s = 0.0
            charge.artifacts_at_s = boottime_s() + charge.artifacts_every_s
        charge.polled = charge.polled or polled
        return charge

    def _noticed(self, key: str) -> None:
        charge = self._charges.get(key)
        if charge is not None:
            charge.noticed = True
            charge.look_at_s = 0.0

    def _failed(self, key: str, failed_s: float) -> None:
        charge = self._charges.get(key)
        if charge is not None:
            charge.knowledge.failed_s = failed_s

    def _ended(self, key: str, end: str, first_failure_at: float) -> None:
        charge = self._take_up(key, False)
        if charge is None:
            objects = self._place()
            self._tell(Salvaged(key, objects.mark if objects is not None else ""))
            return
        self.events.put_by[key] = NEVER  # Nobody writes to its files any more.
        charge.knowledge.rounds.abrupt = end == completeness.ABRUPT
        charge.end = completeness.KILLED if end == completeness.ABRUPT else end
        charge.first_failure_at = first_failure_at
        charge.open_workdir()
        charge.unheard = True
        charge.look_at_s = charge.artifacts_at_s = 0.0
        charge.backoff_s = 0.0

    def _again(self, key: str, checkpoint: bool) -> None:
        charge = self._take_up(key, False)
        if charge is not None:
            charge.again = charge.again or checkpoint
            charge.artifacts.clear()
            charge.look_at_s = charge.artifacts_at_s = 0.0

    def _drop(self, key: str) -> None:
        self._charges.pop(key, None)
        self.events.forget(key)
        for what in unkept_words(key):
            self._trouble(what, "")

    def _most_urgent(self) -> TaskFiles | None:
        now = boottime_s()
        due = [
            charge for charge in self._charges.values() if (charge.due_s() or now) <= now and charge.due_s() is not None
        ]
        return min(due, key=lambda charge: charge.urgency) if due else None

    # --- one task ---

    def _attend(self, charge: TaskFiles) -> None:
        if charge.end:
            self.events.flush(FLUSH_S)
            self._do_jobs()
        if charge.look_at_s is not None and charge.look_at_s <= boottime_s():
            charge.sdk_at_s = 0.0  # What the look will find may be declared already, with the step that it is.
        self._read_sdk(charge)
        if charge.look_at_s is not None and charge.look_at_s <= boottime_s():
            self._look(charge)
        if charge.look_at_s is not None and charge.end:
            return  # The checkpoint goes first, and is tried again.
        if charge.artifacts_at_s is not None and charge.artifacts_at_s <= boottime_s():
            self._artifacts(charge)
        if charge.end and charge.look_at_s is None and charge.artifacts_at_s is None:
            self._tell_step(charge)  # What counts the same as its checkpoints may be known with the last of them only.
            self._tell(Salvaged(charge.key, self.objects.mark))
            charge.sdk_at_s = None

    def _look(self, charge: TaskFiles) -> None:
        known = charge.knowledge
        left_out: list[str] = []
        found = look(charge.checkpoints, left_out)
        found.update(self._look_in_workdir(charge, bool(found), left_out))
        tree = charge.own(found)
        self._writes(charge, [path for path, seen in tree.items() if known.kept.get(path, ((), ""))[0] != seen])
        if charge.unheard:
            self._examine(charge, tree)
        for path in () if charge.end else completeness.held_open(known, tree, boottime_s()):
            self._copy_grown(charge, path)
        if charge.end:
            charge.read_printed()
        still_s = charge.still_s(tree) if charge.end else {}
        end = charge.end or completeness.ALIVE
        snapshot = completeness.look(known, tree, boottime_s(), end, still_s, charge.inspector)
        self._trouble(f"left out {charge.key}", "; ".join(left_out))
        charge.look_at_s = None
        if snapshot is None and charge.again:
            snapshot = charge.kept_last(tree)
            charge.again = snapshot is not None  # Else it is no longer as it was, and something newer comes.
        if snapshot is not None:
            self.hurries = bool(charge.end) or charge.noticed
            if self.hurries:
                self._yield_to_ranks(0)
            try:
                self._keep(charge, snapshot)
            finally:
                if self.hurries:
                    self._yield_to_ranks(NICE)
                self.hurries = False
        charge.forget_copies()
        if not charge.end:
            self._put_by(charge)
            charge.look_by(completeness.next_look_s(known))
            if charge.polled:
                charge.unheard = True
                charge.look_by(boottime_s() + POLL_EVERY_S)

    def _look_in_workdir(self, charge: TaskFiles, saves_with_us: bool, left_out: list[str]) -> dict[str, Signature]:
        """What is kept of the working directory. Of a job that saves in our directory, only what it asked for."""
        workdir = charge.workdir
        if workdir is None:
            return {}
        workdir.off = workdir.kept_by_another or (saves_with_us and not workdir.note.dirs)
        if workdir.off:
            return {}
        if not workdir.scanned or (charge.end and workdir.unwatched):
            workdir.scan(lambda path: self.watcher.watch_one(charge.key, WORKDIR, workdir.cwd, path))
            self.events.wake()
            charge.unheard = True  # Of what was there before we looked.
            charge.polled = charge.polled or workdir.unwatched
        tree = workdir.tree(left_out)
        left_out += filter(None, [workdir.trouble])
        return tree

    def _examine(self, charge: TaskFiles, tree: completeness.Tree) -> None:
        """Look into files whose closing nobody may have heard: the agent was dead, or the kernel lost count."""
        charge.unheard = False
        known, now = charge.knowledge, boottime_s()
        for path, signature in sorted(tree.items(), key=lambda each: each[1][1]):  # As they were written.
            if completeness.is_known(known, path, signature):
                continue
            verdict = charge.inspector.format(path)
            over = bool(charge.end) or not staged_files.is_written(charge.file_of(path))
            if verdict == WHOLE and over:
                completeness.closed(known, path, Closed(signature, now, completeness.CLOSED, whole=True))
            elif charge.end:
                completeness.left_open(known, path, now)
            elif verdict == completeness.CUT and over and path in known.kept:
                completeness.closed_in_vain(known, path, now)  # Its writer died in it: what is beside it is not a save.

    def _copy_grown(self, charge: TaskFiles, path: str) -> None:
        """Take a file that its job keeps open, where its format says that what is there is whole: it only grows."""
        file = charge.file_of(path)
        charge.look_by(boottime_s() + OPEN_EVERY_S)
        if charge.inspector.format(path) != WHOLE:
            return  # In the middle of a large file, mostly: a copy of that is of no use.
        if not staged_files.is_written(file):
            return  # It is closed, and the news of that is on the way: taken twice, it would end its save too early.
        try:
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            source = staged_files.put_by(file, fd, f"{charge.directory}/{STAGED}", staged_files.COPY)
            charge.copies.add(source)
            found, of_source = staged_files.signature_at(file), staged_files.signature_at(source)
        except OSError:
            return  # Tried again soon.
        finally:
            os.close(fd)
        if file_formats.check(source).verdict == WHOLE:
            at_s = boottime_s()
            what = Closed((of_source[0], *found[1:]), at_s, completeness.SETTLED, True, source, of_source)
            completeness.closed(charge.knowledge, path, what)
            completeness.left_open(charge.knowledge, path, at_s)

    def _put_by(self, charge: TaskFiles) -> None:
        """Whether what it closes is put by. Where storing is as quick as copying, only what cannot be stored at once:
        a first save, beside which more may come, what nobody can tell to be whole, and all where it was too slow.
        """
        known = charge.knowledge
        if known.declares or known.marker:
            how = NEVER
        elif self.objects.nearby and not known.overtaken:
            how = UNSURE if known.rounds.usual else staged_files.COPY
        else:
            how = staged_files.COPY if charge.rewrites or known.overtaken or not known.kept else staged_files.LINK
        self.events.put_by[charge.key] = how

    def _keep(self, charge: TaskFiles, snapshot: completeness.Snapshot) -> None:
        begin_s = boottime_s()
        prefix, key = charge.next_names(snapshot.step)
        at = time.time()
        try:
            known = charge.known_in(self.objects.mark)
            if charge.end:
                self._count_stored(charge, known, sum(each[0] for each in snapshot.files.values()))
            files = {path: each for path, each in snapshot.files.items() if known.has(path, each, snapshot.before)}
            sources: dict[str, tuple[str, Signature | None]]
            sources = {path: (charge.file_of(path), None) for path in files if path.startswith(PREFIX)}
            sources.update((path, (each.source, each.source_signature)) for path, each in snapshot.sources.items())
            entries, sent = send_files(self.objects, prefix, charge.checkpoints, files, known, sources)
            manifest = charge.manifest(snapshot, entries, at)
            put(self.objects, key, sealed(json.dumps(manifest, separators=(",", ":")).encode()))
        except Changed as change:
            self._log.say("changed while it was read", task=charge.key, detail=str(change))
            charge.look_at_s = boottime_s() + AGAIN_S
            completeness.overtaken(charge.knowledge, charge.is_as_it_was)
            return
        except StoreRefused as refusal:
            self._trouble(f"checkpoints {charge.key}", str(refusal))
            return  # Nothing of this attempt is wanted any more.
        except (StoreFailed, OSError) as problem:
            self._later(charge)
            charge.look_at_s = boottime_s() + charge.backoff_s
            self._trouble(f"checkpoints {charge.key}", f"checkpoints {WAIT}: {problem}")
            return
        charge.backoff_s = 0.0
        size = sum(entry["size"] for entry in entries)
        report, saved_s = charge.report_of(snapshot, key, len(entries), size, at, self.objects.mark), None
        if snapshot.written_ns:
            saved_s = boottime_s() - max(0.0, time.time() - snapshot.written_ns / 1e9)
        charge.keep(snapshot, entries, report, saved_s)
        self._tell(CheckpointStored(charge.key, report, saved_s))
        self._trouble(f"checkpoints {charge.key}", "")
        took_s = round(boottime_s() - begin_s, 3)
        self._log.say("checkpoint stored", task=charge.key, step=snapshot.step, how=snapshot.how, sent=sent, s=took_s)

    def _later(self, charge: TaskFiles) -> None:
        most_s = ENDING_BACKOFF_S_MAX if charge.end else BACKOFF_S_MAX
        charge.backoff_s = min(most_s, max(BACKOFF_S_MIN, charge.backoff_s * 2))

    def _trouble(self, what: str, detail: str) -> None:
        if self._troubled.get(what, "") != detail:
            self._troubled[what] = detail
            self._tell(Troubled(what, detail[:TROUBLE_CHARS_MAX]))
            if not detail:
                del self._troubled[what]

    # --- what the SDK wrote ---

    def _read_sdk(self, charge: TaskFiles) -> None:
        now = boottime_s()
        if charge.sdk_at_s is None or (charge.sdk_at_s > now and not charge.end):
            return
        charge.sdk_at_s = now + SDK_EVERY_S if os.path.isdir(f"{charge.directory}/sdk") else None
        sdk_lines.read_metrics(charge)
        if sdk_lines.read_declared(charge):
            charge.look_at_s = 0.0
        # No more often than the server hears of it: each telling wakes the main loop, while the ranks want to work.
        if charge.end or now - charge.step_said_s >= STEPS_EVERY_S:
            self._tell_step(charge)

    def _tell_step(self, charge: TaskFiles) -> None:
        news = charge.step_news()
        if news is not None:
            charge.step_said_s = boottime_s()
            self._tell(news)

    # --- artifacts ---

    def _artifacts(self, charge: TaskFiles) -> None:
        charge.artifacts_at_s = None if charge.end else boottime_s() + charge.artifacts_every_s
        left_out: list[str] = []
        waiting: list[str] = []
        problem = ""
        found = sorted(artifacts.found(charge, left_out).items())
        if charge.end:
            had = sum(each[0] for name, (_, each) in found if charge.artifacts.get(name) == each)
            charge.left.next_try(charge.left.checkpoint_bytes + had, outputs=sum(each[1][0] for _, each in found))
        for name, (file, signature) in found:
            if charge.artifacts.get(name) == signature or not (charge.end or artifacts.quiet(signature, time.time())):
                continue
            if waiting and not self.objects.nearby:
                waiting.append(name)  # The way to storage is closed for all of them.
                continue
            try:
                self._artifact(charge, name, file, signature)
            except Changed as change:
                left_out.append(f"{change}, and {UNKEPT}" if charge.end else str(change))
            except StoreRefused as refusal:
                left_out, waiting = [str(refusal)], []
                break
            except (StoreFailed, OSError) as failure:
                waiting.append(name)  # On a disk that is full there may be room for a smaller one.
                problem = problem or str(failure)
            if not charge.end and any(each.end or each.noticed for each in self._charges.values()):
                charge.artifacts_at_s = boottime_s()  # Checkpoints go first; the rest of these comes after.
                break
        if waiting:
            self._later(charge)
            charge.artifacts_at_s = boottime_s() + charge.backoff_s
            left_out.insert(0, artifacts.waiting_sentence(waiting, problem))
        self._trouble(f"outputs {charge.key}", "; ".join(left_out))

    def _artifact(self, charge: TaskFiles, name: str, file: str, signature: completeness.Signature) -> None:
        for number in range(CHANGED_TRIES):
            try:
                told = artifacts.store(self.objects, charge, name, file, signature, partial(self._gets_on, charge))
                break
            except Changed:
                if not charge.end or number == CHANGED_TRIES - 1:
                    raise
        self.objects.settle()
        charge.artifacts[name] = signature
        self._tell(ArtifactStored(charge.key, told))

    def _count_stored(self, charge: TaskFiles, known: Known, size: int) -> None:
        """Count what arrives of the last checkpoint."""
        charge.left.next_try(0, checkpoint=size)
        noted = known.on_stored

        def stored(places: dict[str, Place]) -> None:
            noted(places)
            self._gets_on(charge, sum(each[2] for each in places.values()))

        known.on_stored = stored

    def _gets_on(self, charge: TaskFiles, count: int) -> None:
        """Tell who waits for the end of a task how far its files have come."""
        charge.left.stored_bytes += count
        now = boottime_s()
        if charge.end and now - charge.left.said_s >= GETTING_ON_EVERY_S:
            charge.left.said_s = now
            self._tell(Salvaging(charge.key, min(charge.left.stored_bytes, charge.left.total), charge.left.total))
