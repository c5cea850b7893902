"""Free room, indexed: nodes that are alike stand on one shelf, those with the same room on one level of it.

So the question whether and where a task fits is asked of levels, of which there are few, not of nodes. A closed node
stands on no shelf. What fits is decided in fit.py.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

from headway.core.model import Node, NodeId, Resources
from headway.core.scheduling.fit import CPU_DUST, GPU_TYPE, Need, Room, leaves_too_soon, short_of, unsuited
from headway.core.spec.scheduling import SAME

Level = tuple[float, int, int]  # Free cpus, memory, gpus.


class Kind(NamedTuple):
    """All that makes nodes alike: what they are, not what they have free."""

    pool: str
    zone: str
    labels: tuple[tuple[str, str], ...]  # Only those that some job has asked for.
    cpus: float
    memory_bytes: int
    gpus: int
    available_until: float | None


class Shelf:
    """The open nodes of one kind, by what they have free; names in order."""

    __slots__ = ("example", "kind", "levels", "size")

    def __init__(self, kind: Kind, example: Node) -> None:
        self.kind = kind
        self.example = example
        self.levels: dict[Level, list[NodeId]] = {}
        self.size = 0

    def add(self, level: Level, name: NodeId) -> None:
        names = self.levels.get(level)
        if names is None:
            self.levels[level] = [name]
        else:
            insort(names, name)
        self.size += 1

    def remove(self, level: Level, name: NodeId) -> None:
        names = self.levels[level]
        if len(names) == 1:
            del self.levels[level]
        else:
            del names[bisect_left(names, name)]
        self.size -= 1

    def fitting(self, need: Need) -> list[tuple[Level, list[NodeId]]]:
        cpus, memory, gpus = need.cpus - CPU_DUST, need.memory_bytes, need.gpus
        return [
            (level, names)
            for level, names in self.levels.items()
            if level[2] >= gpus and level[0] >= cpus and level[1] >= memory
        ]


def level_of(room: Room) -> Level:
    return (room.cpus, room.memory_bytes, len(room.gpus))


class Rooms:
    """Every node's room, and the shelves on which the open ones stand."""

    def __init__(self) -> None:
        self.by_node: dict[NodeId, Room] = {}
        self.shelves: dict[Kind, Shelf] = {}
        self.closed: set[NodeId] = set()  # They stand on no shelf.
        self._place: dict[NodeId, Shelf] = {}
        self._asked: set[str] = {GPU_TYPE}  # Labels that some job has asked for.
        self._suited: dict[Need, tuple[Shelf, ...]] = {}

    # --- changes ---

    def put(self, room: Room) -> None:
        """A node joined or changed in itself."""
        name = room.node.id
        self.drop(name)
        self.by_node[name] = room
        if not room.open:
            self.closed.add(name)
            return
        kind = self._kind(room.node)
        shelf = self.shelves.get(kind)
        if shelf is None:
            shelf = self.shelves[kind] = Shelf(kind, room.node)
            self._suited.clear()
        shelf.add(level_of(room), name)
        self._place[name] = shelf

    def drop(self, name: NodeId) -> None:
        room = self.by_node.pop(name, None)
        self.closed.discard(name)
        shelf = self._place.pop(name, None)
        if room is not None and shelf is not None:
            shelf.remove(level_of(room), name)
            if not shelf.size:
                del self.shelves[shelf.kind]
                self._suited.clear()

    def set(self, room: Room) -> None:
        """A node has more or less free than before."""
        name = room.node.id
        shelf = self._place.get(name)
        if shelf is not None:
            shelf.remove(level_of(self.by_node[name]), name)
            shelf.add(level_of(room), name)
        self.by_node[name] = room

    def take(self, name: NodeId, wants: Resources) -> tuple[int, ...]:
        room, gpus = self.by_node[name].take(wants)
        self.set(room)
        return gpus

    def ask(self, labels: Iterable[tuple[str, str]]) -> None:
        """Somebody asks for these labels: from now on they tell nodes apart."""
        fresh = {key for key, _ in labels} - self._asked
        if fresh:
            self._asked |= fresh
            for room in list(self.by_node.values()):
                self.put(room)

    def _kind(self, node: Node) -> Kind:
        labels = tuple(sorted((key, value) for key, value in node.labels.items() if key in self._asked))
        granted = node.granted
        return Kind(
            node.pool, node.zone, labels, granted.cpus, granted.memory_bytes, granted.gpus, node.available_until
        )

    def copy(self) -> Rooms:
        """The same rooms, to be changed apart from these."""
        other = Rooms()
        other._asked = set(self._asked)
        other.by_node = dict(self.by_node)
        other.closed = set(self.closed)
        for kind, shelf in self.shelves.items():
            twin = other.shelves[kind] = Shelf(kind, shelf.example)
            twin.levels = {level: list(names) for level, names in shelf.levels.items()}
            twin.size = shelf.size
        other._place = {name: other.shelves[shelf.kind] for name, shelf in self._place.items()}
        return other

    # --- questions ---

    def suited(self, need: Need) -> tuple[Shelf, ...]:
        """The shelves whose nodes would do, were they empty; in the order of the pools."""
        known = self._suited.get(need)
        if known is None:
            found = [shelf for shelf in self.shelves.values() if not unsuited(need, shelf.example)]
            if need.pools is not None:
                position = {pool: number for number, pool in enumerate(need.pools)}
                found.sort(key=lambda shelf: position[shelf.kind.pool])
            known = self._suited[need] = tuple(found)
        return known

    def staying(self, need: Need, now: float, run_s: float | None) -> tuple[Shelf, ...]:
        """The suited shelves whose nodes stay for as long as the job may run."""
        shelves = self.suited(need)
        if any(shelf.kind.available_until is not None for shelf in shelves):
            return tuple(shelf for shelf in shelves if not leaves_too_soon(shelf.example, now, run_s))
        return shelves

    def shelf_of(self, name: NodeId) -> Shelf | None:
        """The shelf on which an open node stands."""
        return self._place.get(name)

    def count(self, need: Need) -> int:
        """On how many nodes one task fits now."""
        return sum(len(names) for shelf in self.suited(need) for _, names in shelf.fitting(need))

    def tally(self, need: Need) -> tuple[dict[str, int], int]:
        """What keeps tasks off how many nodes (empty phrase: nothing), and how many would do when empty and open."""
        counts: dict[str, int] = {}
        able = 0
        for shelf in self.shelves.values():
            phrase = unsuited(need, shelf.example)
            if phrase:
                counts[phrase] = counts.get(phrase, 0) + shelf.size
                continue
            able += shelf.size
            for names in shelf.levels.values():
                phrase = short_of(need, self.by_node[names[0]])
                counts[phrase] = counts.get(phrase, 0) + len(names)
        for name in self.closed:
            room = self.by_node[name]
            phrase = unsuited(need, room.node)
            able += not phrase
            phrase = phrase or short_of(need, room)
            counts[phrase] = counts.get(phrase, 0) + 1
        return counts, able

    def could_hold(self, need: Need) -> bool:
        """Whether the open nodes, were they empty, would hold the whole job."""
        shelves = self.suited(need)
        if need.zone != SAME:
            return sum(shelf.size for shelf in shelves) >= need.nodes
        zones: dict[str, int] = {}
        for shelf in shelves:
            zones[shelf.kind.zone] = zones.get(shelf.kind.zone, 0) + shelf.size
        return any(size >= need.nodes for size in zones.values())


class Barred:
    """Nodes that a job must leave alone, and nodes that it should take before others."""

    __slots__ = ("first", "names")

    def __init__(self, names: frozenset[NodeId] = frozenset(), first: tuple[NodeId, ...] = ()) -> None:
        self.names = names
        self.first = first


FREE = Barred()


def find_seats(
    rooms: Rooms, need: Need, barred: Barred = FREE, now: float = 0.0, run_s: float | None = None
) -> list[NodeId] | None:
    """The nodes for all tasks of a job, one each; None when it does not fit. Nodes that lost it before come last."""
    shelves = rooms.staying(need, now, run_s)
    if need.zone == SAME:
        zones: dict[str, list[Shelf]] = {}
        for shelf in shelves:
            zones.setdefault(shelf.kind.zone, []).append(shelf)
        groups = [zones[zone] for zone in sorted(zones)]
    elif need.pools is not None and len(need.pools) > 1:
        # Each pool by itself in the queue's order, and only then all of them together.
        pools: dict[str, list[Shelf]] = {}
        for shelf in shelves:
            pools.setdefault(shelf.kind.pool, []).append(shelf)
        groups = [*pools.values(), list(shelves)] if len(pools) > 1 else list(pools.values())
    else:
        groups = [list(shelves)]
    for group in groups:
        found = _from(rooms, group, need, barred)
        if found is not None:
            return found
    return None


def _from(rooms: Rooms, shelves: list[Shelf], need: Need, barred: Barred) -> list[NodeId] | None:
    levels = [each for shelf in shelves for each in shelf.fitting(need)]
    wanted = need.nodes
    if sum(len(names) for _, names in levels) < wanted:
        return None
    if wanted == 1 and not (need.avoid or need.layout or barred.names or barred.first):
        return [min(names[0] for _, names in levels)]
    skip = barred.names | set(need.avoid) if need.avoid else barred.names
    picked = _ordered(levels, need, skip, wanted)
    if barred.first:
        allowed = set(shelves)
        early = [name for name in barred.first if name not in skip and _on(rooms, name, allowed, need)]
        picked = list(dict.fromkeys([*early, *picked]))
    if len(picked) < wanted and need.avoid:
        last = [name for name in need.avoid if name not in barred.names and _on(rooms, name, set(shelves), need)]
        picked += sorted(last)
    return picked[:wanted] if len(picked) >= wanted else None


def _on(rooms: Rooms, name: NodeId, shelves: set[Shelf], need: Need) -> bool:
    return rooms._place.get(name) in shelves and rooms.by_node[name].holds(need)


def _ordered(
    levels: list[tuple[Level, list[NodeId]]], need: Need, skip: frozenset[NodeId] | set[NodeId], wanted: int
) -> list[NodeId]:
    """Enough names in the order in which they are to be taken."""
    firsts = [(level, _firsts(names, skip, wanted)) for level, names in levels]
    if not need.layout:
        return firsts[0][1] if len(firsts) == 1 else sorted(name for _, names in firsts for name in names)
    emptiest = need.layout == "spread"
    firsts.sort(key=lambda each: (each[0][2], each[0][0], each[0][1]), reverse=emptiest)
    return [name for _, names in firsts for name in names]


def _firsts(names: list[NodeId], skip: frozenset[NodeId] | set[NodeId], wanted: int) -> list[NodeId]:
    if not skip:
        return names[:wanted]
    found: list[NodeId] = []
    for name in names:
        if name not in skip:
            found.append(name)
            if len(found) == wanted:
                break
    return found
