"""Which waiting job gets which places: first by priority, then by age; a gang whole or not at all.

`View` is what the scheduler sees: queued jobs by shape, nodes with their free room. It is kept by deltas (`saw`), and
equals a view rebuilt from all jobs. `plan` reads it and says what to place; it places nothing itself.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from headway.core.fit import Room, could_ever_fit, empty_room, lacks
from headway.core.lifecycle import Seat
from headway.core.model import Job, JobId, Node, NodeId, Resources, State
from headway.core.spec import JobSpec

Rank = tuple[int, int, JobId]  # Smaller goes first.
Shape = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    job: JobId
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    placements: tuple[Placement, ...]


def rank_of(job: Job) -> Rank:
    return (-job.spec.priority, job.seq, job.id)


def shape_of(job: Job) -> Shape:
    """Jobs of one shape fit in the same places: when one does not fit, none of the others does."""
    spec = job.spec
    return (spec.pool, spec.nodes, spec.resources, job.avoid)


@dataclass
class View:
    """Queued jobs and free room, indexed so that the cost of a plan grows with what it places."""

    rooms: dict[NodeId, Room] = field(default_factory=dict)
    queued: dict[JobId, Job] = field(default_factory=dict)
    backing_off: dict[JobId, Job] = field(default_factory=dict)
    _heaps: dict[Shape, list[Rank]] = field(default_factory=dict)
    _held: dict[NodeId, dict[tuple[JobId, int], tuple[Resources, tuple[int, ...]]]] = field(default_factory=dict)

    def saw(self, before: Job | None, after: Job | None) -> None:
        """Take over one change of one job."""
        if before is not None:
            self._leave(before)
        if after is not None:
            self._enter(after)

    def saw_node(self, node: Node, open_: bool = True, because: str = "") -> None:
        """Take over a node that joined or changed. What is held there keeps its room."""
        room = replace(empty_room(node), open=open_, closed_because=because)
        for wants, gpus in self._held.get(node.id, {}).values():
            room = room.without(wants, gpus)
        self.rooms[node.id] = room

    def lost_node(self, node: NodeId) -> None:
        self.rooms.pop(node, None)

    def wake(self, now: float) -> None:
        """Let jobs whose pause is over wait in the queue again."""
        due = [job for job in self.backing_off.values() if job.not_before <= now]
        for job in due:
            del self.backing_off[job.id]
            self._queue(job)

    def next_wake(self) -> float | None:
        return min((job.not_before for job in self.backing_off.values()), default=None)

    def _enter(self, job: Job) -> None:
        if job.state is State.QUEUED:
            if job.not_before > 0.0:
                self.backing_off[job.id] = job
            else:
                self._queue(job)
            return
        for task in job.alive:
            wants = job.spec.resources
            self._held.setdefault(task.node, {})[(job.id, task.index)] = (wants, task.gpus)
            room = self.rooms.get(task.node)
            if room is not None:
                self.rooms[task.node] = room.without(wants, task.gpus)

    def _leave(self, job: Job) -> None:
        self.queued.pop(job.id, None)
        self.backing_off.pop(job.id, None)
        for task in job.alive:
            self._held[task.node].pop((job.id, task.index), None)
            room = self.rooms.get(task.node)
            if room is not None:
                self.rooms[task.node] = room.give_back(job.spec.resources, task.gpus)

    def _queue(self, job: Job) -> None:
        self.queued[job.id] = job
        heapq.heappush(self._heaps.setdefault(shape_of(job), []), rank_of(job))

    def head(self, shape: Shape) -> Job | None:
        """The first job of a shape. Ranks of jobs that left are dropped on the way."""
        heap = self._heaps[shape]
        while heap:
            job = self.queued.get(heap[0][2])
            if job is not None and rank_of(job) == heap[0] and shape_of(job) == shape:
                return job
            heapq.heappop(heap)
        del self._heaps[shape]
        return None

    def pop(self, shape: Shape) -> None:
        """Take the first job of a shape out. It stands there twice if it has left and come back meanwhile."""
        heap = self._heaps[shape]
        first = heap[0]
        while heap and heap[0] == first:
            heapq.heappop(heap)

    def shapes(self) -> list[Shape]:
        return list(self._heaps)

    def restore(self, shape: Shape, job: Job) -> None:
        heapq.heappush(self._heaps.setdefault(shape, []), rank_of(job))


def view_of(jobs: Iterable[Job], nodes: Iterable[Node]) -> View:
    """A view built from nothing: what the one kept by deltas must equal."""
    view = View()
    for node in nodes:
        view.saw_node(node)
    for job in jobs:
        view.saw(None, job)
    return view


def plan(view: View, now: float, placements_most: int = 1000) -> Plan:
    """Say which waiting jobs can be placed where, now. The caller saves them; the view itself stays as it was."""
    view.wake(now)
    rooms = dict(view.rooms)
    order = sorted(rooms)  # By name, not by when they joined: a rebuilt view must give the same plan.
    heads = [(rank_of(job), shape) for shape in view.shapes() if (job := view.head(shape))]
    heapq.heapify(heads)
    placed: list[tuple[Shape, Job, Placement]] = []
    start: dict[Shape, int] = {}
    while heads and len(placed) < placements_most:
        _, shape = heapq.heappop(heads)
        job = view.head(shape)
        if job is None:
            continue
        seats = _seats(job, rooms, order, start)
        if seats is None:
            continue  # Nor does any other job of this shape fit, so the shape leaves this plan.
        placed.append((shape, job, Placement(job.id, seats)))
        view.pop(shape)
        follower = view.head(shape)
        if follower is not None:
            heapq.heappush(heads, (rank_of(follower), shape))
    for shape, job, _ in placed:
        view.restore(shape, job)
    return Plan(tuple(placement for _, _, placement in placed))


def _seats(
    job: Job, rooms: dict[NodeId, Room], order: list[NodeId], start: dict[Shape, int]
) -> tuple[Seat, ...] | None:
    """First fit over the nodes, in their order; nodes that lost this job before come last."""
    spec = job.spec
    shape = shape_of(job)
    first = start.get(shape, 0)
    found: list[Seat] = []
    for avoided in (False, True):
        for position in range(first if not avoided else 0, len(order)):
            node = order[position]
            if (node in job.avoid) is not avoided or lacks(spec, rooms[node]):
                continue
            if not found and not avoided:
                # Rooms only shrink within one plan: what was too small for this shape stays too small.
                start[shape] = position
            found.append(Seat(node))
            if len(found) == spec.nodes:
                return tuple(_take(spec, rooms, seat.node) for seat in found)
    return None


def _take(spec: JobSpec, rooms: dict[NodeId, Room], node: NodeId) -> Seat:
    rooms[node], gpus = rooms[node].take(spec.resources)
    return Seat(node, gpus)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits, as counted evidence; explain.py makes the sentence."""

    backing_off_s: float = 0.0
    ahead: int = 0
    nodes_wanted: int = 1
    nodes_fitting: int = 0
    lacks: tuple[tuple[str, int], ...] = ()  # What is missing, on how many nodes; most frequent first.
    never: bool = False  # Not even empty nodes would do.
    no_nodes: bool = False


def why_waiting(job: Job, view: View, now: float, ahead: int | None = None) -> Waiting:
    """Gather the evidence for one waiting job."""
    if job.not_before > now:
        return Waiting(backing_off_s=job.not_before - now)
    if not view.rooms:
        return Waiting(no_nodes=True, nodes_wanted=job.spec.nodes)
    if ahead is None:
        rank = rank_of(job)
        ahead = sum(rank_of(other) < rank for other in view.queued.values())
    counts: dict[str, int] = {}
    for room in view.rooms.values():
        phrase = lacks(job.spec, room)
        if phrase.endswith("in use") and not could_ever_fit(job.spec, room.node.granted):
            phrase = "too small"
        counts[phrase] = counts.get(phrase, 0) + 1
    fitting = counts.pop("", 0)
    never = sum(could_ever_fit(job.spec, room.node.granted) for room in view.rooms.values()) < job.spec.nodes
    return Waiting(
        ahead=ahead,
        nodes_wanted=job.spec.nodes,
        nodes_fitting=fitting,
        lacks=tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        never=never,
    )


def why_all_waiting(jobs: Iterable[Job], view: View, now: float) -> dict[JobId, Waiting]:
    """The evidence for many: the queue is sorted once."""
    ranks = sorted(map(rank_of, view.queued.values()))
    return {job.id: why_waiting(job, view, now, bisect_left(ranks, rank_of(job))) for job in jobs}
