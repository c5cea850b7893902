"""Who is watched until when, and what was last heard; a part of the leader's memory. Nothing of it is saved."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.control.state.working_copy import WorkingCopy
from headway.core.model import JobId, NodeId

FOR_S = 30.0  # So long agents look after the last question.
AGAIN_S = 4.0  # A node that was told and says nothing is told again.
FRESH_S = 10.0  # What is older says nothing about now.
STEPS_KEPT = 30
TASKS_MOST = 100_000


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What a node told: cores and memory in use there, per GPU its load and memory, and the same by task."""

    at: float
    cpus: float = 0.0
    memory_bytes: int = 0
    gpus: tuple[tuple[int, int, int], ...] = ()
    tasks: Mapping[str, tuple[float, int]] = field(default_factory=dict)


@dataclass
class WatchedNodes:
    until: float = 0.0
    told: dict[NodeId, tuple[float, float]] = field(default_factory=dict)  # When, and until when.
    heard: dict[NodeId, NodeUse] = field(default_factory=dict)
    steps: dict[JobId, deque[tuple[float, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, book: WorkingCopy) -> WatchedNodes:
        found: WatchedNodes = book.memories["usage"]
        return found

    def tell(self, node: NodeId, now: float) -> float | None:
        """For how long this node is to look; None where it knows, or nobody watches."""
        if now >= self.until:
            return None
        said_at, until = self.told.get(node, (float("-inf"), 0.0))
        silent = node not in self.heard or now - self.heard[node].at > AGAIN_S
        if until - now > FOR_S / 3 and not (silent and now - said_at > AGAIN_S):
            return None
        self.told[node] = (now, now + FOR_S)
        return FOR_S

    def hear(self, node: NodeId, said: Any, now: float) -> None:
        """Take what can be read of a node's words; the rest is dropped, as all of it may be."""
        if isinstance(said, Mapping):
            self.heard[node] = read_use(said, now)

    def rate(self, job: JobId, step: int | None, now: float) -> float | None:
        """Steps per second over the last looks; None where that cannot be told yet."""
        if step is None:
            return None
        seen = self.steps.setdefault(job, deque(maxlen=STEPS_KEPT))
        if seen and step < seen[-1][1]:
            seen.clear()  # It began again, from an earlier step.
        if not seen or step > seen[-1][1]:
            seen.append((now, step))
        (first_at, first), (last_at, last) = seen[0], seen[-1]
        return (last - first) / (now - first_at) if last > first and last_at > first_at else None


def read_use(said: Mapping[str, Any], now: float) -> NodeUse:
    tasks = said.get("tasks")
    gpus = said.get("gpus")
    return NodeUse(
        now,
        _number(said.get("cpus")),
        int(_number(said.get("memory_bytes"))),
        tuple(_three(each) for each in gpus[:1024] if _listed(each, 3)) if isinstance(gpus, list) else (),
        {
            str(task)[:300]: (_number(use[0]), int(_number(use[1])))
            for task, use in list(tasks.items())[:TASKS_MOST]
            if _listed(use, 2)
        }
        if isinstance(tasks, Mapping)
        else {},
    )


def _listed(value: Any, size: int) -> bool:
    return isinstance(value, list) and len(value) == size


def _three(value: list[Any]) -> tuple[int, int, int]:
    one, two, three = (int(_number(each)) for each in value)
    return one, two, three


def _number(value: Any) -> float:
    """A number that is one, and no larger than anything that a machine has."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2**60
    return float(value) if good else 0.0
