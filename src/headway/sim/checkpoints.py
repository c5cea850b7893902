"""Simulated checkpoints: what ranks save on a machine's disk, and the judge's own record of what was kept of it.

A rank makes a step a second, saves every few seconds by an atomic rename, and once more when it cleans up on a notice.
How an agent stores that and tells of it is in agent.py. Chance comes from a source of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.core.model import Job, JobId, split_key
from headway.store.protocol import Batch, Store

if TYPE_CHECKING:
    from headway.sim.node import Process
    from headway.sim.run import Simulation

EVERY_S = (0, 0, 0, 5, 15, 25)
KNOWN_WITHIN_S = 60.0  # So soon nodes that are in contact have answered who of a gang saves.
SALVAGED_WITHIN_S = 55.0  # After a notice: later the agent may give up and tell the end without the last checkpoint.


@dataclass
class Saved:
    """The checkpoint directory of one task, and beside it what its agents remember."""

    restored: int = 0
    steps: list[int] = field(default_factory=list)
    stored: int = 0
    report: Mapping[str, Any] | None = None
    late: bool = False  # The newest was saved on a notice.
    storage: str = ""  # The mark of the place in which that is.

    @property
    def newest(self) -> int:
        return self.steps[-1] if self.steps else 0


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

    def finished(self, process: Process, step: int, on_notice: bool) -> None:
        self.saved[process.task].add(step)
        job, attempt, _ = split_key(process.task)
        if on_notice and self.simulation.oracle.jobs[job].spec.nodes == 1:
            self.noticed[job, attempt] = (self.world.now, step)

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
            if each.step not in self.saved[f"{each.job}/{author}/{each.task}"]:
                oracle.breaks(each.job, f"step {each.step} of {each.job} was committed, and never finished")
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

    def restored(self, task: str, resume: Mapping[str, Any] | None) -> int:
        """A task is about to begin from this checkpoint. Returns its step."""
        job, attempt, index = split_key(task)
        oracle = self.simulation.oracle
        step = int(resume["step"]) if resume else 0
        self._newest(oracle.jobs[job], attempt, step)
        if resume:
            self._given_back(oracle.jobs[job], attempt, index, resume)
        self.restores += bool(step)
        at, kept = self.noticed.get((job, attempt - 1), (0.0, 0))
        quick = at and self.world.now - at < SALVAGED_WITHIN_S
        if quick and step < kept and oracle.undisturbed(job, attempt - 1):
            oracle.breaks(job, f"attempt {attempt - 1} of {job} saved step {kept} on its notice, and {step} was kept")
        return step

    def _newest(self, job: Job, attempt: int, step: int) -> None:
        """Judge from which step an attempt begins: one that all who save have, and none that is older than promised."""
        oracle, said = self.simulation.oracle, f"attempt {attempt} of {job.id} begins from step {step}"
        before = [(of, at) for of, at in self._wholes(job) if of < attempt]
        newest = max((at for _, at in before), default=0)
        if len(self.simulation.workload.savers(job)) == job.spec.nodes:
            if step != newest:
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

    def _given_back(self, job: Job, attempt: int, index: int, resume: Mapping[str, Any]) -> None:
        """Judge what a task begins with: its own share as its own, and those of all others that save."""
        oracle, objects = self.simulation.oracle, self.simulation.storage.objects
        authors: list[int] = []
        for key in (resume["key"], *resume.get("others", ())):
            if key not in objects:
                oracle.breaks(job.id, f"attempt {attempt} of {job.id} begins from {key}, which is not stored")
            authors.append(split_key(objects[key][0][0])[2])
        savers = self.simulation.workload.savers(job)
        if not savers <= set(authors):
            lacks = sorted(savers - set(authors))
            oracle.breaks(job.id, f"task {index} of {job.id} is restored without what task {lacks[0]} saved")
        if (authors[0] == index) != resume.get("own", True):
            oracle.breaks(job.id, f"task {index} of {job.id} is given the files of task {authors[0]} as its own")
