"""What the scheduler sees, indexed and kept by deltas: waiting jobs in lanes, free room, what is held, used and known.

It equals a view rebuilt from all jobs and nodes (with the same history and account of use); a test says so. Nothing in
it is the only copy of anything. scheduler.py plans with it, waiting.py explains from it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from headway.core.model import Job, JobId, Node, NodeId, Policy, Queue, Resources, State
from headway.core.scheduling.capacity import Rooms
from headway.core.scheduling.dependencies import Dependencies
from headway.core.scheduling.fit import Need, Room, empty_room, need_of
from headway.core.scheduling.gang_repair import Repair, repair_of
from headway.core.scheduling.ranking import PLAIN_QUEUE, Key, Lane, LaneName, Rank, Ranking, key_of
from headway.core.scheduling.run_times import ENDLESS, History, Length, expected_end, length_of
from headway.core.scheduling.shares import Counter, Held, Shares, Use, amounts_of, counters_of
from headway.core.spec.scheduling import NO_WISHES

ACTIVE = frozenset({State.STARTING, State.RUNNING, State.STOPPING})
LANES_REMEMBERED = 4096


class View:
    """Waiting jobs, free room and all that decides between them."""

    def __init__(self) -> None:
        self.free = Rooms()
        self.queued: dict[JobId, Job] = {}  # They could be placed at this moment.
        self.backing_off: dict[JobId, Job] = {}  # They wait for a time: a pause, or their own wish.
        self.blocked: dict[JobId, Job] = {}  # They are held, or wait for other jobs.
        self.active: dict[JobId, Job] = {}
        self.lined: dict[JobId, Job] = {}  # They wait on a node behind another: see waiting_lines.py.
        self.seats: dict[LaneName, dict[JobId, Job]] = {}  # Those of one task that hold a place, by lane.
        self.held: dict[NodeId, dict[tuple[JobId, int], tuple[Resources, tuple[int, ...]]]] = {}
        self.lanes: dict[LaneName, Lane] = {}
        self.by_need: dict[Need, dict[LaneName, Lane]] = {}
        self.queues: dict[str, Queue] = {}
        self.policy = Policy()
        self.licences: dict[str, int] = {}
        self.licences_held: dict[str, int] = {}
        self.of_array: dict[str, int] = {}  # By array: how many of its jobs hold places.
        self.counted = Held()
        self.shares = Shares(self.policy.half_life_s, self.policy.cpus_per_gpu)
        self.history = History()
        self.dependencies = Dependencies()
        self.service: dict[JobId, float] = {}  # GPU-seconds (of CPU jobs: CPU-seconds) had in earlier attempts.
        self.lengths: dict[JobId, Length] = {}  # Of those that hold places.
        self.coming: Mapping[JobId, str] = {}  # For those who wait for ordered nodes: what is known of these.
        self.version = 0  # Raised by every change; for those who remember answers.
        self.repairs: dict[JobId, Repair] = {}  # Gangs that lost a node, with the places that they may keep.
        self._in_lane: dict[JobId, tuple[Lane, Key]] = {}
        self._wakes: list[tuple[float, JobId]] = []
        self._names: dict[tuple[int, str, tuple[NodeId, ...], tuple[str, int] | None], tuple[Job, LaneName]] = {}
        self._alike: dict[tuple[object, ...], LaneName] = {}
        self._estimates: dict[JobId, float] = {}  # Of those that hold places, by what was known when they began.
        self._began_last = 0.0
        self._lengths: dict[Length, Length] = {}  # One of each, so that they can be told apart by identity.

    @property
    def rooms(self) -> dict[NodeId, Room]:
        return self.free.by_node

    # --- settings -----------------------------------------------------------------------------------------------------

    def set_queues(self, queues: Iterable[Queue]) -> None:
        """Take over the queues. Every waiting job is placed anew."""
        self.queues = {queue.name: queue for queue in queues}
        self._order_anew()

    def set_policy(self, policy: Policy) -> None:
        was = self.policy
        self.policy = policy
        if (was.half_life_s, was.cpus_per_gpu) != (policy.half_life_s, policy.cpus_per_gpu):
            old, self.shares = self.shares, Shares(policy.half_life_s, policy.cpus_per_gpu)
            now = max((job.attempt.placed_at for job in self.active.values() if job.attempt), default=0.0)
            for use in old.past(now):
                self.shares.add(use)
            for job in self.active.values():
                self.shares.begin(job, began_at(job))
        self._order_anew()

    def set_licences(self, licences: Mapping[str, int]) -> None:
        self.licences = dict(licences)
        self.version += 1

    def use(self, now: float) -> list[Use]:
        """The account of what ended jobs have used."""
        return self.shares.past(now)

    def add_use(self, use: Use) -> None:
        self.shares.add(use)
        self.version += 1

    def learn(self, job: Job) -> None:
        """Take note of how long an ended job ran."""
        self.history.learn(job, self.lane_name(job).length)
        self.version += 1
        attempt = job.attempt
        if attempt is not None and attempt.ended_at is not None and attempt.ended_at <= self._began_last:
            for other in self.active.values():  # Told late: whoever began after this end is expected anew.
                if began_at(other) >= attempt.ended_at:
                    self._estimates.pop(other.id, None)

    def inherit(self, other: View) -> None:
        """Take over what no store tells: settings, run times, use. Call it before the first job is seen."""
        self.set_queues(other.queues.values())
        self.set_policy(other.policy)
        self.set_licences(other.licences)
        self.history = other.history
        self.service = dict(other.service)
        self.coming = other.coming

    # --- nodes --------------------------------------------------------------------------------------------------------

    def saw_node(self, node: Node, open_: bool = True, because: str = "") -> None:
        """Take over a node that joined or changed. What is held there keeps its room."""
        bare = empty_room(node)
        room = Room(node, bare.cpus, bare.memory_bytes, bare.gpus, open_, because)
        for wants, gpus in self.held.get(node.id, {}).values():
            room = room.without(wants, gpus)
        self.free.put(room)
        self.version += 1

    def lost_node(self, node: NodeId) -> None:
        self.free.drop(node)
        self.version += 1

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def saw(self, before: Job | None, after: Job | None) -> None:
        """Take over one change of one job."""
        self.version += 1
        goes_on = before is not None and after is not None and before.number == after.number
        moves_up = goes_on and before.lined != after.lined  # type: ignore[union-attr]
        if goes_on and before.state in ACTIVE and after.state in ACTIVE and not moves_up:  # type: ignore[union-attr]
            self._move_on(before, after)  # type: ignore[arg-type]
            return
        if before is not None:
            self._leave(before, after)
        if after is not None:
            self._enter(after, before)

    def resolve(self, name: JobId, state: State | None) -> None:
        """Say how a job or array ended that was never seen here; None: there is none of that name."""
        self.version += 1
        self._free_heirs(self.dependencies.resolve(name, state))

    def unresolved(self) -> frozenset[JobId]:
        """Jobs and arrays that somebody waits for and whose fate only the store knows."""
        return frozenset(self.dependencies.unresolved)

    def wake(self, now: float) -> None:
        """Let jobs whose time has come wait in the queue."""
        while self._wakes and self._wakes[0][0] <= now:
            at, job_id = heapq.heappop(self._wakes)
            job = self.backing_off.get(job_id)
            if job is not None and wakes_at(job) == at:
                del self.backing_off[job_id]
                self._queue(job)
        for repair in [each for each in self.repairs.values() if each.until <= now]:
            del self.repairs[repair.job]

    def next_wake(self) -> float | None:
        """When time alone changes what a plan would say."""
        while self._wakes:
            at, job_id = self._wakes[0]
            job = self.backing_off.get(job_id)
            if job is not None and wakes_at(job) == at:
                break
            heapq.heappop(self._wakes)
        times = [self._wakes[0][0]] if self._wakes else []
        return min([*times, *(each.until for each in self.repairs.values())], default=None)

    def lane_of(self, job: JobId) -> tuple[Lane, Key]:
        return self._in_lane[job]

    def _move_on(self, before: Job, after: Job) -> None:
        """A job that holds places goes on holding them, all or some."""
        if after.lined:
            self.lined[after.id] = after
            return
        self._seat(before, after)
        self.active[after.id] = after
        had, has = before.seated, after.seated
        if len(had) == len(has):
            return  # Within one attempt tasks only end, or (when a save failed) come back.
        if not had or not has:
            self._count(after, 1 if has else -1)  # What only saves its files uses up nobody's quota.
        kept = {task.index for task in has}
        for task in had:
            if task.index not in kept:
                self._give_back(before, task.node, task.index, task.gpus)
        known = {task.index for task in had}
        for task in has:
            if task.index not in known:
                self._hold(after, task.node, task.index, task.gpus)

    def _enter(self, job: Job, before: Job | None) -> None:
        if job.state.ended:
            self._ended(job)
            if before is None:
                self._free_heirs(self.dependencies.resolve(job.id, job.state))
            return
        if before is None or before.state.ended:
            self.dependencies.opened(job)
        if job.state is State.QUEUED:
            self._wait(job)
            return
        if job.lined:
            self.lined[job.id] = job
        elif job.state in ACTIVE:
            self._seat(None, job)
            self.active[job.id] = job
            self.lengths[job.id] = self.lane_name(job).length
            began = began_at(job)
            self._began_last = max(self._began_last, began)
            self.estimate_s(job.id, began)  # Asked now, while what is known now is remembered.
            if job.seated:
                self._count(job, 1)
            self.shares.begin(job, began_at(job))
            if before is not None and before.number == job.number and before.attempt and before.attempt.ended_at:
                self.shares.uncharge(job, began_at(job), before.attempt.ended_at)
            for task in job.seated:
                self._hold(job, task.node, task.index, task.gpus)

    def _leave(self, job: Job, after: Job | None) -> None:
        if job.id in self._in_lane:
            self._unqueue(job)
        self.backing_off.pop(job.id, None)
        self.blocked.pop(job.id, None)
        if job.lined:
            self.lined.pop(job.id, None)
        elif job.state in ACTIVE:
            self._seat(job, None)
            self.active.pop(job.id, None)
            self.lengths.pop(job.id, None)
            self._estimates.pop(job.id, None)
            if job.seated:
                self._count(job, -1)
            self._charge(job, after)
            for task in job.seated:
                self._give_back(job, task.node, task.index, task.gpus)
        if not job.state.ended and (after is None or after.state.ended):
            self.dependencies.leave(job.id)
            self._free_heirs(self.dependencies.closed(job, after.state if after else None))

    def _ended(self, job: Job) -> None:
        self.learn(job)
        self.service.pop(job.id, None)

    def _charge(self, job: Job, after: Job | None) -> None:
        began = began_at(job)
        over = after.attempt if after is not None and after.number == job.number else None
        ended = over.over_at if over else None
        self.shares.end(job, began, ended)
        if ended is not None and after is not None and after.state is State.QUEUED and job.attempt:
            had = max(0.0, ended - (job.attempt.started_at or ended)) * service_rate(job)
            if had:
                self.service[job.id] = self.service.get(job.id, 0.0) + had

    def _count(self, job: Job, sign: int) -> None:
        spec = job.spec
        if spec.queue in self.queues:
            counters = counters_of(spec.queue, spec.project, job.user)
            self.counted.add(counters, amounts_of(spec.nodes, spec.resources), sign)
        for name, count in spec.wishes.licences:
            self.licences_held[name] = self.licences_held.get(name, 0) + sign * count
        if job.array_id is not None:  # Also without a limit: its waiting jobs may get one.
            self.of_array[job.array_id] = self.of_array.get(job.array_id, 0) + sign
            if not self.of_array[job.array_id]:
                del self.of_array[job.array_id]

    def _seat(self, before: Job | None, after: Job | None) -> None:
        """Keep the list of single tasks that hold a place and will leave it by themselves."""
        if before is not None and before.spec.nodes == 1:
            name = self.lane_name(before)
            seats = self.seats.get(name)
            if seats is not None and seats.pop(before.id, None) is not None and not seats:
                del self.seats[name]
        if after is not None and after.spec.nodes == 1 and after.seated and after.state is not State.STOPPING:
            self.seats.setdefault(self.lane_name(after), {})[after.id] = after

    def _hold(self, job: Job, node: NodeId, index: int, gpus: tuple[int, ...]) -> None:
        wants = job.spec.resources
        self.held.setdefault(node, {})[(job.id, index)] = (wants, gpus)
        room = self.rooms.get(node)
        if room is not None:
            self.free.set(room.without(wants, gpus))

    def _give_back(self, job: Job, node: NodeId, index: int, gpus: tuple[int, ...]) -> None:
        self.held[node].pop((job.id, index), None)
        room = self.rooms.get(node)
        if room is not None:
            self.free.set(room.give_back(job.spec.resources, gpus))

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, job: Job) -> None:
        wishes = job.spec.wishes
        if wishes is not NO_WISHES and (self.dependencies.enter(job) or wishes.hold):
            self.blocked[job.id] = job
            return
        at = wakes_at(job)
        if at > 0.0:
            self.backing_off[job.id] = job
            heapq.heappush(self._wakes, (at, job.id))
        else:
            self._queue(job)

    def _free_heirs(self, heirs: Iterable[JobId]) -> None:
        for heir in heirs:
            job = self.blocked.pop(heir, None)
            if job is not None:
                self._wait(job)

    def _queue(self, job: Job) -> None:
        self.queued[job.id] = job
        name = self.lane_name(job)
        lane = self.lanes.get(name)
        if lane is None:
            counters: tuple[Counter, ...] = ()
            if name.queue in self.queues:
                counters = counters_of(name.queue, name.project, name.user)
            lane = Lane(name, amounts_of(job.spec.nodes, job.spec.resources), counters)
            self.lanes[name] = lane
            self.by_need.setdefault(name.need, {})[name] = lane
            if name.need.labels:
                self.free.ask(name.need.labels)
        key = self._key(job, name)
        lane.add(key)
        self._in_lane[job.id] = (lane, key)
        if job.cause is not None and (repair := repair_of(job, self.policy.repair_s)) is not None:
            self.repairs[job.id] = repair

    def _unqueue(self, job: Job) -> None:
        del self.queued[job.id]
        self.repairs.pop(job.id, None)
        lane, key = self._in_lane.pop(job.id)
        lane.remove(key)
        if not len(lane):
            del self.lanes[lane.name]
            alike = self.by_need[lane.name.need]
            del alike[lane.name]
            if not alike:
                del self.by_need[lane.name.need]

    def _order_anew(self) -> None:
        """The rules changed: every job takes its place again, and what is held is counted again."""
        self.version += 1
        self._names.clear()
        self._alike.clear()
        self._lengths.clear()
        self._estimates.clear()
        waiting = list(self.queued.values())
        for table in (self.queued, self._in_lane, self.lanes, self.by_need):
            table.clear()
        for job in waiting:
            self._queue(job)
        self.counted = Held()
        self.licences_held = {}
        self.seats = {}
        for job in self.active.values():
            self._count(job, 1)
            self._seat(None, job)
            self.lengths[job.id] = self.lane_name(job).length

    # --- questions ----------------------------------------------------------------------------------------------------

    def queue_of(self, job: Job) -> Queue:
        return self.queues.get(job.spec.queue) or PLAIN_QUEUE

    def need(self, job: Job) -> Need:
        queue = self.queue_of(job)
        need = need_of(job.spec, queue.pools, job.avoid)
        if not need.layout and (queue.policy or self.policy.name) == "las":
            return need._replace(layout="pack")  # Time-sharing leaves holes, and gangs need whole nodes.
        return need

    def length(self, job: Job) -> Length:
        length = length_of(job, self.queue_of(job).wall_s_default)
        return self._lengths.setdefault(length, length)

    def lane_name(self, job: Job) -> LaneName:
        """The lane in which a job waits. A job keeps its spec, and many are alike, hence the two memories."""
        spec = job.spec
        # Equal arrays may share their description, and each has its own limit.
        array = (job.array_id, spec.wishes.at_once) if spec.wishes.at_once and job.array_id is not None else None
        known = self._names.get((id(spec), job.user, job.avoid, array))
        if known is not None:
            return known[1]
        alike = (
            job.user, spec.name, spec.queue, spec.project, spec.pool, spec.priority, spec.nodes, spec.resources,
            spec.wall_s_max, spec.wishes, job.avoid, array,
        )  # fmt: skip
        name = self._alike.get(alike)
        if name is None:
            need, length = self.need(job), self.length(job)
            of = (spec.queue, spec.project, job.user, spec.priority)
            name = LaneName(*of, need, length, spec.wishes.licences, array)
            self._alike[alike] = name
        if len(self._names) >= LANES_REMEMBERED:
            self._names.clear()
            self._alike.clear()
            self._forget_lengths()
        # The job keeps its spec's id from being used again.
        self._names[id(spec), job.user, job.avoid, array] = (job, name)
        return name

    def _forget_lengths(self) -> None:
        """Let go of lengths that nobody has any more."""
        kept = [*self.lengths.values(), *(name.length for name in self.lanes)]
        self._lengths = {length: length for length in kept}

    def _key(self, job: Job, name: LaneName) -> Key:
        policy = self.queue_of(job).policy or self.policy.name
        return key_of(job, self.policy, policy, name.length, self.service.get(job.id, 0.0))

    def order(self, now: float) -> Ranking:
        return Ranking(self.queues, self.policy, self.shares, self.history, now)

    def rank(self, job: Job, order: Ranking) -> Rank:
        name = self.lane_name(job)
        return order.rank(name, self._key(job, name), job.submitted_at)

    def service_of(self, job: Job, now: float) -> float:
        """What a job has had so far, in GPU-seconds (of CPU jobs: CPU-seconds)."""
        had = self.service.get(job.id, 0.0)
        attempt = job.attempt
        if job.state in ACTIVE and attempt is not None and attempt.started_at is not None:
            had += max(0.0, min(now, attempt.over_at or now) - attempt.started_at) * service_rate(job)
        return had

    def ends_at(self, job: Job, now: float) -> float:
        """When a job that holds places will probably give them back."""
        if job.state is State.STOPPING:
            return max(now, job.stop_by or now)
        began = began_at(job)
        estimate_s = self.estimate_s(job.id, began)
        if now - began < estimate_s != ENDLESS:
            return began + estimate_s
        return expected_end(began, estimate_s, self.lengths[job.id].limit_s, now)

    def estimate_s(self, job: JobId, began: float) -> float:
        """How long a job that holds places was expected to run when it began."""
        known = self._estimates.get(job)
        if known is None:
            from_history = self.policy.estimates == "history"
            known = self._estimates[job] = self.history.estimate_s(self.lengths[job], from_history, began)
        return known


def began_at(job: Job) -> float:
    """Since when a job holds its places."""
    attempt = job.attempt
    assert attempt is not None, f"{job.id} holds places without an attempt"
    return attempt.placed_at


def wakes_at(job: Job) -> float:
    """Before when a job must not start; 0 when there is no such time."""
    return max(job.not_before, job.spec.wishes.start_at or 0.0)


def service_rate(job: Job) -> float:
    wants = job.spec.resources
    return job.spec.nodes * float(wants.gpus or wants.cpus)


def view_of(
    jobs: Iterable[Job],
    nodes: Iterable[Node],
    queues: Iterable[Queue] = (),
    policy: Policy | None = None,
    licences: Mapping[str, int] | None = None,
) -> View:
    """A view built from nothing: what the one kept by deltas must equal."""
    view = View()
    if policy is not None:
        view.set_policy(policy)
    view.set_queues(queues)
    view.set_licences(licences or {})
    for node in nodes:
        view.saw_node(node)
    for job in jobs:
        view.saw(None, job)
    return view
