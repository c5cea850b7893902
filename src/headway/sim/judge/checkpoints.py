"""Simulated checkpoints: what ranks save on a machine's disk, and the judge's own record of what was kept of it.

A rank makes a step a second, saves every few seconds as is its habit (node/habits.py), and once more when it cleans up
on a notice. How an agent finds that and stores it is in node/uploader.py. Chance comes from a source of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.core.model import Job, JobId
from headway.sim.node.files import Directory, HeldFile
from headway.sim.node.habits import GROWING, NUMBERED, Habit
from headway.store.protocol import Batch, Store
from headway_wire.claim import Resume
from headway_wire.sync import StoredCheckpoint
from headway_wire.tasks import split_key

if TYPE_CHECKING:
    from headway.sim.node.machine import Machine, Process
    from headway.sim.run import Simulation
    from headway_agent.checkpoints.completeness import Signature

EVERY_S = (0, 0, 0, 5, 15, 25)
KNOWN_WITHIN_S = 60.0  # So soon nodes that are in contact have answered who of a gang saves.
SALVAGED_WITHIN_S = 55.0  # After a notice: later the agent may give up and tell the end without the last checkpoint.
OVERWRITTEN_S = 4.0  # What is written over sooner had no time to be kept.
FIRST_S = 5.0  # A first save is known not to be half of one when so much time passes before a rank fails.
KEPT_WITHIN_S = 16.0  # After a save, where nothing comes between: what settles has to stand still for most of it.


@dataclass
class KeptCheckpoint:
    """What is noted beside a task's directory of what was stored last, in the words of
    headway_agent/files/task_files.py.
    """

    step: int
    how: str
    files: dict[str, tuple[Signature, HeldFile]]
    report: StoredCheckpoint | None = None
    storage: str = ""  # The mark of the place in which that is.
    habits: list[str] = field(default_factory=list)
    unit: str = ""
    usual: dict[str, int] = field(default_factory=dict)


@dataclass
class Saved:
    """The checkpoint directory of one task, and beside it what its agents remember."""

    habit: Habit = field(default_factory=Habit)
    restored: int = 0
    newest: int = 0  # The newest that was really finished.
    late: bool = False  # It was saved on a notice.
    directory: Directory = field(default_factory=Directory)
    kept: KeptCheckpoint | None = None
    upsets: list[int] = field(default_factory=list)  # How often the machine was upset when each save began.
    begun: int = 0  # The newest that was begun,
    begun_at: float = 0.0  # and when; and when one was finished last.
    finished_at: float = 0.0

    def written_over_within(self, seconds: float) -> bool:
        """Whether the next save began so soon after the newest that was finished: perhaps at once, after a sleep."""
        return self.begun > self.newest and self.begun_at < self.finished_at + seconds


class Checkpoints:
    """What really happened to checkpoints, as an onlooker saw it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.saved: dict[str, set[int]] = defaultdict(set)  # By task: steps that were really finished.
        self.committed: dict[JobId, dict[tuple[int, int], set[int]]] = defaultdict(dict)  # (attempt, step): tasks.
        self.times: dict[JobId, dict[tuple[int, int], float]] = defaultdict(dict)  # (attempt, step): when, at last.
        self.promised: dict[JobId, dict[int, int]] = defaultdict(dict)  # By attempt: what the server says is kept.
        self.noticed: dict[tuple[JobId, int], tuple[float, int]] = {}  # When and what a lone task saved on notice.
        self.restores = 0
        self.manifests: dict[str, tuple[Habit, KeptCheckpoint]] = {}  # By key: what really lies there.
        self.progress: dict[tuple[JobId, int, int], int] = defaultdict(int)  # By task: the furthest committed save.
        self.reached: dict[JobId, dict[int, int]] = defaultdict(dict)  # Of lone tasks, by attempt: the furthest of all.

    def finished(self, machine: Machine, process: Process, step: int, on_notice: bool) -> None:
        self.saved[process.task].add(step)
        job, attempt, _ = split_key(process.task)
        heard = machine.upset == machine.disk.saved[process.task].upsets[-1]
        if on_notice and heard and self.simulation.oracle.jobs[job].spec.nodes == 1:
            self.noticed[job, attempt] = (self.world.now, step)
        self.world.tell(job, f"step {step} of {process.task} was saved")
        within_s = KEPT_WITHIN_S * (2 if process.script.habit.several else 1)
        self.world.after(within_s, self._kept_by_now, machine, process.task, step)

    def _kept_by_now(self, machine: Machine, task: str, step: int) -> None:
        """What was finished, and had time, is in storage, or something newer is."""
        saved = machine.disk.saved.get(task)
        alive = any(process.task == task and not process.orphan for process in machine.processes.values())
        if saved is None or not alive or not machine.up or machine.agent is None:
            return
        # Where several files are saved together, it must be known first with which a save begins.
        since = saved.upsets[-6 if saved.habit.several else -3 :] or [-1]
        calm = machine.upset == since[0] and not self.simulation.storage.broken
        if saved.habit.way == GROWING and not saved.habit.known:
            return  # It must stand still first, and perhaps never does.
        if task in machine.disk.failures:
            return  # What ranks save that live on after one has failed may be what failed.
        if len(machine.disk.saved) > 2:
            return  # Those who are in front of it may take long.
        if calm and machine.agent.mark == self.simulation.storage.mark and self._progress(saved) < step:
            said = f"step {step} of {task} was saved a while ago"
            self.simulation.oracle.breaks(split_key(task)[0], f"{said}, and {self._progress(saved)} is kept of it")

    def _progress(self, saved: Saved) -> int:
        """The step from which a script would go on with what was stored last."""
        return saved.habit.loads({path: held for path, (_, held) in saved.kept.files.items()})[0] if saved.kept else 0

    def salvaged(self, machine: Machine, task: str, end: str) -> None:
        """An agent says that all that could be kept of a task is kept."""
        saved = machine.disk.saved.get(task)
        if saved is None:
            return
        calm = machine.upset == (saved.upsets[-2:] or [-1])[0] and not self.simulation.storage.broken
        if saved.habit.known and not saved.habit.several and saved.kept is not None:
            calm = not self.simulation.storage.broken  # Whoever looks finds it whole.
        failed_at = machine.disk.failures.get(task, self.world.now)
        first = saved.kept is None or saved.kept.report is None
        patient = failed_at > saved.finished_at + FIRST_S and (saved.habit.known or saved.habit.way != GROWING)
        sure = end in ("well", "notice") or (saved.habit.known and not first) or patient
        here = machine.agent is not None and machine.agent.mark == self.simulation.storage.mark
        had_time = not saved.written_over_within(OVERWRITTEN_S)
        if calm and sure and here and had_time and self._progress(saved) < saved.newest:
            said = f"{task} ended ({end}) after it saved step {saved.newest}"
            self.simulation.oracle.breaks(split_key(task)[0], f"{said}, and {self._progress(saved)} was kept of it")

    def stored(self, task: str, habit: Habit, key: str, kept: KeptCheckpoint) -> None:
        """An agent has put a checkpoint into storage, and is about to tell of it."""
        self.manifests[key] = (habit, kept)
        job = split_key(task)[0]
        step, problem = habit.loads({path: held for path, (_, held) in kept.files.items()})
        self.world.tell(job, f"step {kept.step} of {task} was stored ({kept.how}), of which step {step} can be loaded")
        if problem:
            self.simulation.oracle.breaks(job, f"step {kept.step} of {task} was stored ({kept.how}): {problem}")
        told = habit.known or habit.way in NUMBERED
        if told and kept.step != step:
            self.simulation.oracle.breaks(job, f"step {step} of {task} was stored as step {kept.step}")

    def commits(self, batch: Batch, store: Store) -> None:
        """Judge what a save has made of checkpoints, before the jobs in it are looked at."""
        oracle = self.simulation.oracle
        for change in batch.jobs:
            attempt = change.job.attempt
            if attempt is not None and attempt.committed_step is not None:
                self.promised[change.job.id][attempt.number] = attempt.committed_step
        for each in batch.files.checkpoints if batch.files else ():
            if (each.id, each.key) not in [(there.id, there.key) for there in store.checkpoints(each.job)]:
                continue  # The store's own fence left it out.
            if each.attempt == 0:  # A new job that begins where another one was.
                self.committed[each.job].setdefault((0, each.step), set()).add(each.task)
                continue
            before = oracle.jobs.get(each.job)
            author = int(each.key.split("/")[2])
            if before is not None and (author < before.number or before.state.ended):
                said = f"attempt {author} of {each.job} committed step {each.step} when {before.number} was the newest"
                oracle.breaks(each.job, f"a checkpoint from an old attempt: {said}")
            if each.key not in self.simulation.storage.objects:
                oracle.breaks(each.job, f"step {each.step} of {each.job} was committed, and {each.key} is not stored")
            self._reached(each.job, author, each.task, each.key)
            self.committed[each.job].setdefault((author, each.step), set()).add(each.task)
            self.times[each.job][author, each.step] = self.world.now
            self.world.tell(each.job, f"step {each.step} of task {each.task} of attempt {author} was committed")

    def whole(self, job: Job, attempt: int) -> int:
        """The newest step of which an attempt committed all shares, as far as anybody could know; 0 where none is."""
        if len(self.simulation.workload.savers(job)) < job.spec.nodes and attempt:
            return self.promised[job.id].get(attempt, 0)
        return max((step for of, step in self._wholes(job) if of == attempt), default=0)

    def _wholes(self, job: Job) -> list[tuple[int, int]]:
        savers = self.simulation.workload.savers(job)
        return [of_step for of_step, tasks in self.committed[job.id].items() if tasks >= savers]

    def _reached(self, job: JobId, attempt: int, task: int, key: str) -> None:
        if key in self.manifests:
            reached = self.progress_in(key)
            self.progress[job, attempt, task] = max(reached, self.progress[job, attempt, task])
            if self.simulation.oracle.jobs[job].spec.nodes == 1:
                self.reached[job][attempt] = max(self.reached[job].get(attempt, 0), reached)

    def progress_in(self, key: str) -> int:
        habit, kept = self.manifests[key]
        return habit.loads({path: held for path, (_, held) in kept.files.items()})[0]

    def restored(self, task: str, resume: Resume | None) -> Saved:
        """A task is about to begin from this checkpoint. Returns the directory that it finds."""
        job, attempt, index = split_key(task)
        oracle = self.simulation.oracle
        step = resume.step if resume else 0
        self._newest(oracle.jobs[job], attempt, step)
        if resume:
            self._given_back(oracle.jobs[job], attempt, index, resume)
        progress = self.progress_in(resume.key) if resume else 0
        reached = max((each for of, each in self.reached[job].items() if of < attempt), default=0)
        if progress < reached:
            said = f"attempt {attempt} of {job} begins from a save of step {progress}"
            oracle.breaks(job, f"{said}, and one of step {reached} was committed: its order is wrong")
        self.restores += bool(step)
        at, kept = self.noticed.get((job, attempt - 1), (0.0, 0))
        before = oracle.real.get((job, attempt - 1))
        quick = at and self.world.now - at < SALVAGED_WITHIN_S and before is not None and not before.failed
        if quick and progress < kept and oracle.undisturbed(job, attempt - 1):
            said = f"attempt {attempt - 1} of {job} saved step {kept} on its notice"
            oracle.breaks(job, f"{said}, and {progress} was kept")
        return self._filled(task, step, progress, resume.key if resume and resume.own else "")

    def _filled(self, task: str, step: int, progress: int, key: str) -> Saved:
        """A directory with its own files of a checkpoint in it, and the note that the restore leaves."""
        saved = Saved(self.simulation.workload.habit(task), progress, progress)
        if key:
            _, kept = self.manifests[key]
            for path, (_, held) in kept.files.items():
                saved.directory.put(path, held, self.world.now)
            tree = saved.directory.tree()
            files = {path: (tree[path], held) for path, (_, held) in kept.files.items()}
            saved.kept = KeptCheckpoint(step, kept.how, files, unit=kept.unit, usual=dict(kept.usual))
        return saved

    def _newest(self, job: Job, attempt: int, step: int) -> None:
        """Judge from which step an attempt begins: one that all who save have, and none that is older than promised."""
        oracle, said = self.simulation.oracle, f"attempt {attempt} of {job.id} begins from step {step}"
        before = [(of, at) for of, at in self._wholes(job) if of < attempt]
        newest = max((at for _, at in before), default=0)
        if len(self.simulation.workload.savers(job)) == job.spec.nodes:
            if step != newest and not oracle.ran_apart(job.id, attempt):
                oracle.breaks(job.id, f"{said}; the newest that was committed is {newest}")
            return
        if step and step not in [at for _, at in before]:
            oracle.breaks(job.id, f"{said}, which not all have that save")
        promised = max((at for of, at in self.promised[job.id].items() if of < attempt), default=0)
        # Who saves was known by then: two saves had come, or it ended with all its nodes in contact.
        known = [at for of, at in before if self._was_known(job, of, at)]
        if step < max(promised, *known, 0):
            oracle.breaks(job.id, f"{said}; step {max(promised, *known, 0)} was kept")

    def _was_known(self, job: Job, attempt: int, step: int) -> bool:
        """Whether it cannot have been open who saves: something was promised before, or there was time to ask."""
        if attempt == 0 or any(of < attempt for of in self.promised[job.id]):
            return True
        times = self.times[job.id]
        later = [at for (of, other), at in times.items() if of == attempt and other > step]
        agents = self.simulation.oracle.agents_lived(job.id, attempt)
        asked = bool(later) and max(later) - times[attempt, step] > KNOWN_WITHIN_S
        return asked and agents and self.simulation.oracle.undisturbed(job.id, attempt)

    def _given_back(self, job: Job, attempt: int, index: int, resume: Resume) -> None:
        """Judge what a task begins with: its own share as its own, and those of all others that save."""
        oracle, objects = self.simulation.oracle, self.simulation.storage.objects
        authors: list[int] = []
        for key in (resume.key, *resume.others):
            if key not in objects:
                oracle.breaks(job.id, f"attempt {attempt} of {job.id} begins from {key}, which is not stored")
            authors.append(split_key(objects[key][0][0])[2])
        savers = self.simulation.workload.savers(job)
        if not savers <= set(authors) and not oracle.ran_apart(job.id, attempt):
            lacks = sorted(savers - set(authors))
            oracle.breaks(job.id, f"task {index} of {job.id} is restored without what task {lacks[0]} saved")
        if (authors[0] == index) != resume.own:
            oracle.breaks(job.id, f"task {index} of {job.id} is given the files of task {authors[0]} as its own")
