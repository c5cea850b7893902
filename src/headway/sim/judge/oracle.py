"""The judge: it stands outside, keeps its own record of what really happened, and names the sentence that broke.

It never takes the product's word for anything about processes: births, deaths and leases come from the simulated
machines. What was promised to users it hears from the users. judgement.py holds what is checked at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.core.invariants import broken_in, broken_in_arrays, broken_on_nodes
from headway.core.job.states import FOLLOWS, TASK_FOLLOWS
from headway.core.model import Cause, Job, JobId, State
from headway.sim.faults import LEASES_S
from headway.sim.judge.broken import Broken
from headway.sim.judge.leads import Leads
from headway.sim.judge.turns import Turns
from headway.store.protocol import Batch, Committed, Store
from headway_wire.tasks import split_key

if TYPE_CHECKING:
    from headway.sim.node.machine import Process
    from headway.sim.run import Simulation
    from headway.sim.server.server import SimServer

FOREVER = float("inf")
CLOCK_ERROR = 1.005  # A node's clock may be wrong by less than this; the server's one percent covers it.

LIMIT_ERROR = 0.985  # The server follows a clock that was set by one percent at most.


@dataclass
class Real:
    """What really happened in one attempt, as the machines know it."""

    began_at: float
    nodes: set[str] = field(default_factory=set)
    born: dict[tuple[int, int], Process] = field(default_factory=dict)  # (task, rank)
    ended: dict[tuple[int, int], tuple[int | None, str]] = field(default_factory=dict)  # Exit code, and ended by whom.
    journalled: set[tuple[int, int]] = field(default_factory=set)
    disturbed: bool = False  # Somebody signalled or ended a rank before any had failed by itself.
    parted_at: float = FOREVER  # When the first of its ranks ended.
    noticed: bool = False  # Some of its ranks were told to end: however they end, it may be the notice's echo.

    @property
    def failed(self) -> bool:
        """Whether the user's code failed by itself."""
        return any(by == "" and code != 0 for code, by in self.ended.values())

    def succeeded(self, ranks: int) -> bool:
        ends = self.ended.values()
        return len(ends) == ranks and all(end == (0, "") for end in ends) and len(self.journalled) == ranks


class Oracle:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.jobs: dict[JobId, Job] = {}  # As last saved; forgotten ones too.
        self.forgotten: set[JobId] = set()
        self.ran_since: dict[tuple[JobId, int], tuple[float, int | None]] = {}  # When, and in which epoch.
        self.events = 0
        self.saves = 0
        self.real: dict[tuple[JobId, int], Real] = {}
        self.places: dict[tuple[JobId, int], tuple[float, tuple[str, ...]]] = {}  # Since when, on which nodes.
        self.alive: dict[JobId, dict[int, tuple[str, Process]]] = defaultdict(dict)  # Job -> number -> node, process.
        self.on_node: dict[str, dict[int, Process]] = defaultdict(dict)
        self.lease_until: dict[str, float] = {}
        self.newest_lease: dict[str, tuple[float, float]] = {}  # From when, until when: a shorter one may follow.
        self.lapses: dict[str, list[float]] = defaultdict(list)  # When a node had lost its lease, or its life.
        self.agent_deaths: dict[str, list[float]] = defaultdict(list)
        self.naps: dict[str, list[float]] = defaultdict(list)
        self.keeper_deaths: dict[str, list[float]] = defaultdict(list)
        self.preempted: set[tuple[JobId, int]] = set()  # However their ranks end: it may be the notice's echo.
        self.asleep: set[str] = set()
        self.leads = Leads(simulation)
        self.turns = Turns(simulation)

    def breaks(self, about: str, sentence: str) -> None:
        raise Broken("safety", about, sentence)

    # --- saves ---

    def saved(self, batch: Batch, committed: Committed, store: Store, by: SimServer, epoch: int | None) -> None:
        self.saves += 1
        self.leads.wrote(by, epoch)
        self.simulation.checkpoints.commits(batch, store)
        events = len(batch.events)
        taken = [change.job for change in batch.jobs if change.job.id not in committed.stale]
        self.turns.saved(taken, self.jobs, store)
        for change in batch.jobs:
            if change.job.id not in committed.stale:
                events += len(change.events)
                for event in change.events:
                    if event.kind == "AttemptStopping" and event.data.get("cause") == "preempted":
                        self.preempted.add((change.job.id, event.attempt))
                self._changed(change.job, epoch)
        for forget in batch.forget:
            if forget.job not in committed.stale:
                events += 1
                self.forgotten.add(forget.job)
                self.world.tell(forget.job, "was forgotten")
        self.events += events
        if committed.last_seq != self.events:
            self.breaks("server", f"the newest event has number {committed.last_seq}, there were {self.events}")
        for event in batch.events:
            if event.kind == "NodeLost" and "silent" in event.data["detail"]:
                self._was_silent(event.data["node"], by)
        if batch.jobs or batch.nodes:
            nodes = {node.id: node for node in store.nodes()}
            unfinished = store.unfinished()
            for sentence in [*broken_on_nodes(unfinished, nodes), *broken_in_arrays(unfinished)]:
                self.breaks("server", sentence)

    def _was_silent(self, node: str, by: SimServer) -> None:
        """Only a whole lease of silence, heard by a server that was listening, gives a node up."""
        if self.world.now < self.lease_until.get(node, 0.0):
            self.breaks(node, f"{node} was given up while it holds a lease")
        silent_s = by.mono() - max(by.heard_at.get(node, 0.0), by.listening_since)
        least_s = min(LEASES_S) if self.simulation.drawn["lease_changes_per_hour"] else self.simulation.lease_s
        if silent_s < least_s:
            self.breaks(node, f"{node} was given up after {silent_s:.1f} s of silence, within its lease")

    def _changed(self, job: Job, epoch: int | None) -> None:
        before = self.jobs.get(job.id)
        said = broken_in(job)
        if before is not None:
            said += broken_between_saves(before, job)
            tagged = before.state.ended and job.spec.tags != before.spec.tags
            if (before.state.ended and not tagged) or job.id in self.forgotten:
                said.append(f"{job.id} changed after it was over")
        if said:
            self.breaks(job.id, said[0])
        if before is None or (before.state, before.number) != (job.state, job.number):
            where = f" on {', '.join(job.attempt.nodes)}" if job.attempt else ""
            cause = f" ({job.cause.value}: {job.detail})" if job.cause else ""
            self.world.tell(job.id, f"saved as {job.state.value}, attempt {job.number}{where}{cause}")
        self._in_time(job, epoch)
        if job.state is State.QUEUED or job.state.ended:
            self._nothing_left(job)
        if job.attempt is not None:
            self.places.setdefault((job.id, job.number), (self.world.now, job.attempt.nodes))
        self.jobs[job.id] = job

    def _nothing_left(self, job: Job) -> None:
        """What is called over is over: others get its place."""
        for node, process in self.alive[job.id].values():
            if node not in self.asleep:
                self.breaks(job.id, f"{job.id} is {job.state.value}, and its code is alive on {node}: {process.task}")

    def _in_time(self, job: Job, epoch: int | None) -> None:
        """A time limit is reached when that time has passed, whatever the server's wall clock shows meanwhile."""
        limit_s = job.spec.wall_s_max
        if limit_s is None or job.attempt is None:
            return
        if job.state is State.RUNNING:
            self.ran_since.setdefault((job.id, job.number), (self.world.now, epoch))
        elif job.state is State.STOPPING and job.cause is Cause.TIME_LIMIT:
            since, by = self.ran_since.get((job.id, job.number), (0.0, 0))
            if (job.id, job.number) in self.real:
                since = min(since, self.real[job.id, job.number].began_at)  # A single task begins before it is told.
            ran_s = self.world.now - since
            # A new server begins with the wall clock as it finds it.
            if by == epoch and ran_s < limit_s * LIMIT_ERROR:
                self.breaks(job.id, f"{job.id} was ended by its time limit of {limit_s:.1f} s after {ran_s:.1f} s")

    # --- processes ---

    def born(self, node: str, process: Process) -> None:
        job, attempt, task = split_key(process.task)
        self.world.tell(job, f"rank {process.rank} of attempt {attempt} {_kind(process)} on {node}")
        self.alive[job][id(process)] = (node, process)
        self.on_node[node][process.pid] = process
        if not process.orphan:
            real = self.real.setdefault((job, attempt), Real(self.world.now))
            real.nodes.add(node)
            real.born[task, process.rank] = process
            self._never_again(job, attempt)
            self._told_to_go(job, attempt)
            self.turns.born(node, process.task)
        if node not in self.asleep:
            self._alone(job, attempt)
        self._leased(node, job)
        self._holds(node)
        self._few_of_its_array(job)

    def _told_to_go(self, job: JobId, attempt: int) -> None:
        """A single task begins once its place is saved; of several, each once `go` is."""
        saved = self.jobs[job].attempt
        if saved is None or saved.number < attempt:
            self.breaks(job, f"user code of attempt {attempt} of {job} began before its place was saved")
        elif saved.number == attempt and saved.started_at is None and len(saved.tasks) > 1:
            self.breaks(job, f"user code of attempt {attempt} of {job} began before `go` was saved")

    def _alone(self, job: JobId, attempt: int) -> None:
        for node, other in self.alive[job].values():
            number = split_key(other.task)[1]
            if number != attempt and node not in self.asleep:
                self.breaks(job, f"attempts {number} and {attempt} of {job} are alive at once, {number} on {node}")

    def _leased(self, node: str, about: str) -> None:
        until = self.lease_until.get(node, 0.0)
        if self.world.now > until and node not in self.asleep:
            late_s = self.world.now - until
            self.breaks(about, f"user code was alive on {node} {late_s:.3f} s after the node's lease was over")

    def _holds(self, node: str) -> None:
        tasks = {process.task for process in self.on_node[node].values()}
        wants = [self.jobs[split_key(task)[0]].spec.resources for task in tasks]
        granted = self.simulation.machines[node].granted
        over = (
            sum(each.cpus for each in wants) > granted.cpus + 1e-6
            or sum(each.memory_bytes for each in wants) > granted.memory_bytes
            or sum(each.gpus for each in wants) > granted.gpus
        )
        if over:
            self.breaks(node, f"more is alive on {node} than it has: {sorted(tasks)}")

    def _few_of_its_array(self, about: JobId) -> None:
        """However it was placed, lost, retried or lined up: no more of an array are alive than may run at once."""
        job = self.jobs[about]
        most, array = job.spec.wishes.at_once, job.array_id
        if not most or array is None:
            return
        alive = [
            id
            for id, processes in self.alive.items()
            if self.jobs[id].array_id == array
            and any(not each.orphan and node not in self.asleep for node, each in processes.values())
        ]
        if len(alive) > most:
            self.breaks(about, f"{len(alive)} of array {array} are alive, and {most} may at once: {sorted(alive)}")

    def _never_again(self, job: JobId, attempt: int) -> None:
        """An attempt that really succeeded, and could tell, is not followed by another."""
        spec = self.jobs[job].spec
        for (other, number), real in self.real.items():
            if (
                other != job
                or number >= attempt
                or real.noticed
                or not real.succeeded(spec.nodes * spec.ranks_per_node)
            ):
                continue
            if not any(self.lapsed_since(node, real.began_at) for node in real.nodes):
                self.breaks(job, f"attempt {number} of {job} really succeeded, and attempt {attempt} began")

    def died(self, node: str, process: Process, exit_code: int | None, signal: int | None, by: str) -> None:
        job, attempt, task = split_key(process.task)
        how = f"exit code {exit_code}" if signal is None else f"signal {signal}"
        self.world.tell(job, f"rank {process.rank} of attempt {attempt} ended on {node}: {how} {by}".rstrip())
        self._leased(node, job)
        del self.alive[job][id(process)]
        del self.on_node[node][process.pid]
        real = self.real[job, attempt]
        real.disturbed = real.disturbed or (bool(by) and not real.failed)
        if not process.orphan:
            real.parted_at = min(real.parted_at, self.world.now)
            real.ended[task, process.rank] = (exit_code, by)
            self.turns.ended(process.task)

    def in_step_since(self, process: Process) -> float:
        """Since when a rank makes steps: those of several nodes wait for each other; for ever, if one never comes."""
        job, attempt, _ = split_key(process.task)
        spec, real = self.jobs[job].spec, self.real[job, attempt]
        if spec.nodes == 1:
            return process.born
        since = max(each.born for each in real.born.values())
        met = len(real.born) == spec.nodes * spec.ranks_per_node and since <= real.parted_at
        return since if met else FOREVER

    def in_step(self, process: Process) -> bool:
        """Whether all that it waits for are alive, and none is busy with its end."""
        job, attempt, _ = split_key(process.task)
        real = self.real[job, attempt]
        return self.jobs[job].spec.nodes == 1 or not (real.ended or any(each.termed for each in real.born.values()))

    def left_behind(self, process: Process) -> bool:
        """Whether it waits for ever for a rank of its gang that did not end well, until somebody ends it."""
        job, attempt, _ = split_key(process.task)
        return self.jobs[job].spec.nodes > 1 and any(each != (0, "") for each in self.real[job, attempt].ended.values())

    def sleeps(self, process: Process) -> bool:
        """Whether it waits for a rank on a machine that sleeps."""
        job, attempt, _ = split_key(process.task)
        return self.jobs[job].spec.nodes > 1 and any(node in self.asleep for node in self.real[job, attempt].nodes)

    def stopped_by_lease(self, task: str) -> None:
        """A keeper ends what may soon have no lease. The next grant may come in time, but too late for these."""
        job, attempt, _ = split_key(task)
        if (job, attempt) in self.real:
            self.real[job, attempt].disturbed = self.real[job, attempt].noticed = True

    def noticed(self, task: str) -> None:
        job, attempt, _ = split_key(task)
        if (job, attempt) in self.real:
            self.real[job, attempt].noticed = True

    def signalled(self, process: Process) -> None:
        job, attempt, _ = split_key(process.task)
        real = self.real[job, attempt]
        real.disturbed = real.disturbed or not real.failed

    def journalled(self, records: list[list[object]]) -> None:
        for record in records:
            if record[0] == "exit":
                job, attempt, task = split_key(str(record[1]))
                real = self.real.get((job, attempt))
                if real is not None:
                    real.journalled.add((task, int(str(record[2]))))

    # --- leases ---

    def granted(self, node: str, sent_at: float, lease_left_s: float) -> None:
        """A reply with a lease reached the node. By an outside clock it counts from when the call was sent."""
        if self.on_node[node]:
            self._leased(node, self._somebody_on(node))
        self.lapsed_since(node, 0.0)
        until = sent_at + lease_left_s * CLOCK_ERROR
        self.lease_until[node] = max(self.lease_until.get(node, 0.0), until)
        self.newest_lease[node] = max(self.newest_lease.get(node, (0.0, 0.0)), (sent_at, until))

    def lapsed_since(self, node: str, when: float) -> bool:
        """Whether the node was without a lease, or dead, at some moment since then."""
        _, until = self.newest_lease.get(node, (0.0, 0.0))
        if until < self.world.now and until not in self.lapses[node]:
            self.lapses[node].append(until)
        return any(lapse >= when for lapse in self.lapses[node])

    def undisturbed(self, job: JobId, attempt: int) -> bool:
        """Whether nothing happened to the nodes of an attempt from its placing on that could have ended it."""
        since, nodes = self.places[job, attempt]
        deaths = [when for node in nodes for when in self.keeper_deaths[node]]
        return not any(when >= since for when in deaths) and not any(self.lapsed_since(node, since) for node in nodes)

    def agents_lived(self, job: JobId, attempt: int) -> bool:
        """Whether no agent of an attempt has died since it was placed: the next does not know all that it knew."""
        since, nodes = self.places[job, attempt]
        return not any(when >= since for node in nodes for when in self.agent_deaths[node])

    def machine_died(self, node: str) -> None:
        self.lapses[node].append(self.world.now)

    def machine_booted(self, node: str) -> None:
        """Its lease ended with the boot before: the next one may be shorter."""
        self.lease_until.pop(node, None)

    def ran_apart(self, job: JobId, before: int) -> bool:
        """Whether a machine slept under an earlier attempt of a gang, and the others went on without it.

        Real gangs wait for each other; of tasks that run apart by more than an interval between saves it may be
        misjudged who saves (docs/decisions/0021).
        """
        placed = [self.places[job, attempt] for attempt in range(1, before) if (job, attempt) in self.places]
        gangs = [(since, nodes) for since, nodes in placed if len(nodes) > 1]
        return any(when >= since for since, nodes in gangs for node in nodes for when in self.naps[node])

    def fell_asleep(self, node: str) -> None:
        self.naps[node].append(self.world.now)
        if self.on_node[node]:
            self._leased(node, self._somebody_on(node))
        self.asleep.add(node)

    def woke_up(self, node: str) -> None:
        """Frozen code is not alive. What the keeper left alive at the wake-up is."""
        self.asleep.discard(node)
        for process in list(self.on_node[node].values()):
            job, attempt, _ = split_key(process.task)
            self._leased(node, job)
            self._alone(job, attempt)

    def _somebody_on(self, node: str) -> str:
        return split_key(next(iter(self.on_node[node].values())).task)[0]


def _reach(follows: Mapping[Any, frozenset[Any]]) -> dict[Any, frozenset[Any]]:
    """What can come after each state in one step or in several: a save may hold several."""
    reach = dict(follows)
    for _ in follows:
        reach = {state: after.union(*(reach[each] for each in after)) for state, after in reach.items()}
    return reach


_LATER = _reach(FOLLOWS)
_TASK_LATER = _reach(TASK_FOLLOWS)


def broken_between_saves(before: Job, after: Job) -> list[str]:
    """Sentences that do not hold between two saved versions of a job."""
    said: list[str] = []
    if after.state is not before.state and after.state not in _LATER[before.state]:
        said.append(f"{before.id} went from {before.state.value} to {after.state.value}")
    if after.number not in (before.number, before.number + 1):
        said.append(f"{before.id} went from attempt {before.number} to {after.number}")
    if before.attempt and after.attempt and before.number == after.number:
        for old, new in zip(before.attempt.tasks, after.attempt.tasks, strict=True):
            if old.phase is not new.phase and new.phase not in _TASK_LATER[old.phase]:
                said.append(f"{before.id}: task {old.index} went from {old.phase.value} to {new.phase.value}")
            if old.over and old != new:
                said.append(f"{before.id}: task {old.index} changed after its end")
    return said


def _kind(process: Process) -> str:
    return "left a descendant" if process.orphan else "began"
