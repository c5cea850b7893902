"""Which checkpoint to resume from, which ones to keep, and when a gang's checkpoint is whole.

Choices over committed manifests, nothing else. That only the newest attempt may commit is the fence's business
(control/progress.py and the store); deleting bytes is control/collecting.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.model import JobId
from headway.core.progress_spec import Keeping

COMMITTED = "committed"
STEP = "step"
UNITS = (STEP, "epoch", "save")  # From the finest count to that of a job which tells nothing of how far it is.
SET_ASIDE = "set_aside"  # It failed its hash when it was restored: never used again.

HOW = ("settled", "closed", "marker", "renamed", "declared")
"""How completeness is known, from the weakest promise to the strongest."""

STEPS_SHOWN = 10


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

    @property
    def id(self) -> tuple[JobId, int, int, int]:
        return (self.job, self.attempt, self.task, self.step)


@dataclass(frozen=True, slots=True)
class Whole:
    """All there is of one step of one attempt, in order of task."""

    attempt: int
    step: int
    parts: tuple[Checkpoint, ...]
    tasks: int  # How many tasks the job has.

    @property
    def complete(self) -> bool:
        """Whether every task has that step and none of it was set aside."""
        return len(self.parts) == self.tasks and all(part.state == COMMITTED for part in self.parts)

    @property
    def how(self) -> str:
        """The weakest promise among its parts."""
        return min((part.how for part in self.parts), key=HOW.index)

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


def gather(checkpoints: Iterable[Checkpoint], tasks: int) -> list[Whole]:
    """Checkpoints by attempt and step, worst to resume from first."""
    groups: dict[tuple[int, int], list[Checkpoint]] = {}
    for each in checkpoints:
        groups.setdefault((each.attempt, each.step), []).append(each)
    wholes = [
        Whole(attempt, step, tuple(sorted(parts, key=lambda part: part.task)), tasks)
        for (attempt, step), parts in groups.items()
    ]
    return sorted(wholes, key=lambda whole: whole.rank)


def newest(checkpoints: Iterable[Checkpoint], tasks: int) -> Whole | None:
    """The checkpoint to resume from: of the complete ones the newest step, and of equals the best known."""
    complete = [whole for whole in gather(checkpoints, tasks) if whole.complete]
    return complete[-1] if complete else None


def unit_of(checkpoints: Iterable[Checkpoint]) -> str:
    """What the steps of a job count: a job that tells more than one of them is told in the finest."""
    known = {each.unit for each in checkpoints}
    return next((unit for unit in UNITS if unit in known), STEP)


def named(step: int, unit: str = STEP) -> str:
    """A step as people read it: `step 1200`, `epoch 6`, or `save 3` where saves were only counted."""
    return f"{unit or STEP} {step}"


def at_step(checkpoints: Iterable[Checkpoint], tasks: int, step: int) -> Whole | None:
    """The best complete checkpoint of exactly this step."""
    return newest((each for each in checkpoints if each.step == step), tasks)


def steps_there(steps: Iterable[int]) -> str:
    """Which steps there are, for somebody who asked for another."""
    there = sorted(set(steps))
    shown = ", ".join(map(str, there[-STEPS_SHOWN:]))
    if not there:
        return "it has none yet"
    return f"there are steps {shown}" if len(there) <= STEPS_SHOWN else f"the newest steps are {shown}"


def to_drop(checkpoints: Sequence[Checkpoint], tasks: int, keeping: Keeping, attempt: int) -> list[Checkpoint]:
    """What need not be kept once `attempt` is at work: beyond the last K, not the best, not pinned.

    The newest complete one always stays, and so does what the running attempt may yet complete (tasks report their
    steps in order), and what was taken over from another job: parts of it may be named by any later manifest. So may
    those of what each task stored last, whatever its step: a script that did not resume begins with small ones.
    """
    wholes = gather(checkpoints, tasks)
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
    drop: list[Checkpoint] = []
    for whole in wholes:
        growing = whole.attempt == attempt and whole.step > done and not whole.complete and not _spoiled(whole)
        if (whole.attempt, whole.step) not in kept and not whole.pinned and whole.attempt > 0 and not growing:
            drop.extend(part for part in whole.parts if part.id not in stored_last)
    return drop


def _spoiled(whole: Whole) -> bool:
    return any(part.state == SET_ASIDE for part in whole.parts)


def _best(wholes: Sequence[Whole], keeping: Keeping) -> Whole | None:
    """The one with the best value of the metric; of equals the newest."""
    name = keeping.best_metric
    rated = [whole for whole in wholes if name and name in whole.metrics]
    if not rated:
        return None
    sign = 1 if keeping.best_mode == "max" else -1
    return max(rated, key=lambda whole: (sign * whole.metrics[name], whole.rank))
