"""The judge of lines: nobody waits on a node behind others, or begins there, before somebody who goes first.

It follows who waits in the queue, when each task really ended, and what each node has heard from the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from headway.core.model import Cause, Job, JobId, State
from headway.store.protocol import Store
from headway_wire.reply import STOP, Duty
from headway_wire.tasks import split_key

if TYPE_CHECKING:
    from headway.sim.run import Simulation

HEARD_S = 6.0  # A call that is made so long after somebody has begun to wait is answered by a server that knows of it.


class Turns:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.waits: dict[JobId, tuple[float, Job]] = {}  # Those who were never placed: since when they wait.
        self.ends: dict[str, float] = {}  # By task: when its last rank ended.
        self.heard: dict[str, list[tuple[float, float]]] = {}  # By node: when it called, and when it was answered.
        self.given_up: dict[str, float] = {}  # By task: when its node heard that somebody else shall have its place.
        self.begun = 0  # How many began from a line.

    def saved(self, jobs: Iterable[Job], before: Mapping[JobId, Job], store: Store) -> None:
        """Judge who was put into a line by a save."""
        changed = list(jobs)
        for job in changed:
            if not _is_fresh(job):
                self.waits.pop(job.id, None)
        for job in changed:
            was = before.get(job.id)
            if job.lined and job.state is State.STARTING and (was is None or was.number != job.number):
                first = self._goes_first(job)
                if first is not None:
                    self._breaks(job, f"{job.id} was put into a line on {_node(job)}, and {first.id} goes before it")
        fresh = {job.id for job in changed if _is_fresh(job)} - self.waits.keys()
        for job in store.unfinished() if fresh else ():  # Only the store has given them their place in the order.
            if job.id in fresh:
                self.waits[job.id] = (self.world.now, job)

    def answered(self, node: str, sent_at: float, duties: Iterable[Duty]) -> None:
        """A node has heard from the server."""
        now = self.world.now
        cycle = self.simulation.servers[0].cycle
        # Where there are several servers, one that has just lost the lead may not know of it.
        if len(self.simulation.servers) == 1 and cycle is not None and cycle.book.view.free.shelf_of(node) is not None:
            self.heard.setdefault(node, []).append((sent_at, now))
        for duty in duties:
            if duty.do == STOP and duty.cause == Cause.PREEMPTED:
                self.given_up.setdefault(duty.task, now)

    def ended(self, task: str) -> None:
        self.ends[task] = self.world.now

    def born(self, node: str, task: str) -> None:
        """Judge who begins in a place of which the server does not know yet whose it is."""
        job_id, attempt, _ = split_key(task)
        job = self.simulation.oracle.jobs[job_id]
        if not job.lined or job.number != attempt:
            return
        self.begun += 1
        first = self._goes_first(job)
        if first is None:
            return
        since, before = self.waits[first.id][0], self._before(job)
        ended = self.ends.get(before, self.world.now)
        told = self.given_up.get(before)
        if told is not None and since < told <= ended:
            self._breaks(job, f"{job_id} begins in the place of {before}, which was preempted for {first.id}")
        if any(sent > since + HEARD_S and at < ended for sent, at in self.heard.get(node, ())):
            waits_s = self.world.now - since
            self._breaks(job, f"{job_id} begins from a line on {node}, where {first.id} has waited for {waits_s:.1f} s")

    def _before(self, job: Job) -> str:
        """The task whose place it takes: those between may have dropped out, of which the server has not heard."""
        oracle = self.simulation.oracle
        while True:
            assert job.attempt is not None
            before = job.attempt.tasks[0].behind
            one, attempt, _ = split_key(before)
            if (one, attempt) in oracle.real or not oracle.jobs[one].lined or oracle.jobs[one].number != attempt:
                return before
            job = oracle.jobs[one]

    def _goes_first(self, job: Job) -> Job | None:
        """Somebody who waits, could run on the node of this job, and is more important or was there before it."""
        granted = self.simulation.machines[_node(job)].granted
        for _, other in self.waits.values():
            wants = other.spec.resources
            fits = (
                other.spec.nodes == 1
                and wants.cpus <= granted.cpus
                and wants.memory_bytes <= granted.memory_bytes
                and wants.gpus <= granted.gpus
            )
            if fits and (-other.spec.priority, other.seq) < (-job.spec.priority, job.seq):
                return other
        return None

    def _breaks(self, job: Job, sentence: str) -> None:
        self.simulation.oracle.breaks(job.id, sentence)


def _is_fresh(job: Job) -> bool:
    return job.state is State.QUEUED and job.attempt is None and not job.not_before


def _node(job: Job) -> str:
    assert job.attempt is not None
    return job.attempt.tasks[0].node
