"""Whether a task fits on a node: the one place that compares what is asked with what is free."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.core.model import Node, Resources
from headway.core.spec import JobSpec

# Fractions of processors are sums of floats; a millionth of one is nobody's.
CPU_DUST = 1e-6


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
        return replace(
            self,
            cpus=self.cpus - wants.cpus,
            memory_bytes=self.memory_bytes - wants.memory_bytes,
            gpus=tuple(index for index in self.gpus if index not in gpus),
        )

    def give_back(self, wants: Resources, gpus: tuple[int, ...]) -> Room:
        return replace(
            self,
            cpus=self.cpus + wants.cpus,
            memory_bytes=self.memory_bytes + wants.memory_bytes,
            # A node that came back with fewer of them has no room for the others any more.
            gpus=tuple(sorted({*self.gpus, *(index for index in gpus if index < self.node.granted.gpus)})),
        )


def empty_room(node: Node) -> Room:
    granted = node.granted
    return Room(node, granted.cpus, granted.memory_bytes, tuple(range(granted.gpus)))


def lacks(spec: JobSpec, room: Room) -> str:
    """What keeps one task of this job off this node now, as a short phrase; empty when it fits."""
    if spec.pool and room.node.pool != spec.pool:
        return f'not in pool "{spec.pool}"'
    if not room.open:
        return room.closed_because or "closed"
    wants = spec.resources
    if wants.cpus > room.cpus + CPU_DUST:
        return "cpus in use"
    if wants.memory_bytes > room.memory_bytes:
        return "memory in use"
    if wants.gpus > len(room.gpus):
        return "gpus in use"
    return ""


def fits(spec: JobSpec, room: Room) -> bool:
    return not lacks(spec, room)


def could_ever_fit(spec: JobSpec, granted: Resources) -> bool:
    """Whether an empty node of this size would hold one task."""
    wants = spec.resources
    return (
        wants.cpus <= granted.cpus + CPU_DUST
        and wants.memory_bytes <= granted.memory_bytes
        and wants.gpus <= granted.gpus
    )
