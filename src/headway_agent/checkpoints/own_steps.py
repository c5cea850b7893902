"""Which step a checkpoint is, in the job's own count: declared, in a name, in a file, in metrics, printed, or counted.

Pure. One job has one unit: once its checkpoints were counted in epochs, a step that turns up elsewhere does not mix
with them. A number that goes backwards within an attempt is none, or order on resume would follow it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_agent.checkpoints.step_names import step_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Mapping

    from headway_agent.checkpoints.step_names import NamedStep

    Found = Mapping[str, tuple[tuple[int, int, int], str]]  # By path: signature, and how it is known.

STEP, SAVES = "step", "save"
TOLD_UNITS = ("step", "epoch")
CONTENTS_READ_MAX = 8
BAR_LATE = 5  # A progress bar is drawn ten times a second at most.
TELLING = ("trainer_state.json",)  # Read before other files.


@dataclass
class Steps:
    unit: str = ""  # Of this job's steps, once one was told.
    bar: str = ""  # The progress bar that counts the same, once one was found to.
    declared: dict[str, int] = field(default_factory=dict)  # By path.
    saved: int | None = None  # The newest that was declared: how far the job is at least.
    reached: int | None = None  # The newest that a helper in the job has noted, at every step.
    metrics: int | None = None  # The newest that was logged.
    printed: dict[str, int] = field(default_factory=dict)  # The newest in the output, by unit.
    last: int = 0  # The largest so far, the restored one included.
    own: int | None = None  # Of the newest checkpoint of this attempt.

    @property
    def seen(self) -> int | None:
        """How far the job is known to be, in the unit of its checkpoints: as it has told, or has declared."""
        known = [number for number in (self.own_word, self.saved) if number is not None]
        return max(known, default=None)

    @property
    def own_word(self) -> int | None:
        """How far the job has told that it is, in the unit of its checkpoints; None where only its saves tell it.

        Where it tells another one only: of what has come further than its steps, it is the same by another word.
        """
        if self.reached is not None and self.unit in ("", STEP):
            return self.reached
        told = self.told()
        if self.unit in told or self.bar in told:
            return told[self.unit if self.unit in told else self.bar]
        others = [told[unit] for unit in TOLD_UNITS if unit in told]
        return next((number for number in others if not self.unit or number >= self.last), None)

    @property
    def tells(self) -> bool:
        """Whether what it tells is known to be what it saves by: before its first save, epochs or a bar may not be."""
        return self.own_word is not None and (self.unit != "" or self.reached is not None or STEP in self.told())

    @property
    def printed_as(self) -> str:
        """The unit in which its output tells how far it is, or the bar that does; empty where it tells it elsewhere."""
        unit = self.unit or STEP
        if unit == STEP and (self.reached, self.metrics) != (None, None):
            return ""
        return self.bar if unit not in self.printed and self.bar in self.printed else unit

    def told(self) -> dict[str, int]:
        """How far the job has told it is, by unit. What it logs goes before what it prints."""
        return self.printed if self.metrics is None else {**self.printed, STEP: self.metrics}

    def seen_at(self, closes: Iterable[Mapping[str, int] | None]) -> Mapping[str, int]:
        """How far it was at the first of these closes; as it is now where nobody noted it."""
        noted = [each for each in closes if each is not None]
        return min(noted, key=lambda each: tuple(each.values())) if noted else self.told()


def choose(
    steps: Steps,
    new: Iterable[str],
    finished: Found,
    kept: Found,
    read: Callable[[str], NamedStep | None],
    seen: Mapping[str, int],
) -> tuple[int, str]:
    """The step of a checkpoint in which these files are new, and its unit. `seen`: how far the job was, as it told."""
    new = list(new)
    said = [step for path, step in steps.declared.items() if any(is_under(file, path) for file in new)]
    if said:
        return max(said), STEP
    # A name that was there before (model-2.pt, written anew each time) has a number, but it is not the step's.
    fresh = [path for path in new if path not in kept]
    if fresh and _left_over(steps, fresh, finished, kept, read):
        return steps.last, steps.unit or STEP
    candidates = list(_candidates(fresh, new, read, seen))
    usual = [(number, unit) for number, unit in candidates if unit == steps.unit]
    for number, unit in usual or candidates:
        if steps.own is None or number >= steps.own:
            return number, unit
    if not candidates and fresh == new and any(step_in(path) for path in finished):
        return steps.last, steps.unit or STEP  # Something beside the numbered files: the same step, more of it.
    return steps.last + 1, steps.unit or SAVES


def _candidates(
    fresh: Iterable[str], new: list[str], read: Callable[[str], NamedStep | None], seen: Mapping[str, int]
) -> Iterable[tuple[int, str]]:
    named = [step for step in map(step_in, fresh) if step is not None]
    yield from _largest(step for step in named if step.unit == STEP)
    telling = sorted(new, key=lambda path: (path.rpartition("/")[2] not in TELLING, path))
    yield from _largest(filter(None, map(read, telling[:CONTENTS_READ_MAX])))
    yield from _largest(step for step in named if step.unit != STEP)
    for unit in TOLD_UNITS:
        if unit in seen:
            yield seen[unit], unit


def _largest(found: Iterable[NamedStep]) -> list[tuple[int, str]]:
    """The largest number; of several units the one that counts finest."""
    units: dict[str, int] = {}
    for step in found:
        unit = step.unit or STEP
        units[unit] = max(step.number, units.get(unit, 0))
    return [(units[unit], unit) for unit in sorted(units, key=lambda unit: unit != STEP)]


def _left_over(
    steps: Steps, fresh: list[str], finished: Found, kept: Found, read: Callable[[str], NamedStep | None]
) -> bool:
    """Whether these are older than what was kept, and only known later to be finished: the newest step, more of it."""
    newest_ns = max((each[0][1] for each in kept.values()), default=0)
    old = [path for path in fresh if finished[path][0][1] <= newest_ns]
    named = [step for step in map(step_in, fresh) if step is not None]
    if not named and len(old) == len(fresh):
        named = [step for step in map(read, old[:CONTENTS_READ_MAX]) if step is not None]
    if not named or max(step.number for step in named) >= steps.last:
        return False
    return all(path in old or step_in(path) is None for path in fresh)


def learn(steps: Steps, step: int, seen: Mapping[str, int]) -> None:
    """A checkpoint is of this step, and was saved when so much was told: a bar that stood there counts the same."""
    alike = [name for name, number in seen.items() if name not in TOLD_UNITS and step - BAR_LATE <= number <= step]
    if alike and steps.bar not in alike:
        steps.bar = alike[0]


def taken(steps: Steps, step: int, unit: str) -> None:
    """A checkpoint of this step is in storage."""
    steps.last = max(steps.last, step)
    steps.own = step if steps.own is None else max(steps.own, step)
    if unit != SAVES:
        steps.unit = unit
    steps.declared = {path: each for path, each in steps.declared.items() if each > step}


def is_under(file: str, path: str) -> bool:
    return path == "." or file == path or file.startswith(path + "/")
