"""A simulated agent's keeping of files: the real knowledge of what is finished, over simulated files and events.

It mirrors headway_agent/files/file_events.py and files/uploader.py: hears (late, and sometimes not at all), puts by,
looks, stores. What it knows dies with the agent; what was kept is noted on the disk. Chance comes from a source of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from headway.sim.judge.checkpoints import KeptCheckpoint, Saved
from headway.sim.node import file_news
from headway.sim.node.file_news import SimCaught, SimSeen
from headway.sim.node.files import File, HeldFile
from headway.sim.node.habits import SHARDS
from headway.sim.server.storage import StorageBroken
from headway_agent.checkpoints import completeness
from headway_agent.checkpoints.completeness import Inspector, Knowledge, Snapshot
from headway_agent.checkpoints.rounds import Closed
from headway_agent.checkpoints.step_names import NamedStep, step_in
from headway_wire.kinds import replace
from headway_wire.sync import StoredCheckpoint

if TYPE_CHECKING:
    from headway.sim.node.agent import SimAgent
    from headway_agent.checkpoints.completeness import Signature

GATHER_S = 0.05
AGAIN_S = 0.2
OPEN_EVERY_S = 2.0
HEARS_AFTER_S = ((0.01, 0.05), (0.01, 0.05), (0.01, 0.05), (0.05, 0.3))
COPIES_IN_S = ((0.0, 0.01), (0.01, 0.3))
COPY, LINK, UNSURE, NEVER = "copy", "link", "unsure", "never"
WHOLE, CUT, UNKNOWN = completeness.WHOLE, completeness.CUT, completeness.UNKNOWN


@dataclass
class SimTaskFiles:
    """What an agent knows of one task's files."""

    key: str
    saved: Saved
    knowledge: Knowledge
    copies: dict[str, File] = field(default_factory=dict)  # Put by, by name; a link is the file itself.
    put_by: str = COPY
    folders: set[str] = field(default_factory=lambda: {""})  # Those that are watched.
    read_to: int = 0
    unheard: bool = True
    rewrites: bool = False
    again: bool = False
    end: str = ""
    look_at_s: float | None = None


class SimLook(Inspector):
    """What a look into a simulated file tells: whether it is whole, and its step, where its format is known."""

    def __init__(self, charge: SimTaskFiles) -> None:
        self.charge = charge

    def format(self, path: str) -> str:
        file = self.charge.saved.directory.files.get(path)
        return self.verdict(file.held) if file else CUT

    def verdict(self, held: HeldFile) -> str:
        if not self.charge.saved.habit.known:
            return UNKNOWN
        return WHOLE if held.whole else CUT

    def folder(self, path: str, files: Mapping[str, int]) -> str:
        if self.charge.saved.habit.way != SHARDS:
            return UNKNOWN
        whole = {name: self.format(f"{path}/{name}") == WHOLE for name in files}
        return WHOLE if len(whole) > 1 and all(whole.values()) else CUT

    def step(self, path: str) -> NamedStep | None:
        closed, file = self.charge.knowledge.due.get(path), self.charge.saved.directory.files.get(path)
        file = self.charge.copies.get(closed.source) if closed and closed.source else file
        return NamedStep("step", file.held.step) if self.charge.saved.habit.known and file else None


class SimUploader:
    def __init__(self, of: SimAgent) -> None:
        self.agent, self.machine = of, of.machine
        self.simulation = of.simulation
        self.chance = Random(f"{of.machine.world.seed} {of.machine.name} {of.machine.disk.agent_epoch}")
        self._charges: dict[str, SimTaskFiles] = {}
        self._events: list[SimSeen] = []
        self._told: list[SimSeen | SimCaught] = []  # What was heard while it stored.
        self._hearing = self._copying = False
        self._storing = False
        self._numbers = 0
        self._alive: dict[str, set[int]] = {}

    def attend(self, key: str) -> SimTaskFiles | None:
        """Take a task up, as its disk tells of it."""
        charge, saved = self._charges.get(key), self.machine.disk.saved.get(key)
        if charge is None and saved is not None:
            charge = self._charges[key] = SimTaskFiles(key, saved, Knowledge(completeness.SETTLE_S, saved.habit.marker))
            charge.folders |= {path.rpartition("/")[0] for path in saved.directory.files}
            if saved.kept is not None:
                tree = {path: each[0] for path, each in saved.kept.files.items()}
                file_news.taken_up(charge.knowledge, vars(saved.kept), tree)
            if saved.kept is not None and saved.kept.report is not None:
                # Perhaps who was before us could not say it.
                self.agent.stored(replace(saved.kept.report, storage=saved.kept.storage))
            self._look_by(charge, self._now())
        return charge

    def forget(self, key: str) -> None:
        self._charges.pop(key, None)
        self._alive.pop(key, None)

    def keep_again(self, key: str) -> None:
        charge = self.attend(key)
        if charge is not None:
            charge.again = True
            self._look_by(charge, self._now())

    def failing(self, key: str, failed_s: float) -> None:
        charge = self._charges.get(key)
        if charge is not None and charge.knowledge.failed_s is None:
            charge.knowledge.failed_s = failed_s

    def salvage(self, key: str, end: str) -> None:
        """Its ranks are over: what is finished of it is stored, then it is said to be salvaged."""
        charge = self.attend(key)
        if charge is None:
            self.agent.salvaged(key)
            return
        charge.knowledge.rounds.abrupt = end == completeness.ABRUPT
        charge.put_by = NEVER  # Nobody writes to its files any more.
        charge.end, charge.unheard = (completeness.KILLED if end == completeness.ABRUPT else end), True
        self._look_by(charge, self._now())

    def _now(self) -> float:
        return self.machine.boottime()

    def _draw(self, ranges: tuple[tuple[float, float], ...]) -> float:
        return self.chance.uniform(*self.chance.choice(ranges))

    # --- hearing ---

    def happened(self, key: str, what: str, path: str) -> None:
        """The kernel tells of a file. Of what is in a folder that is not watched yet, it says nothing."""
        charge = self._charges.get(key)
        if charge is None or path.rpartition("/")[0] not in charge.folders:
            return
        if self.agent.world.happens(self.simulation.faults.events_lost):
            self._events = [SimSeen(each, file_news.MISSED) for each in self._charges]
            self.machine.upset += 1
        else:
            self._events.append(SimSeen(key, what, path))
        if not self._hearing:
            self._hearing = True
            self.machine.after(self._draw(HEARS_AFTER_S), self._turn)

    def _turn(self) -> None:
        """Begin to put by what was closed. It takes a moment, in which more may happen."""
        if not self.agent.alive() or self._copying:
            return
        puts_by = any(each.put_by in (COPY, UNSURE) for each in self._charges.values())
        self._hear(self._draw(COPIES_IN_S) if puts_by else 0.0)

    def _hear(self, takes_s: float = 0.0) -> None:
        events, self._events = self._watched(self._events), []
        began = {(each.task, each.path): self._found(each) for each in events}
        if takes_s:
            self._copying = True
            self.machine.after(takes_s, self._tell, events, began)
        else:
            self._tell(events, began)

    def _watched(self, events: list[SimSeen]) -> list[SimSeen]:
        """With what lies in folders that are only watched from now on."""
        found = []
        for each in events:
            found.append(each)
            charge = self._charges.get(each.task)
            if charge is not None and each.what == file_news.MADE:
                charge.folders.add(each.path)
                inside = [path for path in charge.saved.directory.files if path.startswith(each.path + "/")]
                found += [SimSeen(each.task, file_news.FOUND, path) for path in inside]
        return found

    def _found(self, seen: SimSeen) -> tuple[Signature, HeldFile, bool] | None:
        charge = self._charges.get(seen.task)
        file = charge.saved.directory.files.get(seen.path) if charge else None
        return (file.signature, file.held, file.writer is not None) if file else None

    def _tell(self, events: list[SimSeen], began: Mapping[tuple[str, str], Any]) -> None:
        if not self.agent.alive():
            return
        self._copying = False
        ended = self._ended({each.task for each in events})
        self._told += _in_order(events, lambda seen: self._catch(seen, began[seen.task, seen.path], ended))
        if not self._storing:
            self._take_in()
        self._hearing = bool(self._events)
        if self._events:
            self.machine.after(self._draw(HEARS_AFTER_S), self._turn)

    def _take_in(self) -> None:
        told, self._told = self._told, []
        now = self._now()
        for each in told:
            charge = self._charges.get(each.task)
            if charge is None:
                continue
            if isinstance(each, SimCaught):
                file_news.caught(charge.knowledge, each, self._inside(charge, each))
            else:
                rewrites = each.what in (file_news.WRITTEN, file_news.APPEARED, file_news.FOUND)
                charge.rewrites = charge.rewrites or (rewrites and each.path in charge.knowledge.kept)
                if each.what == file_news.MISSED:
                    charge.unheard = True
                    charge.folders |= {path.rpartition("/")[0] for path in charge.saved.directory.files}
                file_news.saw(charge.knowledge, each, now)
            self._look_by(charge, now + GATHER_S)

    def _inside(self, charge: SimTaskFiles, caught: SimCaught) -> tuple[str, int] | None:
        if not charge.saved.habit.known or caught.path in charge.knowledge.kept or step_in(caught.path) is not None:
            return None
        file = charge.copies.get(caught.source) or charge.saved.directory.files.get(caught.path)
        return NamedStep("step", file.held.step) if file else None

    def _ended(self, tasks: set[str]) -> set[str]:
        """The tasks of which a process has ended since they were asked for last."""
        ended = set()
        for task in tasks:
            alive = {pid for pid, process in self.machine.processes.items() if process.task == task}
            if self._alive.get(task, alive) - alive:
                ended.add(task)
            self._alive[task] = alive
        return ended

    def _catch(
        self, seen: SimSeen, began: tuple[Signature, HeldFile, bool] | None, ended: set[str]
    ) -> SimCaught | None:
        charge = self._charges.get(seen.task)
        file = charge.saved.directory.files.get(seen.path) if charge else None
        if charge is None or file is None or began is None or completeness.is_half_written(seen.path):
            return None
        signature, held, written = began
        verdict = SimLook(charge).verdict(held)
        if written:
            return None
        source, of_source, how = "", (0, 0, 0), charge.put_by
        if how != NEVER and verdict != CUT and not (how == UNSURE and verdict == WHOLE):
            source, of_source = self._put_by(charge, file, signature, how)
        if not file_news.is_as_closed(signature, file.signature, of_source):
            return None
        doubtful = verdict == UNKNOWN and seen.task in ended
        alive = not doubtful and seen.task not in self.machine.disk.failures
        return SimCaught(seen.task, seen.path, signature, self._now(), verdict, source, of_source, doubtful, alive)

    def _put_by(self, charge: SimTaskFiles, file: File, closed_as: Signature, how: str) -> tuple[str, Signature]:
        """A copy of it. What was written meanwhile is in it too, and then it is of neither save."""
        self._numbers += 1
        source = f"copy-{self._numbers}"
        held = file.held if file.signature == closed_as else HeldFile(file.held.step, False)
        copy = file if how == LINK else File(-self._numbers, held, file.size, file.changed_s)
        charge.copies[source] = copy
        return source, copy.signature

    def _choose_how(self, charge: SimTaskFiles) -> None:
        """As files/uploader.py's `_put_by` has it."""
        known = charge.knowledge
        if known.declares or known.marker:
            charge.put_by = NEVER
        elif self.simulation.nearby and not known.overtaken:
            charge.put_by = UNSURE if known.rounds.usual else COPY
        else:
            charge.put_by = COPY if charge.rewrites or known.overtaken or not known.kept else LINK

    # --- looking ---

    def _look_by(self, charge: SimTaskFiles, at_s: float | None) -> None:
        if at_s is not None and (charge.look_at_s is None or at_s < charge.look_at_s):
            charge.look_at_s = at_s
            self.machine.after(max(0.0, at_s - self._now()) + 1e-6, self._look, charge, at_s)

    def _look(self, charge: SimTaskFiles, at_s: float) -> None:
        if not self.agent.alive() or charge.look_at_s != at_s or self._charges.get(charge.key) is not charge:
            return
        charge.look_at_s = None
        if charge.end and self._events and not self._copying:
            self._turn()
        if (charge.end and self._copying) or self._storing or self.agent.mark is None:
            self._look_by(charge, self._now() + AGAIN_S)
            return
        known, directory, now = charge.knowledge, charge.saved.directory, self._now()
        self._read_declared(charge)
        tree = directory.tree()
        if charge.unheard:
            charge.unheard = False
            written = {path for path, file in directory.files.items() if file.writer is not None}
            file_news.examine(known, tree, now, bool(charge.end), SimLook(charge), written)
        for path in () if charge.end else completeness.held_open(known, tree, now):
            self._copy_grown(charge, path)
        still_s = self._still_s(charge) if charge.end else {}
        snapshot = completeness.look(known, tree, now, charge.end or completeness.ALIVE, still_s, SimLook(charge))
        if snapshot is None and charge.again:
            snapshot = self._kept_last(charge, tree)
            charge.again = snapshot is not None
        if snapshot is not None:
            self._store(charge, snapshot)
        elif charge.end:
            self.agent.salvaged(charge.key, charge.end)
        self._go_on(charge)

    def _go_on(self, charge: SimTaskFiles) -> None:
        if not self._storing:
            needed = completeness.sources_needed(charge.knowledge)
            needed |= {each.source for each in self._told if isinstance(each, SimCaught)}
            charge.copies = {source: file for source, file in charge.copies.items() if source in needed}
        if not charge.end:
            self._choose_how(charge)
            self._look_by(charge, completeness.next_look_s(charge.knowledge))

    def _read_declared(self, charge: SimTaskFiles) -> None:
        for path, step, newest_ns in charge.saved.directory.declared[charge.read_to :]:
            completeness.declared(charge.knowledge, path, step, {}, newest_ns)
        charge.read_to = len(charge.saved.directory.declared)

    def _still_s(self, charge: SimTaskFiles) -> dict[str, float]:
        failed_at = self.machine.disk.failures.get(charge.key)
        if failed_at is None:
            return {}
        return {path: failed_at - file.changed_s for path, file in charge.saved.directory.files.items()}

    def _copy_grown(self, charge: SimTaskFiles, path: str) -> None:
        file = charge.saved.directory.files[path]
        self._look_by(charge, self._now() + OPEN_EVERY_S)
        if SimLook(charge).verdict(file.held) != WHOLE or file.writer is None:
            return
        source, of_source = self._put_by(charge, file, file.signature, COPY)
        what = Closed(file.signature, self._now(), completeness.SETTLED, True, source, of_source)
        completeness.closed(charge.knowledge, path, what)
        completeness.left_open(charge.knowledge, path, self._now())

    def _kept_last(self, charge: SimTaskFiles, tree: Mapping[str, Signature]) -> Snapshot | None:
        files, kept = {path: each[0] for path, each in charge.knowledge.kept.items()}, charge.saved.kept
        if kept is None or kept.report is None or any(tree.get(path) != each for path, each in files.items()):
            return None
        return Snapshot(files, kept.step, kept.how, tuple(files), {}, kept.unit)

    # --- storing ---

    def _store(self, charge: SimTaskFiles, snapshot: Snapshot) -> None:
        self._storing = True
        read, found = self._read(charge, snapshot)
        takes_s = self.chance.uniform(0.02, 0.3) if self.simulation.nearby else self.chance.uniform(0.05, 2.0)
        self.machine.after(takes_s, self._stored, charge, snapshot, read, found, self.agent.mark)

    def _read(self, charge: SimTaskFiles, snapshot: Snapshot) -> tuple[dict[str, HeldFile], dict[str, Signature]]:
        """What each file of a snapshot holds as it is read, and the signatures of those that are read in place."""
        cached = charge.saved.kept.files if charge.saved.kept else {}
        read: dict[str, HeldFile] = {}
        found: dict[str, Signature] = {}
        for path, signature in snapshot.files.items():
            file, source = charge.saved.directory.files.get(path), snapshot.sources.get(path)
            if path in cached and cached[path][0] == signature:
                read[path] = cached[path][1]  # Its parts lie in storage.
            elif path in snapshot.before:
                continue
            elif source is not None:
                read[path] = charge.copies[source.source].held
            elif file is not None:
                read[path], found[path] = file.held, file.signature
            else:
                found[path] = (0, 0, 0)
        return read, found

    def _stored(
        self,
        charge: SimTaskFiles,
        snapshot: Snapshot,
        read: dict[str, HeldFile],
        found: dict[str, Signature],
        mark: str,
    ) -> None:
        if not self.agent.alive():
            return
        self._storing = False
        if self._charges.get(charge.key) is charge:
            self._put(charge, snapshot, read, found, mark)
        self._take_in()

    def _put(
        self,
        charge: SimTaskFiles,
        snapshot: Snapshot,
        read: dict[str, HeldFile],
        found: dict[str, Signature],
        mark: str,
    ) -> None:
        files, sources = charge.saved.directory.files, snapshot.sources.values()
        changed = any(found[path] != snapshot.files[path] or path not in files for path in found)
        changed = changed or any(files[path].signature != found[path] for path in found)
        if changed or any(charge.copies[each.source].signature != each.source_signature for each in sources):
            completeness.overtaken(charge.knowledge, lambda path, closed: self._is_as_it_was(charge, path, closed))
            self._look_by(charge, self._now() + AGAIN_S)
            return
        key = self.agent.next_key(charge.key, snapshot.step)
        try:
            self.simulation.storage.put(key, {0: (charge.key, -1, "checkpoint", snapshot.step, snapshot.step)}, mark)
        except StorageBroken:
            self.agent.storage_failed()
            self._look_by(charge, self._now() + 1.0)
            return
        self._keep(charge, snapshot, read, key, mark)
        if charge.end:
            self._look_by(charge, self._now())
        self._go_on(charge)

    def _is_as_it_was(self, charge: SimTaskFiles, path: str, closed: Closed) -> bool:
        if closed.source:
            return charge.copies[closed.source].signature == closed.source_signature
        file = charge.saved.directory.files.get(path)
        return file is not None and file.signature == closed.signature

    def _keep(self, charge: SimTaskFiles, snapshot: Snapshot, read: dict[str, HeldFile], key: str, mark: str) -> None:
        known, saved = charge.knowledge, charge.saved
        completeness.kept(known, snapshot)
        charge.again = False
        report = StoredCheckpoint(
            charge.key,
            snapshot.step,
            key,
            snapshot.how,
            1,
            len(read),
            unit=snapshot.unit,
            late=saved.late,
            storage=mark,
        )
        files = {path: (snapshot.files[path], held) for path, held in read.items()}
        more = (sorted(known.habits), known.steps.unit, dict(known.rounds.usual))
        saved.kept = KeptCheckpoint(snapshot.step, snapshot.how, files, report, mark, *more)
        self.simulation.checkpoints.stored(charge.key, saved.habit, key, saved.kept)
        self.agent.stored(report)


def _in_order(seen: Sequence[SimSeen], catch: Callable[[SimSeen], SimCaught | None]) -> list[SimSeen | SimCaught]:
    """What to tell, in the order in which it happened; of a thousand writes to one file the first, and its last close.

    A close is caught while the file is as it was closed; one that comes too late to be of use is told as it is.
    """
    last = {(each.task, each.path): number for number, each in enumerate(seen)}
    told: list[SimSeen | SimCaught] = []
    written: set[SimSeen] = set()
    for number, each in enumerate(seen):
        newest = last[each.task, each.path] == number
        caught = catch(each) if newest and each.what in (file_news.CLOSED, file_news.FOUND) else None
        if each.what == file_news.WRITTEN and each in written:
            continue
        if caught is None or each.what == file_news.FOUND:
            told.append(each)
        if caught is not None:
            told.append(caught)
        if each.what == file_news.WRITTEN:
            written.add(each)
        elif each.what == file_news.CLOSED:
            written.discard(SimSeen(each.task, file_news.WRITTEN, each.path))
    return told
