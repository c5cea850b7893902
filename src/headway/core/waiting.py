"""Why a job waits, as counted evidence. explain.py makes the sentence; forecast.py says until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.core.fit import Need
from headway.core.model import Job, JobId
from headway.core.order import Key, Lane, Order, Rank
from headway.core.shares import Short
from headway.core.view import View, wakes_at

AHEAD_NAMED = 3


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
    nodes_seen: int = 0
    held: bool = False  # Until somebody releases it.
    until: float | None = None  # It asked not to start before this time.
    after: tuple[str, ...] = ()  # Jobs that must end first.
    in_vain: str = ""  # Why what it waits for can never come.
    quota: Short | None = None
    licence: tuple[str, int, int] | None = None  # Name, how many are free, how many it wants.
    ahead_first: tuple[JobId, ...] = ()  # The first of those ahead.
    starts_at: float | None = None  # When it will probably start.
    starts_exactly: bool = False  # Whether that is what the plan would do; else it is not before that time.
    change: str = ""  # The smallest change with which it would start now.


def why_waiting(job: Job, view: View, now: float, ahead: int | None = None) -> Waiting:
    """Gather the evidence for one waiting job."""
    return Why(view, now).of(job, ahead)


def why_all_waiting(jobs: Iterable[Job], view: View, now: float) -> dict[JobId, Waiting]:
    """The evidence for many: what they have in common is looked up once."""
    why = Why(view, now)
    return {job.id: why.of(job) for job in jobs}


class Why:
    """Answers about one view at one moment. Nodes are counted once for each need, lanes once for each rank."""

    def __init__(self, view: View, now: float) -> None:
        self.view = view
        self.now = now
        self.order: Order = view.order(now)
        self._counts: dict[Need, tuple[int, tuple[tuple[str, int], ...], bool]] = {}
        self._firsts: dict[int, Rank] = {}

    def of(self, job: Job, ahead: int | None = None) -> Waiting:
        view, now = self.view, self.now
        wishes = job.spec.wishes
        if wishes.hold:
            return Waiting(held=True)
        after = view.dependencies.waits_for(job.id)
        if after:
            in_vain = view.dependencies.never.get(job.id, "")
            return Waiting(after=tuple(f"{each.job} ({each.when})" for each in after), in_vain=in_vain)
        if job.not_before > now:
            return Waiting(backing_off_s=job.not_before - now)
        if wakes_at(job) > now:
            return Waiting(until=wakes_at(job))
        if not view.rooms:
            return Waiting(no_nodes=True, nodes_wanted=job.spec.nodes)
        return self._for_room(job, ahead)

    def _for_room(self, job: Job, ahead: int | None) -> Waiting:
        view = self.view
        name = view.lane_name(job)
        fitting, lacking, never = self._counted(name.need)
        named: tuple[JobId, ...] = ()
        if ahead is None:
            ahead = self.ahead(job)
        found = Waiting(
            ahead=ahead,
            ahead_first=named,
            nodes_wanted=job.spec.nodes,
            nodes_fitting=fitting,
            nodes_seen=len(view.rooms),
            lacks=lacking,
            never=never,
        )
        short = None
        if name.queue in view.queues:
            lane = view.lanes.get(name)
            if lane is not None:
                short = view.counted.short(self.order.queue(name.queue), lane.counters, lane.amounts)
        if short is not None:
            found = replace(found, quota=short[1])
        for licence, count in name.licences:
            free = view.licences.get(licence, 0) - view.licences_held.get(licence, 0)
            if count > free:
                never = count > view.licences.get(licence, 0)
                found = replace(found, licence=(licence, max(0, free), count), never=found.never or never)
                break
        return found

    def ahead(self, job: Job) -> int:
        """How many waiting jobs go before this one."""
        view, order = self.view, self.order
        mine = view.rank(job, order)
        return sum(self._before(lane, mine) for lane in view.lanes.values())

    def _before(self, lane: Lane, mine: Rank) -> int:
        rank = self._firsts.get(id(lane))
        if rank is None:
            first = lane.at(0)
            assert first is not None
            rank = self._firsts[id(lane)] = self._rank(lane, first)
        if rank >= mine:
            return 0
        if rank[2] and rank[:4] < mine[:4]:
            return len(lane)
        if rank[2] and rank[:4] == mine[:4]:
            return lane.before(mine[4])
        # Those who have waited beyond all patience stand first: count one by one.
        return sum(self._rank(lane, key) < mine for key in lane)

    def _rank(self, lane: Lane, key: Key) -> Rank:
        return self.order.rank(lane.name, key, self.view.queued[key[2]].submitted_at)

    def _counted(self, need: Need) -> tuple[int, tuple[tuple[str, int], ...], bool]:
        known = self._counts.get(need)
        if known is None:
            counts, able = self.view.free.tally(need)
            fitting = counts.pop("", 0)
            lacking = tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            known = self._counts[need] = (fitting, lacking, able < need.nodes)
        return known
