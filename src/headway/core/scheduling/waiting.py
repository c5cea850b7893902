"""Why a job waits, as counted evidence. explain.py makes the sentence; forecast.py says until when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.core.model import Job, JobId
from headway.core.scheduling.cheapest_change import cheapest_change
from headway.core.scheduling.fit import Need
from headway.core.scheduling.forecast import Forecast, Start, first_in_order, what_if
from headway.core.scheduling.plan import Trial
from headway.core.scheduling.ranking import Key, Lane, LaneName, Rank, Ranking
from headway.core.scheduling.reservations import reserve
from headway.core.scheduling.run_times import ENDLESS
from headway.core.scheduling.shares import Short, amounts_of, counters_of
from headway.core.scheduling.view import View, began_at, wakes_at

AHEAD_NAMED = 3
SMALL = 2000  # Up to so many nodes and running jobs, a look ahead takes no time to speak of.
LOOK_AHEAD = 60  # Plans per answer.
CHANGES_MOST = 4  # In a large house: for how many kinds of jobs the smallest change is sought in one answer.

Changes = dict[LaneName, str]


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
    licence: tuple[str, int, int, int] | None = None  # Its name; how many it wants, are free, are there at all.
    array: tuple[str, int, int] | None = None  # Its array's id; how many of it run, and may at once.
    ahead_first: tuple[JobId, ...] = ()  # The first of those ahead.
    starts_at: float | None = None  # When it will probably start.
    starts_exactly: bool = False  # Whether that is what the plan would do; else it is not before that time.
    starts_unknown: bool = False  # Nobody said how long those before it run.
    coming: str = ""  # What is known of nodes that were ordered for it.
    change: str = ""  # The smallest change with which it would start now.


def why_waiting(
    job: Job, view: View, now: float, ahead: int | None = None, forecast: Forecast | None = None
) -> Waiting:
    """Gather all evidence for one waiting job: also when it may start, and what would start it now."""
    why = WaitingReason(view, now, forecast)
    found = why.of(job, ahead)
    if not concerns_room(job, view, found):
        return found
    start = why.start(job) or earliest_start(view, job, now)
    return replace(why.with_outlook(job, found, start), ahead_first=why.first_ahead(found.ahead))


def why_all_waiting(
    jobs: Iterable[Job], view: View, now: float, forecast: Forecast | None = None, known: Changes | None = None
) -> dict[JobId, Waiting]:
    """The same for many: what they have in common is looked up once. Starts and changes need a forecast at hand.

    `known` keeps the changes found so far; they hold while the view stays as it is.
    """
    why = WaitingReason(view, now, forecast, known)
    found = {}
    for job in jobs:
        waiting = why.of(job)
        start = why.start(job)
        if start is not None and concerns_room(job, view, waiting):
            waiting = why.with_outlook(job, waiting, start)
        found[job.id] = waiting
    return found


def concerns_room(job: Job, view: View, waiting: Waiting) -> bool:
    """Whether it is only a matter of time until there is a place."""
    return job.id in view.queued and not waiting.never and not waiting.no_nodes


def starting(waiting: Waiting, start: Start | None) -> Waiting:
    if start is None or start.at == ENDLESS:
        return waiting
    if start.guessed:
        return replace(waiting, starts_unknown=True)
    return replace(waiting, starts_at=start.at, starts_exactly=start.exact)


def earliest_start(view: View, job: Job, now: float) -> Start | None:
    """When a job will start: looked ahead in a small house, and not before its own places are free in a large one."""
    if len(view.active) <= SMALL and len(view.rooms) <= SMALL:
        return what_if(view, job, now, LOOK_AHEAD)
    trial = Trial(view, now, 0)
    name = view.lane_name(job)
    found = reserve(job.id, name.need, view.free, trial.leaving, now, name.length.limit_s)
    guessed = any(view.estimate_s(each, began_at(view.active[each])) == ENDLESS for each in trial.looked_at)
    return Start(found.at, False, guessed) if found is not None else None


class WaitingReason:
    """Answers about one view at one moment. Nodes are counted once for each need, lanes once for each rank."""

    def __init__(self, view: View, now: float, forecast: Forecast | None = None, known: Changes | None = None) -> None:
        self.changes: Changes = {} if known is None else known
        self._sought = 0
        self.view = view
        self.now = now
        self.forecast = forecast
        self.order: Ranking = view.order(now)
        self._counts: dict[Need, tuple[int, tuple[tuple[str, int], ...], bool]] = {}
        self._firsts: dict[int, Rank] = {}

    def start(self, job: Job) -> Start | None:
        """When it starts, by the forecast; None without one."""
        if self.forecast is None or job.id not in self.view.queued:
            return None
        return self.forecast.start(job.id)

    def with_outlook(self, job: Job, waiting: Waiting, start: Start | None) -> Waiting:
        """The evidence with when it may start, and what would start it now."""
        change = "" if start is not None and start.at <= self.now else self._change(job)
        return replace(starting(waiting, start), change=change)

    def _change(self, job: Job) -> str:
        """Sought once for jobs that are alike; in a large house not for all kinds of a long list at once."""
        name = self.view.lane_name(job)
        known = self.changes.get(name)
        if known is None:
            if self._sought >= CHANGES_MOST and len(self.view.rooms) > SMALL:
                return ""
            self._sought += 1
            known = self.changes[name] = cheapest_change(self.view, job, self.now)
        return known

    def first_ahead(self, ahead: int) -> tuple[JobId, ...]:
        if not ahead:
            return ()
        return tuple(job.id for job in first_in_order(self.view, self.now, min(ahead, AHEAD_NAMED)))

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
            return Waiting(no_nodes=True, nodes_wanted=job.spec.nodes, coming=view.coming.get(job.id, ""))
        return self._for_room(job, ahead)

    def _for_room(self, job: Job, ahead: int | None) -> Waiting:
        view = self.view
        name = view.lane_name(job)
        fitting, lacking, never = self._counted(name.need)
        licence = self._licence(name)
        return Waiting(
            ahead=self.ahead(job) if ahead is None else ahead,
            nodes_wanted=job.spec.nodes,
            nodes_fitting=fitting,
            nodes_seen=len(view.rooms),
            lacks=lacking,
            never=never,
            quota=self._quota(job, name),
            licence=licence,
            array=self._array(name),
            coming=view.coming.get(job.id, ""),
        )

    def _quota(self, job: Job, name: LaneName) -> Short | None:
        if name.queue not in self.view.queues:
            return None
        counters = counters_of(name.queue, name.project, name.user)
        amounts = amounts_of(job.spec.nodes, job.spec.resources)
        short = self.view.counted.short(self.order.queue(name.queue), counters, amounts)
        return short[1] if short is not None else None

    def _licence(self, name: LaneName) -> tuple[str, int, int, int] | None:
        for licence, count in name.licences:
            there = self.view.licences.get(licence, 0)
            free = max(0, there - self.view.licences_held.get(licence, 0))
            if count > free:
                return licence, count, free, there
        return None

    def _array(self, name: LaneName) -> tuple[str, int, int] | None:
        if name.array is None:
            return None
        array, most = name.array
        runs = self.view.of_array.get(array, 0)
        return (array, runs, most) if runs >= most else None

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
