"""What the judge asks at the end, and of the working copy in between: promises kept, logs exact, nothing left over.

Each function raises Broken with the sentence that does not hold. The record that it judges by is the oracle's.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from headway.control.state.working_copy import WorkingCopy, read_book
from headway.core.job.causes import TABLE, Whose
from headway.core.model import Cause, Job, JobId, Phase, State
from headway.sim.judge.broken import Broken
from headway.sim.judge.oracle import Oracle
from headway.sim.server.ordered_engine import OrderedEngine
from headway.sim.server.storage import STREAMS
from headway.store.protocol import JobFilter, LogRange
from headway_wire.tasks import task_key

if TYPE_CHECKING:
    from headway.sim.run import Simulation
    from headway.sim.workload import CodePlan


def check_working_copy(simulation: Simulation) -> None:
    """What the leader keeps by deltas equals what it would read from the store."""
    leader = simulation.server.leader()
    cycle = leader.cycle if leader is not None else None
    if cycle is None or cycle.doubtful:
        return
    kept, fresh = cycle.book, read_book(simulation.store, features=simulation.features)
    _same("jobs", kept.jobs, fresh.jobs)
    _same("active jobs", set(kept.active), set(fresh.active))
    _same("nodes", kept.nodes, fresh.nodes)
    _same("tasks by node", _filled(kept.on_node), _filled(fresh.on_node))
    _same("waiting jobs", _waiting(kept), _waiting(fresh))
    _same("rooms", _rooms(kept), _rooms(fresh))
    _same("counts of arrays", kept.view.of_array, fresh.view.of_array)
    _same("features' rows", kept.tables, fresh.tables)
    shown = cycle.snapshot
    _same("shown jobs", dict(shown.jobs), fresh.jobs)
    _same("shown nodes", dict(shown.nodes), fresh.nodes)
    _same("shown tasks", dict(shown.tasks), _filled(fresh.on_node))
    _same("shown rows of features", dict(shown.tables), fresh.tables)


def _same(what: str, kept: object, fresh: object) -> None:
    if kept != fresh:
        raise Broken("safety", "server", f"the leader's {what} differ from the store's: {kept} instead of {fresh}")


def _filled(by_node: dict[str, dict[str, tuple[str, int]]]) -> dict[str, dict[str, tuple[str, int]]]:
    return {node: tasks for node, tasks in by_node.items() if tasks}


def _waiting(book: WorkingCopy) -> set[JobId]:
    return set(book.view.queued) | set(book.view.backing_off)


def _rooms(book: WorkingCopy) -> dict[str, tuple[float, int, tuple[int, ...]]]:
    return {name: (round(room.cpus, 6), room.memory_bytes, room.gpus) for name, room in book.view.rooms.items()}


def check_end(simulation: Simulation) -> None:
    """Everything has settled: judge the whole."""
    check_working_copy(simulation)
    for plan in simulation.workload.plans.values():
        _promises(simulation, plan)
    for job in simulation.store.page(JobFilter(), None, 1000):
        _unchanged(simulation.oracle, job)
        _outcome(simulation, job)
        check_logs(simulation, job)
    _numbers(simulation)


def _promises(simulation: Simulation, plan: CodePlan) -> None:
    """An acknowledged submit is there until it is removed, and each key made one job at the most."""
    oracle, store = simulation.oracle, simulation.store
    made = [job.id for job in oracle.jobs.values() if job.spec.name == plan.name and job.retry_of is None]
    if len(made) > (plan.spec.wishes.array or 1):
        raise Broken("safety", made[0], f'the key "{plan.name}" made {len(made)} jobs: {made}')
    if plan.acknowledged is None:
        return
    if made != plan.promised:
        raise Broken("safety", plan.acknowledged, f"the submit was answered with {plan.acknowledged}, made was {made}")
    there = len(store.jobs(made)) == len(made)
    if not there and not plan.remove_sent:
        raise Broken("safety", made[0], f"{made[0]} was acknowledged and is gone, though nobody removed it")
    if there and plan.removed:
        raise Broken("safety", made[0], f"{made[0]} was removed and is there")


def _unchanged(oracle: Oracle, job: Job) -> None:
    seen = oracle.jobs.get(job.id)
    if seen is None or (seen.state, seen.version, seen.attempt) != (job.state, job.version, job.attempt):
        raise Broken("safety", job.id, f"{job.id} is not as it was last saved")


def _outcome(simulation: Simulation, job: Job) -> None:
    oracle = simulation.oracle
    plan = simulation.workload.plans[job.spec.name]
    reals = {number: real for (of, number), real in oracle.real.items() if of == job.id}
    ranks = job.spec.nodes * job.spec.ranks_per_node
    failures = [number for number, real in reals.items() if real.failed]
    if job.id in plan.cancel_taken and job.state is not State.CANCELLED:
        raise Broken("safety", job.id, f"the cancel of {job.id} was acknowledged, and it {job.state.value}")
    if job.state is State.CANCELLED and job.id not in plan.cancel_sent:
        raise Broken("safety", job.id, f"{job.id} was cancelled, and nobody asked for it")
    if job.state is State.SUCCEEDED and not (job.number in reals and _all_zero(oracle, job, ranks)):
        raise Broken("safety", job.id, f"{job.id} succeeded, but attempt {job.number} did not end with zeros")
    if job.state is State.SUCCEEDED:
        _files_kept(simulation, job)
    if job.retries.user > len(failures):
        raise Broken("safety", job.id, f"{job.id} paid {job.retries.user} retries for {len(failures)} failures")
    calm = [number for number in failures if _calm(oracle, job.id, number) and job.id not in plan.cancel_sent]
    if len(calm) > job.spec.retries_max + 1:
        raise Broken("safety", job.id, f"{job.id} failed {len(calm)} times with {job.spec.retries_max} retries")
    if job.id not in plan.cancel_sent:
        _budgets(simulation, job)
    if job.state is State.FAILED:
        _failed(job, plan, len(failures))


def _files_kept(simulation: Simulation, job: Job) -> None:
    """Nothing is called succeeded whose last save is not kept."""
    made = simulation.checkpoints
    for index in range(job.spec.nodes):
        last = max(made.saved[task_key(job.id, job.number, index)], default=0)
        if made.progress[job.id, job.number, index] < last:
            said = f"task {index} of attempt {job.number} had saved step {last} last, and it was not committed"
            raise Broken("safety", job.id, f"{job.id} succeeded, but {said}")


def _budgets(simulation: Simulation, job: Job) -> None:
    """Losses count from the newest step on: who moves on goes on, and who does not is ended after the limit."""
    again = job.spec.progress.again
    most = {Whose.PLATFORM: again.platform_max, Whose.CAPACITY: again.capacity_max}
    newest, since = simulation.checkpoints.whole(job, 0), dict.fromkeys(most, 0)
    for attempt in simulation.store.attempts(job.id):
        step = simulation.checkpoints.whole(job, attempt.number)
        if step > newest:
            newest, since = step, dict.fromkeys(most, 0)
        whose = TABLE[attempt.cause].whose if attempt.cause is not None else Whose.USER
        if whose not in most:
            continue
        since[whose] += 1
        over, ended = since[whose] > most[whose], attempt.number == job.number and job.state is State.FAILED
        if over != ended:
            end = "it was ended" if ended else "it went on"
            said = f"{since[whose]} losses without a new step, {most[whose]} are allowed ({whose.value})"
            raise Broken("safety", job.id, f"after attempt {attempt.number} of {job.id} {end}: {said}")


def _failed(job: Job, plan: CodePlan, failures: int) -> None:
    assert job.cause is not None
    if job.cause is Cause.TIME_LIMIT:
        fair = plan.kind == "limited"
    elif job.cause is Cause.WORKDIR_MISSING:
        fair = plan.kind == "homeless"
    elif TABLE[job.cause].whose is Whose.USER:
        fair = failures >= job.spec.retries_max + 1
    else:
        fair = True  # See _budgets.
    if not fair:
        said = f"{job.id} ({plan.kind}, {job.spec.retries_max} retries) failed with {job.cause.value}"
        raise Broken("safety", job.id, f"{said} after {failures} real failures in {job.number} attempts")


def _all_zero(oracle: Oracle, job: Job, ranks: int) -> bool:
    ends = oracle.real[job.id, job.number].ended.values()
    return len(ends) == ranks and all(code == 0 and not by for code, by in ends)


def _calm(oracle: Oracle, job: JobId, number: int) -> bool:
    """Nothing but the code itself can have ended this attempt."""
    if (job, number) in oracle.preempted:
        return False
    return not oracle.real[job, number].disturbed and oracle.undisturbed(job, number)


def check_logs(simulation: Simulation, job: Job) -> None:
    """The index is the prefix of what each rank wrote, without gap or repetition; whole for what ended by report."""
    oracle, store = simulation.oracle, simulation.store
    ends: dict[tuple[int, int, int, str], int] = {}
    for of, pieces in groupby(store.logs(job.id), key=lambda piece: piece.of[1:]):
        ends[of] = _contiguous(simulation, list(pieces))
        real = oracle.real.get((job.id, of[0]))
        process = real.born.get((of[1], of[2])) if real else None
        if process is None or ends[of] > process.stream_bytes(of[3], simulation.world.now):
            raise Broken(
                "safety", job.id, f"the log of {job.id}/{of[0]}/{of[1]} rank {of[2]} has more than was written"
            )
    for attempt in store.attempts(job.id):
        for task in attempt.tasks:
            if task.phase is not Phase.ENDED or task.outcome is None or task.outcome.cause is Cause.OUTCOME_LOST:
                continue
            real = oracle.real.get((job.id, attempt.number))
            for (index, rank), process in real.born.items() if real else ():
                for stream in STREAMS if index == task.index else ():
                    written = process.stream_bytes(stream, simulation.world.now)
                    have = ends.get((attempt.number, index, rank, stream), 0)
                    if have != written:
                        key = task_key(job.id, attempt.number, index)
                        said = f"rank {rank} of {key} wrote {written} bytes of {stream} and its end was reported"
                        raise Broken("safety", job.id, f"{said}; the index has {have}")


def _contiguous(simulation: Simulation, pieces: list[LogRange]) -> int:
    end = 0
    for piece in pieces:
        key = task_key(piece.job, piece.attempt, piece.task)
        if piece.start != end:
            raise Broken("safety", piece.job, f"the log of {key} goes on at {piece.start} after {end}")
        stored = simulation.storage.objects.get(piece.key, {}).get(piece.key_offset)
        if stored != (key, piece.rank, piece.stream, piece.start, piece.end):
            raise Broken("safety", piece.job, f"the log of {key} names {piece.key}, which holds {stored} there")
        end = piece.end
    return end


def _numbers(simulation: Simulation) -> None:
    """Events have numbers without gaps, but for those of jobs that were removed."""
    events = simulation.store.events(0, 1_000_000)
    numbers = [event.seq for event in events]
    if numbers != sorted(set(numbers)):
        raise Broken("safety", "server", "the events are out of order")
    if not simulation.oracle.forgotten and numbers != list(range(1, len(numbers) + 1)):
        raise Broken("safety", "server", "the events have gaps")


def unsettled(simulation: Simulation) -> tuple[str, str] | None:
    """What has not come to rest yet: about whom, and what."""
    for job in simulation.store.unfinished():
        return job.id, f"{job.id} is still {job.state.value} in attempt {job.number}"
    for plan in simulation.workload.plans.values():
        if plan.errands:
            return plan.acknowledged or plan.name, f"the user of {plan.name} still has {plan.errands} things to do"
    if isinstance(simulation.engine, OrderedEngine):
        return simulation.engine.left()
    for name, machine in simulation.machines.items():
        if not machine.up or machine.agent is None or machine.keeper is None:
            return name, f"{name} is not up"
        left = [process.task for process in machine.processes.values()]
        left += list(machine.keeper.table.tasks) + list(machine.agent.state.tasks)
        if left:
            return left[0].split("/")[0], f"{left[0]} is left on {name}"
    up = {node.id for node in simulation.store.nodes() if node.gone_at is None}
    for name in simulation.machines:
        if name not in up:
            return name, f"{name} is up, and the server does not know it"
    return None
