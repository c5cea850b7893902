"""When waiting jobs will probably start: the same plan, made again and again over a copy of the view.

Time jumps from one expected end to the next; what is unknown is assumed, and then the answer says that it is not exact.
A job that is not reached within the steps starts no earlier than the time that was reached.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.core.job.signals import Seat
from headway.core.model import Attempt, Job, JobId, Phase, State, Task
from headway.core.scheduling.plan import plan
from headway.core.scheduling.ranking import Key, Lane, Rank
from headway.core.scheduling.run_times import ENDLESS, History, Length
from headway.core.scheduling.shares import Held
from headway.core.scheduling.view import View, began_at

AHEAD_MOST = 500  # How many of the queue are looked at.
STEPS_MOST = 4000  # How often the plan is made, at the most.
ASSUMED_S = 3600.0  # How long a job runs about which nothing is known.


@dataclass(frozen=True, slots=True)
class Start:
    """When a job will probably start; inexact: not before that time. Guessed: somebody before it may end any time."""

    at: float
    exact: bool
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected starts of the first in the order, as they looked at one moment."""

    made_at: float
    starts: dict[JobId, Start]
    reached: float  # Whoever is not among them starts later than this.
    guessed: bool = False

    def start(self, job: JobId) -> Start:
        return self.starts.get(job) or Start(self.reached, False, self.guessed)


class _Frozen(History):
    """What is known of run times, with nothing to learn from a mere outlook."""

    def __init__(self, known: History) -> None:
        super().__init__()
        self._ended = known._ended

    def learn(self, job: Job, length: Length) -> None:
        """Nothing: ends in a copy are not facts."""


def expected_starts(view: View, now: float, most: int = AHEAD_MOST, steps_most: int = STEPS_MOST) -> Forecast:
    """When the first of the order will start, as far as anybody can tell."""
    return outlook(view, now, most).run(None, steps_most)


def outlook(view: View, now: float, most: int = AHEAD_MOST) -> Outlook:
    """A forecast to be made in pieces."""
    return Outlook(view, now, first_in_order(view, now, most))


def what_if(view: View, job: Job, now: float, steps_most: int = STEPS_MOST) -> Start:
    """When this job would start: one that waits, or one that is not submitted yet."""
    waiting = first_in_order(view, now, AHEAD_MOST)
    if all(other.id != job.id for other in waiting):
        waiting.append(job)
    forecast = Outlook(view, now, waiting).run(job.id, steps_most)
    return forecast.start(job.id)


def first_in_order(view: View, now: float, most: int) -> list[Job]:
    """The jobs that could be placed, in the order in which they go."""
    order = view.order(now)

    def entry(lane: Lane, number: int) -> tuple[Rank, int, int, Lane] | None:
        key: Key | None = lane.at(number)
        if key is None:
            return None
        return order.rank(lane.name, key, view.queued[key[2]].submitted_at), number, id(lane), lane

    heap = [found for lane in view.lanes.values() if (found := entry(lane, 0)) is not None]
    heapq.heapify(heap)
    jobs: list[Job] = []
    while heap and len(jobs) < most:
        rank, number, _, lane = heap[0]
        jobs.append(view.queued[rank[4][2]])
        follower = entry(lane, number + 1)
        if follower is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, follower)
    return jobs


class Outlook:
    """A forecast in the making, over a copy of the view: it can be gone on with, also in another thread."""

    def __init__(self, view: View, now: float, waiting: Iterable[Job]) -> None:
        self.now = now
        self.copy = _copy(view)
        self.ends: list[tuple[float, JobId]] = []
        self.unknown: set[JobId] = set()
        self.made_at = now
        self.guessed = False
        self.done = False
        self.starts: dict[JobId, Start] = {}
        for job in view.active.values():
            self.ends.append((view.ends_at(job, now), job.id))
            if view.estimate_s(job.id, began_at(job)) == ENDLESS:
                self.unknown.add(job.id)
        heapq.heapify(self.ends)
        for job in waiting:
            self.copy.saw(None, _ready(job))

    def run(self, target: JobId | None, steps_most: int) -> Forecast:
        for _ in range(steps_most):
            self.done = self.done or self._step(target)
            if self.done:
                break
        return Forecast(self.made_at, dict(self.starts), self.now, self.guessed)

    def _step(self, target: JobId | None) -> bool:
        """One plan, and on to the next time at which something changes. True: there is no more to tell."""
        copy = self.copy
        said = plan(copy, self.now)
        for placement in said.placements:
            self.starts.setdefault(placement.job, Start(self.now, not self.guessed, self.guessed))
            self._begin(placement.job, placement.seats)
        for preemption in said.preemptions:
            self._over(preemption.job, State.QUEUED)
        if said.preemptions:
            return False
        if target in self.starts or not (copy.queued or copy.backing_off):
            return True
        later = min(self.ends[0][0] if self.ends else ENDLESS, copy.next_wake() or ENDLESS)
        if later == ENDLESS:
            self.now = ENDLESS
            return True
        self.now = max(self.now, later)
        while self.ends and self.ends[0][0] <= self.now:
            self._over(heapq.heappop(self.ends)[1], State.SUCCEEDED)
        return False

    def _begin(self, job_id: JobId, seats: Iterable[Seat]) -> None:
        job = self.copy.queued[job_id]
        tasks = tuple(Task(index, seat.node, seat.gpus, Phase.GOING) for index, seat in enumerate(seats))
        attempt = Attempt(job.number + 1, tasks, self.now, started_at=self.now)
        self.copy.saw(job, replace(job, state=State.RUNNING, attempt=attempt, not_before=0.0))
        run_s = self.copy.estimate_s(job_id, self.now)
        if run_s == ENDLESS:
            self.unknown.add(job_id)
            run_s = ASSUMED_S
        heapq.heappush(self.ends, (self.now + run_s, job_id))

    def _over(self, job_id: JobId, state: State) -> None:
        job = self.copy.active.get(job_id)
        if job is None or job.attempt is None:
            return
        tasks = tuple(replace(task, phase=Phase.ENDED) for task in job.attempt.tasks)
        attempt = replace(job.attempt, tasks=tasks, ended_at=self.now)
        ended_at = self.now if state.ended else None
        counted = replace(job.retries, capacity=job.retries.capacity + (not state.ended))
        self.copy.saw(job, replace(job, state=state, attempt=attempt, ended_at=ended_at, retries=counted))
        self.guessed = self.guessed or job_id in self.unknown


def _ready(job: Job) -> Job:
    """The job without the conditions that are met, or that nobody can put a time to."""
    wishes = job.spec.wishes
    if not wishes.after and not wishes.hold:
        return job
    return replace(job, spec=replace(job.spec, wishes=replace(wishes, after=(), hold=False)))


def _copy(view: View) -> View:
    """What is held and free, settings and knowledge, but nobody who waits."""
    copy = View()
    copy.queues = view.queues
    copy.policy = view.policy
    copy.licences = view.licences
    copy.licences_held = dict(view.licences_held)
    copy.of_array = dict(view.of_array)
    copy.free = view.free.copy()
    copy.active = dict(view.active)
    copy.lengths = dict(view.lengths)
    copy.held = {node: dict(held) for node, held in view.held.items()}
    copy.counted = Held()
    copy.counted.by = dict(view.counted.by)
    copy.shares = view.shares.copy()
    copy.history = _Frozen(view.history)
    copy._estimates = dict(view._estimates)
    copy._began_last = view._began_last
    copy.service = dict(view.service)
    return copy
