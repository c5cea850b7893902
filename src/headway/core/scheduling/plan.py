"""One plan: who gets which places, who makes room for whom, and who waits in vain.

In order until one does not fit; it gets a reservation (reservations.py), perhaps by preemption (preemption.py);
others may start where that delays nobody, shortest first. The plan is data; the caller carries it out.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from headway.core.job.signals import Seat
from headway.core.model import JobId, NodeId, Resources
from headway.core.scheduling.capacity import FREE, Barred, Level, Shelf, find_seats, level_of
from headway.core.scheduling.fit import Need, Room
from headway.core.scheduling.gang_repair import as_before
from headway.core.scheduling.preemption import make_room, told_to
from headway.core.scheduling.ranking import Key, Lane, Rank, Ranking
from headway.core.scheduling.reservations import Leaving, Reservation, Reservations, reserve
from headway.core.scheduling.shares import Counter, Short
from headway.core.scheduling.view import View

LEND_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Placement:
    job: JobId
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """A job that is to end and be queued again, so that another may start."""

    job: JobId
    for_whom: JobId
    why: str


@dataclass(frozen=True, slots=True)
class Never:
    """A waiting job whose time can never come."""

    job: JobId
    detail: str
    needless: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    placements: tuple[Placement, ...]
    preemptions: tuple[Preemption, ...] = ()
    never: tuple[Never, ...] = ()


def plan(view: View, now: float, placements_most: int = 1000) -> Plan:
    """Say which waiting jobs can be placed where, now. The caller saves it; the view itself stays as it was."""
    view.wake(now)
    waits = view.dependencies
    never = tuple(
        Never(job, detail, job in waits.needless) for job, detail in sorted(waits.never.items()) if job in view.blocked
    )
    if not view.lanes:
        return Plan((), (), never)
    trial = Trial(view, now, placements_most)
    try:
        trial.run()
    finally:
        trial.undo()
    return Plan(tuple(trial.placements), tuple(trial.preemptions), never)


class Trial:
    """One plan in the making: it takes room in the view, and puts everything back in the end."""

    def __init__(self, view: View, now: float, placements_most: int, asked: JobId | None = None) -> None:
        self.view = view
        self.asked = asked  # Stop when its turn comes: those before it are placed, it is not.
        self.now = now
        self.order: Ranking = view.order(now)
        self.most = placements_most
        self.placements: list[Placement] = []
        self.preemptions: list[Preemption] = []
        self.kept = Reservations()
        self._next: dict[int, int] = {}  # By lane: how many of it are placed.
        self._rooms_before: dict[NodeId, Room] = {}
        self._taken: dict[NodeId, list[Leaving]] = {}  # What this plan has placed so far.
        self._counted: list[Lane] = []
        self._licences: dict[str, int] = {}
        self._of_array: dict[str, int] = {}
        self._full: set[Counter | str] = set()  # Counters at which a job waits already; those behind it wait too.
        self._misfits: set[Need] = set()
        self._waiting: set[Shelf] = set()  # Shelves for which somebody waits with a reservation.
        self._borrowers: dict[int, Lane] = {}
        self._heads: list[tuple[JobId, Lane]] = []  # They wait with a reservation that is still to be made.
        self.looked_at: dict[JobId, float] = {}  # When those end who were asked for their end.

    # --- the three passes ---

    def run(self) -> None:
        self.repair()
        if self.in_order():
            self.backfill()
            self.borrow()
        if self.asked is not None:
            self.settle()

    def repair(self) -> None:
        """Gangs that lost a node get their other places back before anybody else, or have them kept for a while."""
        for repair in self.view.repairs.values():
            lane, key = self.view.lane_of(repair.job)
            if repair.job == self.asked or lane.at(self._next.get(id(lane), 0)) != key:
                continue
            need = lane.name.need
            if self._counts(lane) and self._place(lane, key, Barred(frozenset(), repair.survivors)):
                placed = self.placements[-1]
                self.placements[-1] = Placement(placed.job, as_before(placed.seats, repair))
                continue
            self._misfits.discard(need)
            rooms = self.view.rooms
            there = [node for node in repair.survivors if node in rooms and rooms[node].holds(need)]
            if there:
                spare = {node: _less(level_of(rooms[node]), need) for node in there}
                self.kept.add(Reservation(repair.job, need, self.now, there, spare.__getitem__))

    def in_order(self) -> bool:
        """Place in order, until each kind of node has somebody who waits for it. False: it is the turn of who asked."""
        lanes = self.view.lanes
        first = [(rank, lane) for lane in lanes.values() if (rank := self._rank(lane)) is not None]
        heap: list[tuple[Rank, int, Lane]] = [(rank, id(lane), lane) for rank, lane in first]
        heapq.heapify(heap)
        shelves = len(self.view.free.shelves)
        while heap and len(self.placements) < self.most and len(self._waiting) < shelves:
            rank, _, lane = heap[0]
            need = lane.name.need
            if need in self._misfits or not self._waiting.isdisjoint(self.view.free.suited(need)):
                heapq.heappop(heap)
                continue
            key = rank[4]
            if key[2] == self.asked:
                return False
            barred = self.kept.barred(need, self.ends_at(lane)) if self.kept.made else FREE
            allowed = self._counts(lane)
            if not allowed or not self._place(lane, key, barred):
                heapq.heappop(heap)
                if allowed and not barred.names:
                    self._keep_places(lane, key, rank)
                continue
            again = self._rank(lane)
            if again is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (again, id(lane), lane))
        return True

    def backfill(self) -> None:
        """Place what nobody before it would miss: by priority, then the shortest first."""
        if not self._waiting or not self.view.policy.backfill_depth:
            return
        heap = []
        for need, lanes in self.view.by_need.items():
            if need in self._misfits or self.view.free.count(need) < need.nodes:
                continue
            heap += [entry for lane in lanes.values() if (entry := self._candidate(lane)) is not None]
        self._fill(heap, borrowing=False)

    def borrow(self) -> None:
        """Place beyond quotas what nobody within a quota wants."""
        heap = [entry for lane in self._borrowers.values() if (entry := self._candidate(lane)) is not None]
        self._fill(heap, borrowing=True)

    # --- placing ---

    def _fill(self, heap: list[tuple[tuple[int, int, float], Key, int, Lane]], borrowing: bool) -> None:
        if heap:
            self.settle()
        heapq.heapify(heap)
        tries = max(self.view.policy.backfill_depth, LEND_TRIES if borrowing else 0)
        while heap and tries > 0 and len(self.placements) < self.most:
            _, key, _, lane = heapq.heappop(heap)
            need = lane.name.need
            if need in self._misfits or not self._counts(lane, borrowing):
                continue
            barred = self.kept.barred(need, self.ends_at(lane))
            if self._place(lane, key, barred):
                again = self._candidate(lane)
                if again is not None:
                    heapq.heappush(heap, again)
            else:
                tries -= 1

    def _candidate(self, lane: Lane) -> tuple[tuple[int, int, float], Key, int, Lane] | None:
        key = lane.at(self._next.get(id(lane), 0))
        if key is None:
            return None
        name = lane.name
        urgency = (-self.order.queue(name.queue).priority, -name.priority, self.order.estimate_s(name.length))
        return urgency, key, id(lane), lane

    def _rank(self, lane: Lane) -> Rank | None:
        key = lane.at(self._next.get(id(lane), 0))
        if key is None:
            return None
        return self.order.rank(lane.name, key, self.view.queued[key[2]].submitted_at)

    def ends_at(self, lane: Lane) -> float:
        return self.now + self.order.estimate_s(lane.name.length)

    def _place(self, lane: Lane, key: Key, barred: Barred) -> bool:
        """Take places for the next job of a lane. Where it does not fit although no node is barred, none alike does."""
        view, name = self.view, lane.name
        need = name.need
        nodes = find_seats(view.free, need, barred, self.now, name.length.limit_s)
        if nodes is None:
            # A node that leaves soon may still do for a shorter job that is alike.
            if not barred.names and view.free.staying(need, self.now, name.length.limit_s) == view.free.suited(need):
                self._misfits.add(need)
            return False
        wants = Resources(need.cpus, need.memory_bytes, need.gpus)
        ends_at = self.ends_at(lane)
        seats = []
        for node in nodes:
            self._rooms_before.setdefault(node, view.rooms[node])
            if self.kept.made:
                self.kept.took(node, need, ends_at)
            seats.append(Seat(node, view.free.take(node, wants)))
            self._taken.setdefault(node, []).append((ends_at, need.cpus, need.memory_bytes, need.gpus))
        self._next[id(lane)] = self._next.get(id(lane), 0) + 1
        self._count(lane)
        self.placements.append(Placement(key[2], tuple(seats)))
        return True

    # --- quotas and licences ---

    def _counts(self, lane: Lane, borrowing: bool = False) -> bool:
        """Whether quotas and licences allow one more of this lane. The first who must wait there holds up others."""
        if not lane.counters and not lane.name.licences and lane.name.array is None:
            return True
        if not self._licensed(lane) or not self._within_array(lane):
            return False
        if borrowing or not lane.counters:
            return True
        queue = self.order.queue(lane.name.queue)
        if any(counter in self._full for counter in lane.counters):
            short: tuple[Counter, Short] | None = None
        else:
            short = self.view.counted.short(queue, lane.counters, lane.amounts)
            if short is None:
                return True
            if not short[1].never:
                self._full.add(short[0])
        if queue.borrow:
            self._borrowers[id(lane)] = lane
        return False

    def allows(self, lane: Lane | None) -> bool:
        """Whether it is room alone for which this lane waits."""
        return lane is None or self._counts(lane)

    def _licensed(self, lane: Lane) -> bool:
        for name, count in lane.name.licences:
            have = self.view.licences.get(name, 0)
            if name in self._full:
                return False
            if self.view.licences_held.get(name, 0) + self._licences.get(name, 0) + count > have:
                if count <= have:
                    self._full.add(name)
                return False
        return True

    def _within_array(self, lane: Lane) -> bool:
        """Whether one more of its array may run. A retried element may stand in another lane of the same array."""
        if lane.name.array is None:
            return True
        array, most = lane.name.array
        return self.view.of_array.get(array, 0) + self._of_array.get(array, 0) < most

    def _count(self, lane: Lane) -> None:
        if lane.name.array is not None:
            array = lane.name.array[0]
            self._of_array[array] = self._of_array.get(array, 0) + 1
        if lane.counters:
            self.view.counted.add(lane.counters, lane.amounts, 1)
            self._counted.append(lane)
        for name, count in lane.name.licences:
            self._licences[name] = self._licences.get(name, 0) + count

    # --- whoever must wait ---

    def _keep_places(self, lane: Lane, key: Key, rank: Rank) -> None:
        """The next of this lane does not fit: make room for it if that may be, and keep places for it."""
        view = self.view
        job = view.queued[key[2]]
        need = lane.name.need
        las = self.order.policy_of(lane.name.queue) == "las"
        if view.policy.preemption or las:
            ending = [each.job for each in self.preemptions]
            kept = [name for each in self.kept.made for name in each.nodes]
            room = make_room(view, self.order, job, need, ending, kept)
            if room is not None:
                for victim in room.victims:
                    self.preemptions.append(Preemption(victim, job.id, told_to(view.active[victim], job, room.reason)))
                self._keep(Reservation(job.id, need, self.now, list(room.spare), room.spare.__getitem__))
                return
        if las and rank[2]:
            return  # Time-sharing: the next one may go, and this one's turn comes by its service or its patience.
        if las:
            found = reserve(job.id, need, view.free, self.leaving, self.now, lane.name.length.limit_s)
            if found is not None:
                self._keep(found)
        elif view.free.could_hold(need):
            self._heads.append((job.id, lane))
            self._waiting.update(view.free.suited(need))

    def settle(self) -> None:
        """Seek the places of the first who wait. Late, because often there is nobody who could delay them."""
        for job, lane in self._heads:
            need = lane.name.need
            found = reserve(job, need, self.view.free, self.leaving, self.now, lane.name.length.limit_s)
            if found is not None:
                self.kept.add(found)
        self._heads.clear()

    def _keep(self, reservation: Reservation) -> None:
        self.kept.add(reservation)
        if self.order.policy_of(self.view.queued[reservation.job].spec.queue) != "las":
            self._waiting.update(self.view.free.suited(reservation.need))

    def leaving(self, node: NodeId) -> list[Leaving]:
        """Who leaves this node when, and with what."""
        found = list(self._taken.get(node, ()))
        ends, view = self.looked_at, self.view
        for (job, _), (wants, gpus) in view.held.get(node, {}).items():
            end = ends.get(job)
            if end is None:
                end = ends[job] = view.ends_at(view.active[job], self.now)
            found.append((end, wants.cpus, wants.memory_bytes, len(gpus)))
        return found

    def undo(self) -> None:
        for room in self._rooms_before.values():
            self.view.free.set(room)
        for lane in self._counted:
            self.view.counted.add(lane.counters, lane.amounts, -1)


def _less(level: Level, need: Need) -> Level:
    return level[0] - need.cpus, level[1] - need.memory_bytes, level[2] - need.gpus
