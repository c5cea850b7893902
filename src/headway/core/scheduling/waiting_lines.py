"""Short jobs that wait on a node behind others of their kind, so that the next begins when one ends.

Each takes over the place of one certain task, whose key it knows: the node begins it when that one has ended, without
asking anybody. What is lined up is what the plan would place next; it is called back when that is no longer so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from operator import itemgetter

from headway.core.model import Job, JobId, NodeId, Phase
from headway.core.scheduling.capacity import Shelf
from headway.core.scheduling.ranking import Lane, LaneName, Rank, Ranking
from headway.core.scheduling.view import View
from headway_wire.tasks import task_key

DEPTH_MOST = 32  # Behind one place.
SEATS_MOST = 1000  # Looked at in one plan.
OVERDUE = 8  # After so many times the work that a place is given ahead, whoever has not begun is called back.
OVERDUE_S_LEAST = 2.0

Seat = tuple[int, str, NodeId]  # How many wait behind a place, the last of them, and where that is.


@dataclass(frozen=True, slots=True)
class Lined:
    """A waiting job, with the node that shall have it and the task whose place it takes."""

    job: JobId
    node: NodeId
    behind: str


def key_of(job: Job) -> str:
    """The wire key of the only task of a job."""
    return task_key(job.id, job.number, 0)


def line_up(view: View, now: float, ahead_s: float, takes: Callable[[NodeId], bool]) -> list[Lined]:
    """Say which waiting jobs shall wait behind whom. Call it when all that fits is placed."""
    if not ahead_s or not view.lanes or not view.seats:
        return []
    order = view.order(now)
    depths = [(lane, _depth(view, order, lane, ahead_s)) for name, lane in view.lanes.items() if name in view.seats]
    short = [(lane, depth) for lane, depth in depths if depth]
    if not short:
        return []
    firsts, tails = Firsts(view, order), _tails(view)
    found: list[Lined] = []
    for lane, depth in short:
        seats: list[Seat] = []
        for job in islice(view.seats[lane.name].values(), SEATS_MOST):
            node, key = job.seated[0].node, key_of(job)
            tail, length = tails.get(key, (key, 0))
            if length < depth and firsts.leave_room(node, lane, 0) and takes(node):
                seats.append((length, tail, node))
        found += _behind(view, firsts, lane, depth, seats)
    return found


def _depth(view: View, order: Ranking, lane: Lane, ahead_s: float) -> int:
    """How many of a lane may wait behind one place: few enough that their work is short, by what is known of it."""
    need = lane.name.need
    if need.nodes != 1 or need.gpus or order.policy_of(lane.name.queue) == "las":
        return 0
    run_s = view.history.longest_s(lane.name.length.likes[0])
    return 0 if run_s is None else min(DEPTH_MOST, int(ahead_s / max(run_s, 0.001)))


def _behind(view: View, firsts: Firsts, lane: Lane, depth: int, seats: list[Seat]) -> list[Lined]:
    """Share out the first of a lane evenly, in their order. Whoever was tried before is placed in the usual way."""
    found: list[Lined] = []
    for length in range(depth):
        for at, (has, tail, node) in enumerate(seats):
            if has > length or not firsts.leave_room(node, lane, len(found)):
                continue
            key = lane.at(len(found))
            if key is None or view.queued[key[2]].attempt is not None:
                return found
            found.append(Lined(key[2], node, tail))
            seats[at] = (has + 1, task_key(key[2], 1, 0), node)
    return found


class Firsts:
    """Who goes first, of all who wait, on each kind of node."""

    def __init__(self, view: View, order: Ranking) -> None:
        self._view = view
        self._order = order
        self._by_shelf: dict[Shelf, list[tuple[Rank, LaneName]]] = {}

    def on(self, node: NodeId) -> Rank | None:
        ranked = self._ranked(node)
        return ranked[0][0] if ranked else None

    def leave_room(self, node: NodeId, lane: Lane, number: int) -> bool:
        """Whether a place on a node would go to the one with this number in its lane: none of another goes before."""
        ranked = self._ranked(node)
        others = next((rank for rank, name in ranked if name is not lane.name), None)
        own = self.rank(lane, number)
        return bool(ranked) and own is not None and (others is None or own < others)

    def _ranked(self, node: NodeId) -> list[tuple[Rank, LaneName]]:
        """The first of the two lanes that come first there."""
        shelf = self._view.free.shelf_of(node)
        if shelf is None:
            return []
        if shelf not in self._by_shelf:
            lanes = [lane for lane in self._view.lanes.values() if shelf in self._view.free.suited(lane.name.need)]
            ranks = [(rank, lane.name) for lane in lanes if (rank := self.rank(lane)) is not None]
            self._by_shelf[shelf] = nsmallest(2, ranks, key=itemgetter(0))
        return self._by_shelf[shelf]

    def rank(self, lane: Lane, number: int = 0) -> Rank | None:
        key = lane.at(number)
        return None if key is None else self._order.rank(lane.name, key, self._view.queued[key[2]].submitted_at)


def _tails(view: View) -> dict[str, tuple[str, int]]:
    """For each place behind which somebody waits: who is the last of them, and how many they are."""
    after = {job.attempt.tasks[0].behind: job for job in view.lined.values() if job.attempt}
    keys = {key_of(job) for job in view.lined.values()}
    tails: dict[str, tuple[str, int]] = {}
    for first in [key for key in after if key not in keys]:
        key, length = first, 0
        while key in after:
            key, length = key_of(after[key]), length + 1
        tails[first] = (key, length)
    return tails


def call_back(view: View, now: float, ahead_s: float) -> list[JobId]:
    """Say who shall wait in the queue again: another goes before it now, or its turn does not come."""
    if not view.lined:
        return []
    order = view.order(now)
    firsts = Firsts(view, order)
    back: list[JobId] = []
    for job in view.lined.values():
        assert job.attempt is not None
        first = firsts.on(job.attempt.tasks[0].node)
        if overdue_at(job, ahead_s) <= now or (first is not None and first < view.rank(job, order)):
            back.append(job.id)
    return back


def overdue_at(job: Job, ahead_s: float) -> float:
    """When a job that has not begun by then is called back: the one before it takes longer than was known."""
    assert job.attempt is not None
    return job.attempt.placed_at + max(OVERDUE_S_LEAST, OVERDUE * ahead_s)


def next_overdue(view: View, ahead_s: float) -> float | None:
    """When time alone calls somebody back."""
    return min((overdue_at(job, ahead_s) for job in view.lined.values()), default=None)


def out_of_the_way(before: Job, after: Job) -> bool:
    """Whether a task left its place, or its place in line, by this change: who is behind it moves up."""
    if before.attempt is None or before.spec.nodes != 1 or before.attempt.tasks[0].over:
        return False
    task = after.attempt.tasks[0] if after.attempt is not None and after.number == before.number else None
    return task is None or task.over or (task.phase is Phase.SAVING and before.attempt.tasks[0].seated)
