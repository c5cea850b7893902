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
SALVAGED_WITHIN_S = 55.0  # After a notice: later the agent may give up and tell the end without the last checkpoint.


@dataclass
class Saved:
    """The checkpoint directory of one task, and beside it what its agents remember."""

    restored: int = 0
    steps: list[int] = field(default_factory=list)
    stored: int = 0
    report: Mapping[str, Any] | None = None
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
        for each in batch.files.checkpoints if batch.files else ():
            if each not in store.checkpoints(each.job):
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
            self.world.tell(each.job, f"step {each.step} of task {each.task} of attempt {author} was committed")

    def whole(self, job: Job, attempt: int) -> int:
        """The newest step of which an attempt committed all shares; 0 where there is none."""
        found = self.committed[job.id].items()
        return max((step for (of, step), tasks in found if of == attempt and len(tasks) == job.spec.nodes), default=0)

    def restored(self, task: str, resume: Mapping[str, Any] | None) -> int:
        """A task is about to begin from this checkpoint. Returns its step."""
        job, attempt, _ = split_key(task)
        oracle = self.simulation.oracle
        nodes = oracle.jobs[job].spec.nodes
        step = int(resume["step"]) if resume else 0
        whole = [at for (of, at), tasks in self.committed[job].items() if len(tasks) == nodes and of < attempt]
        if step != max(whole, default=0):
            said = f"attempt {attempt} of {job} begins from step {step}; the newest that was committed is"
            oracle.breaks(job, f"{said} {max(whole, default=0)}")
        if resume and resume["key"] not in self.simulation.storage.objects:
            oracle.breaks(job, f"attempt {attempt} of {job} begins from {resume['key']}, which is not stored")
        self.restores += bool(step)
        at, kept = self.noticed.get((job, attempt - 1), (0.0, 0))
        quick = at and self.world.now - at < SALVAGED_WITHIN_S
        if quick and step < kept and oracle.undisturbed(job, attempt - 1):
            oracle.breaks(job, f"attempt {attempt - 1} of {job} saved step {kept} on its notice, and {step} was kept")
        return step
