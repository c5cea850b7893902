"""Places kept for the first who must wait: on which nodes, from when, and what others may do there meanwhile.

Whoever ends before that time may use them, and so may whoever fits in what the reservation leaves over (EASY, after
Lifka 1995). Named nodes rather than amounts, because a gang needs whole places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from headway.core.model import JobId, NodeId
from headway.core.scheduling.capacity import Barred, Level, Rooms, level_of
from headway.core.scheduling.fit import CPU_DUST, Need, leaves_too_soon
from headway.core.spec.scheduling import SAME

LOOK_MOST = 500  # Among how many nodes a reservation is sought, for a job that needs few of them.

Leaving = tuple[float, float, int, int]  # When somebody leaves, and the cpus, memory and gpus that come back.
LeavingOf = Callable[[NodeId], list[Leaving]]
NOT_EVER = float("inf")


class Reservation:
    """Nodes kept for one job, from some time on."""

    __slots__ = ("at", "job", "need", "nodes", "spare")

    def __init__(
        self, job: JobId, need: Need, at: float, nodes: list[NodeId], spare: Callable[[NodeId], Level]
    ) -> None:
        self.job = job
        self.need = need
        self.at = at
        self.nodes = nodes
        self.spare = spare  # What is left on a node, from that time on, once the job has its place.


def reserve(
    job: JobId, need: Need, rooms: Rooms, leaving: LeavingOf, now: float, limit_s: float | None
) -> Reservation | None:
    """The earliest time and the nodes at which the whole job fits; None when the present nodes could never hold it."""
    times: list[tuple[float, NodeId]] = []
    by_node = rooms.by_node
    for name in look_at(rooms, need, max(LOOK_MOST, 4 * need.nodes)):
        room = by_node[name]
        if room.node.available_until is None or not leaves_too_soon(room.node, now, limit_s):
            times.append((now if room.holds(need) else _first_time(level_of(room), need, leaving(name), now), name))
    chosen = _choose(times, need, rooms)
    if chosen is None:
        return None
    at, names = chosen

    def spare(name: NodeId) -> Level:
        cpus, memory, gpus = level_of(by_node[name])
        for when, more_cpus, more_memory, more_gpus in leaving(name):
            if when <= at:
                cpus, memory, gpus = cpus + more_cpus, memory + more_memory, gpus + more_gpus
        return cpus - need.cpus, memory - need.memory_bytes, gpus - need.gpus

    return Reservation(job, need, at, names, spare)


def look_at(rooms: Rooms, need: Need, most: int) -> Iterator[NodeId]:
    """The nodes to look at: all that would do when empty, the emptiest first, up to a limit."""
    levels = [each for shelf in rooms.suited(need) for each in shelf.levels.items()]
    levels.sort(key=lambda each: (-each[0][2], -each[0][0], -each[0][1], each[1][0]))
    return islice((name for _, names in levels for name in names), most)


def holds(free: Level, need: Need) -> bool:
    return need.gpus <= free[2] and need.cpus <= free[0] + CPU_DUST and need.memory_bytes <= free[1]


def _first_time(free: Level, need: Need, leaving: list[Leaving], now: float) -> float:
    cpus, memory, gpus = free
    if len(leaving) > 1:
        leaving.sort()
    for when, more_cpus, more_memory, more_gpus in leaving:
        cpus, memory, gpus = cpus + more_cpus, memory + more_memory, gpus + more_gpus
        if need.gpus <= gpus and need.cpus <= cpus + CPU_DUST and need.memory_bytes <= memory:
            return when if when > now else now
    return NOT_EVER


def _choose(times: list[tuple[float, NodeId]], need: Need, rooms: Rooms) -> tuple[float, list[NodeId]] | None:
    if need.zone == SAME:
        zones: dict[str, list[tuple[float, NodeId]]] = {}
        for entry in times:
            zones.setdefault(rooms.by_node[entry[1]].node.zone, []).append(entry)
        found = [each for zone in sorted(zones) if (each := _earliest(zones[zone], need.nodes))]
        return min(found, key=lambda each: each[0]) if found else None
    return _earliest(times, need.nodes)


def _earliest(times: list[tuple[float, NodeId]], wanted: int) -> tuple[float, list[NodeId]] | None:
    if len(times) < wanted:
        return None
    times.sort()
    at = times[wanted - 1][0]
    if at == NOT_EVER:
        return None
    in_time = [entry for entry in times if entry[0] <= at]
    # Those that become free last are kept first: what is free now stays for others as long as enough remain.
    in_time.sort(key=lambda entry: -entry[0])
    return at, [name for _, name in in_time[:wanted]]


class Reservations:
    """All places kept in one plan."""

    def __init__(self) -> None:
        self.made: list[Reservation] = []
        self._by_node: dict[NodeId, Reservation] = {}
        self._spare: dict[NodeId, Level] = {}
        self._names: tuple[NodeId, ...] = ()
        self._in_time = Barred()
        self._known: dict[tuple[object, ...], Barred] = {}  # Asked before, and nothing has changed since.

    def add(self, reservation: Reservation) -> None:
        self.made.append(reservation)
        for name in reservation.nodes:
            self._by_node[name] = reservation
            self._spare.pop(name, None)
        self._known.clear()
        self._names = tuple(sorted(self._by_node))
        self._in_time = Barred(frozenset(), self._names)

    def barred(self, need: Need, ends_at: float) -> Barred:
        """Which nodes a job must leave alone. One that is over in time takes the kept places before others."""
        if all(ends_at <= each.at for each in self.made):
            return self._in_time
        key = (need, *(ends_at <= each.at for each in self.made))
        known = self._known.get(key)
        if known is None:
            barred, early = [], []
            for name, kept in self._by_node.items():
                if ends_at <= kept.at:
                    early.append(name)
                elif not holds(self._left(name), need):
                    barred.append(name)
            known = self._known[key] = Barred(frozenset(barred), tuple(sorted(early)))
        return known

    def took(self, name: NodeId, need: Need, ends_at: float) -> None:
        """Somebody who will still be there uses room that the reservation leaves over."""
        kept = self._by_node.get(name)
        if kept is not None and ends_at > kept.at:
            cpus, memory, gpus = self._left(name)
            self._spare[name] = (cpus - need.cpus, memory - need.memory_bytes, gpus - need.gpus)
            self._known.clear()

    def _left(self, name: NodeId) -> Level:
        known = self._spare.get(name)
        if known is None:
            known = self._spare[name] = self._by_node[name].spare(name)
        return known
