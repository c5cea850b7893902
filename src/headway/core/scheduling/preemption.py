"""Who must end so that a more important job can start: the cheapest, and no more than are needed.

What an end costs is the work lost with it: seconds since the newest committed checkpoint (or the start) times what
the job holds. Jobs that are ending already count as room to come, so nobody is ended twice for one purpose.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from headway.core.model import Job, JobId, NodeId, State
from headway.core.scheduling.capacity import Level, level_of
from headway.core.scheduling.fit import Need, Room
from headway.core.scheduling.ranking import Ranking, service_level
from headway.core.scheduling.reservations import LOOK_MOST, look_at
from headway.core.scheduling.shares import Counter, Held, amounts_of, counters_of
from headway.core.scheduling.view import View
from headway.core.spec.scheduling import SAME

LENT = "wants its own quota"


@dataclass(frozen=True, slots=True)
class MadeRoom:
    """Who ends, why this one and not another, and what is left on the nodes once the job has its places."""

    victims: tuple[JobId, ...]
    reason: str  # What the job has before them, as the end of a sentence about it.
    spare: dict[NodeId, Level]
    lost: float  # What it costs.


def told_to(victim: Job, job: Job, reason: str) -> str:
    """What a job is told that makes room: by whom only within its project, since others may not know of it."""
    same = victim.spec.project == job.spec.project
    return f"{job.spec.name} ({job.id}) {reason}" if same else f"a job of another project {reason}"


def lost_work(job: Job, now: float) -> float:
    """What would be lost if the job ended now: seconds since it last saved its progress, times what it holds."""
    attempt = job.attempt
    if attempt is None or attempt.started_at is None:
        return 0.0
    since = max(attempt.started_at, attempt.committed_at or 0.0)
    wants = job.spec.resources
    return max(0.0, now - since) * job.spec.nodes * (wants.gpus * 8.0 + wants.cpus)


def make_room(
    view: View, order: Ranking, job: Job, need: Need, ending: Iterable[JobId] = (), kept: Iterable[NodeId] = ()
) -> MadeRoom | None:
    """The cheapest way to start this job by ending others; None when there is none."""
    search = _Search(view, order, job, need, set(ending), frozenset(kept))
    groups: dict[str, list[NodeId]] = {}
    for name in look_at(view.free, need, max(LOOK_MOST, 4 * need.nodes)):
        if name not in search.kept:
            zone = view.rooms[name].node.zone if need.zone == SAME else ""
            groups.setdefault(zone, []).append(name)
    found = [made for zone in sorted(groups) if (made := search.among(groups[zone])) is not None]
    return min(found, key=lambda made: made.lost) if found else None


class _Search:
    def __init__(
        self, view: View, order: Ranking, job: Job, need: Need, ending: set[JobId], kept: frozenset[NodeId]
    ) -> None:
        self.view = view
        self.order = order
        self.job = job
        self.need = need
        self.ending = ending
        self.kept = kept
        self.las = order.policy_of(job.spec.queue) == "las"
        self.level = service_level(view.service_of(job, order.now), view.policy)
        self.urgency = self._urgency(job)
        self._may: dict[JobId, str] = {}
        self._cost: dict[JobId, float] = {}

    def among(self, names: list[NodeId]) -> MadeRoom | None:
        """Pick the nodes on which it costs least, one after the other; whoever ends for one frees the others too."""
        chosen: dict[JobId, None] = {}
        picked: list[NodeId] = []
        heap = [(cost, name) for name in names if (cost := self._price(name, chosen)) is not None]
        heapq.heapify(heap)
        while heap and len(picked) < self.need.nodes:
            cost, name = heapq.heappop(heap)
            if name in picked:
                continue
            fresh = self._price(name, chosen)
            if fresh is None:
                continue
            if fresh > cost:
                heapq.heappush(heap, (fresh, name))
                continue
            picked.append(name)
            for victim in self._victims(name, chosen) or ():
                chosen[victim] = None
                for other in {task.node for task in self.view.active[victim].seated}:
                    if other in names and other not in picked:
                        cheaper = self._price(other, chosen)
                        heapq.heappush(heap, (0.0 if cheaper is None else cheaper, other))
        if len(picked) < self.need.nodes:
            return None
        victims = self._fewest(picked, chosen)
        reason = self._reason(victims)
        need, spare = self.need, {}
        for name in picked:
            cpus, memory, gpus = level_of(self._room(name, victims))
            spare[name] = (cpus - need.cpus, memory - need.memory_bytes, gpus - need.gpus)
        return MadeRoom(tuple(victims), reason, spare, sum(self._price_of(victim) for victim in victims))

    def _room(self, name: NodeId, chosen: Iterable[JobId]) -> Room:
        """What the node has free once those who end are gone."""
        gone = set(chosen)
        room = self.view.rooms[name]
        for (job, _), (wants, gpus) in self.view.held.get(name, {}).items():
            if job in gone or job in self.ending or self.view.active[job].state is State.STOPPING:
                room = room.give_back(wants, gpus)
        return room

    def _price(self, name: NodeId, chosen: dict[JobId, None]) -> float | None:
        """What this node costs. The end of a gang frees several nodes, each at its part of the price."""
        victims = self._victims(name, chosen)
        if victims is None:
            return None
        wanted = self.need.nodes
        return sum(self._price_of(each) / min(wanted, len(self.view.active[each].seated)) for each in victims)

    def _victims(self, name: NodeId, chosen: dict[JobId, None]) -> list[JobId] | None:
        """Whose end makes the task fit here, beyond those already chosen; None when nobody's does."""
        room = self._room(name, chosen)
        if room.holds(self.need):
            return []
        on_node = {job for job, _ in self.view.held.get(name, {}) if job not in chosen and self._eligible(job)}
        picked: list[JobId] = []
        for victim in sorted(on_node, key=lambda each: (self._price_of(each), each)):
            if not self._still(victim, [*chosen, *picked]):
                continue
            picked.append(victim)
            room = self._room(name, [*chosen, *picked])
            if room.holds(self.need):
                for cheap in list(picked):
                    rest = [each for each in picked if each != cheap]
                    if self._room(name, [*chosen, *rest]).holds(self.need):
                        picked = rest
                return picked
        return None

    def _fewest(self, picked: list[NodeId], chosen: dict[JobId, None]) -> list[JobId]:
        """Without whoever need not end after all, the dearest first."""
        victims = sorted(chosen, key=lambda each: (self._price_of(each), each))
        for dear in reversed(list(victims)):
            rest = [each for each in victims if each != dear]
            if all(self._room(name, rest).holds(self.need) for name in picked):
                victims = rest
        return victims

    def _price_of(self, job: JobId) -> float:
        known = self._cost.get(job)
        if known is None:
            other = self.view.active[job]
            if self.las:
                # Time-sharing: whoever has had the most service makes room first.
                known = 1.0 / (1.0 + self.view.service_of(other, self.order.now))
            else:
                known = lost_work(other, self.order.now)
            self._cost[job] = known
        return known

    def _eligible(self, job_id: JobId) -> bool:
        known = self._may.get(job_id)
        if known is None:
            known = self._may[job_id] = self._because(self.view.active[job_id])
        return bool(known)

    def _because(self, other: Job) -> str:
        """Why this running job may be ended for ours; empty when it may not."""
        if other.state is not State.RUNNING or other.id in self.ending:
            return ""
        queue = self.order.queue(other.spec.queue)
        if not queue.preemptible or other.retries.capacity >= self.view.policy.preemptions_most:
            return ""
        if self.view.policy.preemption and self._urgency(other) < self.urgency:
            return "has a higher priority"
        if self.view.policy.preemption and queue.borrow and self._borrows(other):
            return f"{LENT} that was lent out"
        if self.las and self.order.policy_of(other.spec.queue) == "las" and self._urgency(other) == self.urgency:
            level = service_level(self.view.service_of(other, self.order.now), self.view.policy)
            return "has had less service" if level > self.level else ""
        return ""

    def _borrows(self, other: Job, gone: Iterable[JobId] = ()) -> bool:
        """Whether the account of this job holds more than its quota, once these are gone."""
        held = Held()
        held.by = dict(self.view.counted.by)
        for each in (self.view.active[job] for job in gone):
            held.add(_counters(each), amounts_of(each.spec.nodes, each.spec.resources), -1)
        return held.over(self.order.queue(other.spec.queue), _counters(other)) is not None

    def _still(self, victim: JobId, gone: list[JobId]) -> bool:
        """Whether it may still be ended when these end too: nobody gives back more than was borrowed."""
        return not self._may[victim].startswith(LENT) or self._borrows(self.view.active[victim], gone)

    def _urgency(self, job: Job) -> tuple[int, int]:
        return self.order.queue(job.spec.queue).priority, job.spec.priority

    def _reason(self, victims: Iterable[JobId]) -> str:
        return next((self._may[victim] for victim in victims), "")


def _counters(job: Job) -> tuple[Counter, ...]:
    return counters_of(job.spec.queue, job.spec.project, job.user)
