"""How simulated ranks save, as people's scripts do: by rename, in place, two files together, one that grows, and so on.

A habit knows which files make a save, in which order they are written, and what a script would load of what is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from headway.sim.node.files import Directory, HeldFile
from headway_agent.checkpoints.step_names import step_in

if TYPE_CHECKING:
    from headway.sim.node.files import Now
    from headway.sim.node.machine import Process

RENAMED, OVER, FRESH, PAIR, GROWING, DECLARED, MARKER, SHARDS = (
    "renamed", "over", "fresh", "pair", "growing", "declared", "marker", "shards",
)  # fmt: skip
WAYS = (RENAMED, RENAMED, OVER, OVER, FRESH, PAIR, PAIR, GROWING, DECLARED, MARKER, SHARDS)
ALONE = (RENAMED, OVER, FRESH, DECLARED)
NUMBERED = (RENAMED, FRESH, MARKER, SHARDS)
DONE = "DONE"
KEEPS = 3
STALLS_S = (0.0, 0.0, 0.0, 3.0, 7.0)  # Never as long as what counts as settled.
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Habit:
    way: str = RENAMED
    known: bool = True  # Its format tells a whole file from a cut one, and the step inside.
    takes_s: float = 0.0
    stalls_s: float = 0.0
    pause_s: float = 0.0  # Between two files of a save.

    @property
    def marker(self) -> str:
        return DONE if self.way == MARKER else ""

    @property
    def counted(self) -> bool:
        """Whether nothing tells the step, so that saves are counted."""
        return not self.known and self.way in (OVER, PAIR, GROWING)

    @property
    def several(self) -> bool:
        return len(self.parts(0)) > 1

    def parts(self, step: int) -> list[str]:
        """The files of a save, in the order in which they are written."""
        return {
            RENAMED: [f"step-{step}.pt"],
            OVER: ["snapshot.pt"],
            FRESH: [f"model_{step:06d}.pt"],
            PAIR: ["model.pt", "optimizer.pt"],
            GROWING: ["history.bin"],
            DECLARED: ["latest.pt"],
            MARKER: [f"step-{step}/model.pt", f"step-{step}/optimizer.pt", f"step-{step}/{DONE}"],
            SHARDS: [f"step-{step}/__0_0.distcp", f"step-{step}/.metadata"],
        }[self.way]

    def save(self, step: int, directory: Directory, process: Process, now: Now) -> Iterator[float]:
        """Save once. Yields how long each thing takes until the next is done; whoever dies goes no further."""
        paths = self.parts(step)
        if "/" in paths[0]:
            directory.make(paths[0].rpartition("/")[0])
        for number, path in enumerate(paths):
            if number:
                yield self.pause_s
            takes = iter((0.0,) if path.endswith(DONE) else self._bits(number))
            if self.way == GROWING:
                yield from directory.grow(path, step, process, takes, now)
            elif self.way == RENAMED:
                yield from directory.write(path + ".tmp", step, process, takes, now)
                directory.rename(path + ".tmp", path)
            else:
                yield from directory.write(path, step, process, takes, now)
        if self.way == DECLARED:
            newest_ns = max(directory.files[path].signature[1] for path in paths)
            directory.declared.append((paths[0], step, newest_ns))
        self._tidy(directory)

    def _bits(self, number: int) -> Iterator[float]:
        yield self.takes_s / 2
        yield self.takes_s / 2 + (0.0 if number else self.stalls_s)

    def _tidy(self, directory: Directory) -> None:
        steps = sorted(self._steps(directory.files), reverse=True)
        for step in steps[KEEPS:] if self.way in NUMBERED else ():
            for path in self.parts(step):
                directory.remove(path)

    def _steps(self, paths: Mapping[str, object]) -> set[int]:
        found = (step_in(path) for path in paths if not path.endswith(".tmp"))
        return {each.number for each in found if each is not None}

    def loads(self, files: Mapping[str, HeldFile]) -> tuple[int, str]:
        """The step from which a script would go on with these files, and why it could not: empty where it can."""
        for path, held in files.items():
            if not held.whole:
                return 0, f"{path} holds a save of step {held.step} that was never finished"
        step = max(self._steps(files), default=0) if self.way in NUMBERED else 0
        parts = self.parts(step)
        for path in parts if files else ():
            if path not in files:
                return 0, f"{path} is not in it"
        steps = {files[path].step for path in parts if path in files}
        if len(steps) > 1:
            return 0, f"its files are of several saves, of steps {sorted(steps)}"
        return (steps.pop() if steps else 0), ""


def draw(chance: Random, nodes: int, every_s: float, upset: bool, deaf: bool) -> Habit:
    """A habit of its own for each job. A gang renames: what is judged there is who saves, and that all have it.

    Left out is what is known not to hold. Two files that tell neither that they are whole nor their step, where who
    watches may be dead between them (`upset`): nothing but pauses parts such a save from the next. And files that tell
    nothing, or several that make one save, where the kernel loses events or the machine sleeps (`deaf`): then neither
    a pause nor standing still says anything.
    """
    if nodes > 1:
        return Habit()
    way = chance.choice(ALONE if deaf else WAYS)
    known = chance.random() < 0.6 or way == SHARDS or deaf or (way == PAIR and upset)
    takes_s = chance.choice((0.0, 0.05, 0.3, 1.0, 2.0))
    stalls_s = chance.choice(STALLS_S) if every_s > 10 else 0.0
    return Habit(way, known, takes_s, stalls_s, chance.choice((0.0, 0.01, 0.2)))
