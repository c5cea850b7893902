"""Whether a task fits on a node: the one place that compares what is asked with what is there and what is free.

`Need` is what a job asks of nodes, without who asks or for how long; `Room` is what a node has free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from headway.core.model import Node, NodeId, PoolName, Resources
from headway.core.spec.job import JobSpec
from headway.core.spec.scheduling import SAME

# Fractions of processors are sums of floats; a millionth of one is nobody's.
CPU_DUST = 1e-6
GPU_TYPE = "gpu_type"  # The label of a node that says which GPUs it has.


class Need(NamedTuple):
    """What a job asks of nodes. Jobs with equal needs fit in the same places: where one does not fit, none does."""

    nodes: int
    cpus: float
    memory_bytes: int
    gpus: int
    pools: tuple[PoolName, ...] | None = None  # In the order in which they are tried. None: any.
    gpu_type: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    layout: str = ""
    avoid: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """What a node has free, and whether anything may be placed there."""

    node: Node
    cpus: float
    memory_bytes: int
    gpus: tuple[int, ...]  # Indexes of the free ones, ascending.
    open: bool = True  # False while silent, cordoned, draining or gone.
    closed_because: str = ""

    def take(self, wants: Resources) -> tuple[Room, tuple[int, ...]]:
        """The room that is left when a task is placed here, and the GPUs that it gets."""
        given = self.gpus[: wants.gpus]
        return self.without(wants, given), given

    def without(self, wants: Resources, gpus: tuple[int, ...]) -> Room:
        """The room that is left when this much of it, and these GPUs, are held."""
        left = self.gpus
        if gpus:
            left = left[len(gpus) :] if left[: len(gpus)] == gpus else tuple(i for i in left if i not in gpus)
        cpus = round(self.cpus - wants.cpus, 6)
        return Room(self.node, cpus, self.memory_bytes - wants.memory_bytes, left, self.open, self.closed_because)

    def give_back(self, wants: Resources, gpus: tuple[int, ...]) -> Room:
        free = self.gpus
        if gpus:
            # A node that came back with fewer of them has no room for the others any more.
            granted = self.node.granted.gpus
            free = tuple(sorted({*free, *(index for index in gpus if index < granted)}))
        cpus = round(self.cpus + wants.cpus, 6)
        return Room(self.node, cpus, self.memory_bytes + wants.memory_bytes, free, self.open, self.closed_because)

    def holds(self, need: Need) -> bool:
        """Whether one task fits in what is free."""
        return (
            need.cpus <= self.cpus + CPU_DUST and need.memory_bytes <= self.memory_bytes and need.gpus <= len(self.gpus)
        )


def empty_room(node: Node) -> Room:
    granted = node.granted
    return Room(node, granted.cpus, granted.memory_bytes, tuple(range(granted.gpus)))


def need_of(spec: JobSpec, pools: tuple[PoolName, ...] | None = None, avoid: tuple[NodeId, ...] = ()) -> Need:
    """What a job asks of nodes, in a queue that may use these pools."""
    if spec.pool:
        pools = (spec.pool,) if pools is None or spec.pool in pools else ()
    wants, wishes = spec.resources, spec.wishes
    return Need(
        spec.nodes,
        wants.cpus,
        wants.memory_bytes,
        wants.gpus,
        pools,
        wishes.gpu_type,
        wishes.labels,
        wishes.zone,
        wishes.layout,
        avoid,
    )


def unsuited(need: Need, node: Node) -> str:
    """What keeps a task off this node even when it is empty, as a short phrase; empty when nothing does."""
    if need.pools is not None and node.pool not in need.pools:
        named = " or ".join(f'"{name}"' for name in need.pools[:3])
        return f"not in pool {named}" if named else "not in a pool of its queue"
    if need.gpu_type and node.labels.get(GPU_TYPE, "").lower() != need.gpu_type:
        return f"without {need.gpu_type} gpus"
    for key, value in need.labels:
        if node.labels.get(key) != value:
            return f"without label {key}={value}"
    if need.zone and need.zone != SAME and node.zone != need.zone:
        return f"not in zone {need.zone}"
    granted = node.granted
    if need.gpus > granted.gpus:
        return f"with {granted.gpus or 'no'} gpus only" if granted.gpus else "without gpus"
    if need.cpus > granted.cpus + CPU_DUST or need.memory_bytes > granted.memory_bytes:
        return "too small"
    return ""


def short_of(need: Need, room: Room) -> str:
    """What of a suitable node is in use, as a short phrase; empty when a task fits."""
    if not room.open:
        return room.closed_because or "closed"
    if need.cpus > room.cpus + CPU_DUST:
        return "cpus in use"
    if need.memory_bytes > room.memory_bytes:
        return "memory in use"
    if need.gpus > len(room.gpus):
        return "gpus in use"
    return ""


def lacks(need: Need, room: Room) -> str:
    """What keeps one task of this job off this node now, as a short phrase; empty when it fits."""
    return unsuited(need, room.node) or short_of(need, room)


def could_go_elsewhere(need: Need, nodes: Iterable[Node], refusing: NodeId) -> bool:
    """Whether a job could run without this node, and without those that it avoids, once there is room."""
    others = 0
    for node in nodes:
        avoided = node.id == refusing or node.id in need.avoid
        if not avoided and not node.cordoned and node.gone_at is None and not unsuited(need, node):
            others += 1
            if others >= need.nodes:
                return True
    return False


def leaves_too_soon(node: Node, now: float, run_s: float | None) -> bool:
    """Whether a node will be gone before a task of this length is done."""
    return node.available_until is not None and now + (run_s or 0.0) > node.available_until
