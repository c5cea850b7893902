"""Which checkpoint to resume from, which ones to keep, and when a gang's checkpoint is whole.

Choices over committed manifests, nothing else; who of a gang saves is found out in savers.py. That only the newest
attempt may commit is the fence's business (control/nodes/file_reports.py and the store), deleting bytes
control/files/garbage.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.model import JobId
from headway.core.spec.job import JobSpec
from headway.core.spec.program_words import CheckpointPolicy
from headway.core.steps import STEP, UNITS
from headway_wire.sync import HOW

COMMITTED = "committed"
SET_ASIDE = "set_aside"  # It failed its hash when it was restored: never used again.

AUTO, FIRST, ALL = "auto", "first", "all"  # Whose shares make a checkpoint, as a job may say it.

STEPS_SHOWN = 10
GROWING_MAX = 200  # Of one task: how many steps may wait for the shares of others.


@dataclass(frozen=True, slots=True)
class Gang:
    """How many tasks a job has, and whose shares its description says make a checkpoint."""

    tasks: int
    saved_by: str = AUTO

    @staticmethod
    def of(spec: JobSpec) -> Gang:
        return Gang(spec.nodes, spec.progress.checkpoint.saved_by)

    @property
    def everybody(self) -> frozenset[int]:
        return frozenset(range(self.tasks))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One task's share of a checkpoint: a manifest that was committed. Attempt 0: taken over from another job."""

    job: JobId
    attempt: int
    task: int
    step: int
    how: str
    key: str
    bytes: int = 0
    files: int = 0
    at: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)
    state: str = COMMITTED
    pinned: bool = False
    unit: str = STEP  # In what its step counts: step, epoch, or save where the job tells nothing.
    found: str = ""  # Where in its working directory the job saves, and whose habit that is; in words.
    sharded: bool = False  # Its files are named as shares of one whole: without the others they are nothing.
    savers: tuple[int, ...] = ()  # The tasks that save in its attempt, once it is known that the others do not.
    covers: tuple[int, ...] = ()  # Tasks that work in the same directory: what they save there is in it too.
    late: bool = False  # Saved when its ranks had been told to end, or one had failed: others may not have come to it.
    beside: bool = False  # Nothing but logs and the like, which a task writes that saves nothing.

    @property
    def id(self) -> tuple[JobId, int, int, int]:
        return (self.job, self.attempt, self.task, self.step)


@dataclass(frozen=True, slots=True)
class Whole:
    """All there is of one step of one attempt, in order of task."""

    attempt: int
    step: int
    parts: tuple[Checkpoint, ...]
    gang: Gang

    @property
    def needed(self) -> frozenset[int]:
        """The tasks without whose shares it is none."""
        if self.gang.saved_by == FIRST:
            return frozenset({0})
        known = [part.savers for part in self.parts if part.savers] if self.gang.saved_by == AUTO else []
        return frozenset(task for savers in known for task in savers) if known else self.gang.everybody

    @property
    def lacks(self) -> frozenset[int]:
        """The tasks whose shares it needs and has not; those that were set aside are there."""
        light = all(part.beside for part in self.parts)
        there = {task for part in self.parts if light or not part.beside for task in (part.task, *part.covers)}
        return self.needed - there

    @property
    def complete(self) -> bool:
        """Whether those who save have that step, none of it was set aside, and all of it counts the same."""
        return not self.lacks and len(self.units) <= 1 and not self.spoiled

    @property
    def spoiled(self) -> bool:
        return any(part.state == SET_ASIDE for part in self._counted)

    @property
    def units(self) -> frozenset[str]:
        """In what its steps count: several where the numbers are the same by chance only."""
        return frozenset(part.unit for part in self._counted)

    @property
    def _counted(self) -> Sequence[Checkpoint]:
        return [part for part in self.parts if part.task in self.needed] or self.parts

    def share_of(self, task: int) -> Checkpoint | None:
        """What this task itself has saved of it, and may be given back; of one that the first saves, its alone."""
        if self.gang.saved_by == FIRST and task:
            return None
        return next((part for part in self.parts if part.task == task and part.state == COMMITTED), None)

    @property
    def shares(self) -> list[Checkpoint]:
        """All that there is to give back of it, in order of task."""
        found = [self.share_of(part.task) for part in self.parts]
        return [part for part in found if part is not None]

    @property
    def how(self) -> str:
        """The weakest promise among the parts that it needs."""
        return min((part.how for part in self._counted), key=HOW.index)

    @property
    def unit(self) -> str:
        """What its step counts, by the task that knows it best."""
        known = [part.unit for part in self.parts]
        return next((unit for unit in UNITS if unit in known), known[0])

    @property
    def found(self) -> str:
        """Where its tasks save, in words; empty where that is the directory that they were given."""
        return "; ".join(dict.fromkeys(part.found for part in self.parts if part.found))

    @property
    def pinned(self) -> bool:
        return any(part.pinned for part in self.parts)

    @property
    def at(self) -> float:
        return max(part.at for part in self.parts)

    @property
    def metrics(self) -> dict[str, float]:
        """What its tasks said, the first one's word first."""
        return {name: value for part in reversed(self.parts) for name, value in part.metrics.items()}

    @property
    def rank(self) -> tuple[int, int, int, float]:
        """The larger, the better to resume from: the step, then how it is known, then the newer attempt."""
        return (self.step, HOW.index(self.how), self.attempt, self.at)


def gather(checkpoints: Iterable[Checkpoint], gang: Gang) -> list[Whole]:
    """Checkpoints by attempt and step, worst to resume from first."""
    groups: dict[tuple[int, int], list[Checkpoint]] = {}
    for each in checkpoints:
        groups.setdefault((each.attempt, each.step), []).append(each)
    wholes = [
        Whole(attempt, step, tuple(sorted(parts, key=lambda part: part.task)), gang)
        for (attempt, step), parts in groups.items()
    ]
    return sorted(wholes, key=lambda whole: whole.rank)


def newest(checkpoints: Iterable[Checkpoint], gang: Gang) -> Whole | None:
    """The checkpoint to resume from: of the complete ones the newest step, and of equals the best known."""
    complete = [whole for whole in gather(checkpoints, gang) if whole.complete]
    return complete[-1] if complete else None


def unit_of(checkpoints: Iterable[Checkpoint]) -> str:
    """What the steps of a job count: a job that tells more than one of them is told in the finest."""
    known = {each.unit for each in checkpoints}
    return next((unit for unit in UNITS if unit in known), STEP)


def at_step(checkpoints: Iterable[Checkpoint], gang: Gang, step: int) -> Whole | None:
    """The best complete checkpoint of exactly this step."""
    return newest((each for each in checkpoints if each.step == step), gang)


def steps_there(steps: Iterable[int]) -> str:
    """Which steps there are, for somebody who asked for another."""
    there = sorted(set(steps))
    shown = ", ".join(map(str, there[-STEPS_SHOWN:]))
    if not there:
        return "it has none yet"
    return f"there are steps {shown}" if len(there) <= STEPS_SHOWN else f"the newest steps are {shown}"


def to_drop(checkpoints: Sequence[Checkpoint], gang: Gang, keeping: CheckpointPolicy, attempt: int) -> list[Checkpoint]:
    """What need not be kept once `attempt` is at work: beyond the last K, not the best, not pinned.

    The newest complete one always stays, and so does what the running attempt may yet complete (tasks report their
    steps in order; of very many that wait, the newest), and what was taken over from another job: parts of it may be
    named by any later manifest. So may those of what each task stored last, whatever its step: a script that did not
    resume begins with small ones.
    """
    wholes = gather(checkpoints, gang)
    complete = [whole for whole in wholes if whole.complete]
    own = [whole for whole in complete if whole.attempt > 0]
    kept = {(whole.attempt, whole.step) for whole in own[-keeping.keep_last :]}
    if complete:
        kept.add((complete[-1].attempt, complete[-1].step))
    best = _best(own, keeping)
    if best is not None:
        kept.add((best.attempt, best.step))
    done = max((whole.step for whole in own if whole.attempt == attempt), default=-1)
    mine = sorted((each for each in checkpoints if each.attempt == attempt), key=lambda each: (each.at, each.step))
    stored_last = set({each.task: each.id for each in mine}.values())
    waiting = [whole for whole in wholes if whole.attempt == attempt and whole.step > done]
    growing = {whole.step for whole in waiting[-GROWING_MAX:] if not whole.complete and not whole.spoiled}
    drop: list[Checkpoint] = []
    for whole in wholes:
        grows = whole.attempt == attempt and whole.step in growing
        if (whole.attempt, whole.step) not in kept and not whole.pinned and whole.attempt > 0 and not grows:
            drop.extend(part for part in whole.parts if part.id not in stored_last)
    return drop


def _best(wholes: Sequence[Whole], keeping: CheckpointPolicy) -> Whole | None:
    """The one with the best value of the metric; of equals the newest."""
    name = keeping.best_metric
    rated = [whole for whole in wholes if name and name in whole.metrics]
    if not rated:
        return None
    sign = 1 if keeping.best_mode == "max" else -1
    return max(rated, key=lambda whole: (sign * whole.metrics[name], whole.rank))
