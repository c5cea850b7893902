"""A cluster that jumps from event to event: jobs arrive, `plan` places and preempts them, and they end.

It holds what no scheduler may know (true run times) and the clock. Every decision is the product's own `plan`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from headway.core.model import Attempt, Job, Node, Phase, Policy, Queue, State, Task
from headway.core.scheduling.scheduler import Placement, View, plan
from headway.core.scheduling.view import view_of

PLANS_MOST = 1000


@dataclass
class Trace:
    """One job of a log: what is submitted, and how long it really runs."""

    job: Job
    run_s: float
    started_at: float | None = None  # The first time.
    ended_at: float | None = None
    left_s: float = 0.0
    going_since: float | None = None
    starts: int = 0


@dataclass
class Replay:
    """What came of a log."""

    traces: Sequence[Trace]
    preemptions: int = 0
    plans: int = 0
    waits: list[float] = field(default_factory=list)


def slowdown(trace: Trace) -> float:
    """Bounded slowdown with a threshold of ten seconds."""
    assert trace.ended_at is not None
    spent = trace.ended_at - trace.job.submitted_at
    return max(1.0, spent / max(trace.run_s, 10.0))


def replay(
    traces: Sequence[Trace],
    nodes: Iterable[Node],
    policy: Policy,
    queues: Iterable[Queue] = (),
    restart_s: float = 0.0,
    look_every_s: float | None = None,
) -> Replay:
    """Run the whole log. With `look_every_s` the plan is also made that long after the last event."""
    view = view_of([], nodes, queues, policy)
    by_id = {trace.job.id: trace for trace in traces}
    result = Replay(traces)
    ends: list[tuple[float, str, int]] = []
    arrivals = sorted(traces, key=lambda trace: (trace.job.submitted_at, trace.job.seq))
    coming = 0
    jobs: dict[str, Job] = {}
    look_at = float("inf")
    while coming < len(arrivals) or ends:
        arrival = arrivals[coming].job.submitted_at if coming < len(arrivals) else float("inf")
        now = min(arrival, ends[0][0] if ends else float("inf"), look_at)
        while ends and ends[0][0] <= now:
            _, job_id, start = heapq.heappop(ends)
            if by_id[job_id].starts == start and job_id in jobs and jobs[job_id].state is State.RUNNING:
                _end(view, jobs, by_id[job_id], now)
        while coming < len(arrivals) and arrivals[coming].job.submitted_at <= now:
            trace = arrivals[coming]
            coming += 1
            trace.left_s = trace.run_s
            jobs[trace.job.id] = trace.job
            view.saw(None, trace.job)
        _settle(view, jobs, by_id, ends, result, now, restart_s)
        look_at = now + look_every_s if look_every_s and (view.queued and view.active) else float("inf")
    return result


def _settle(
    view: View,
    jobs: dict[str, Job],
    by_id: dict[str, Trace],
    ends: list[tuple[float, str, int]],
    result: Replay,
    now: float,
    restart_s: float,
) -> None:
    """Plan until there is nothing more to do at this moment."""
    for _ in range(PLANS_MOST):
        if not view.queued and not view.backing_off:
            return
        said = plan(view, now)
        result.plans += 1
        for preemption in said.preemptions:
            result.preemptions += 1
            _preempt(view, jobs, by_id[preemption.job], now)
        for placement in said.placements:
            _start(view, jobs, by_id[placement.job], placement, ends, now, restart_s)
        if not said.preemptions:
            return
    raise RuntimeError(f"{PLANS_MOST} plans at {now} and no end")


def _start(
    view: View,
    jobs: dict[str, Job],
    trace: Trace,
    placement: Placement,
    ends: list[tuple[float, str, int]],
    now: float,
    restart_s: float,
) -> None:
    before = jobs[placement.job]
    tasks = tuple(Task(index, seat.node, seat.gpus, phase=Phase.GOING) for index, seat in enumerate(placement.seats))
    attempt = Attempt(before.number + 1, tasks, now, started_at=now)
    after = replace(before, state=State.RUNNING, attempt=attempt, not_before=0.0)
    jobs[placement.job] = after
    view.saw(before, after)
    if trace.starts:
        trace.left_s += restart_s
    trace.starts += 1
    trace.going_since = now
    if trace.started_at is None:
        trace.started_at = now
    heapq.heappush(ends, (now + trace.left_s, placement.job, trace.starts))


def _end(view: View, jobs: dict[str, Job], trace: Trace, now: float) -> None:
    before = jobs.pop(trace.job.id)
    assert before.attempt is not None
    after = replace(before, state=State.SUCCEEDED, attempt=_over(before.attempt, now), ended_at=now)
    view.saw(before, after)
    trace.ended_at = now


def _preempt(view: View, jobs: dict[str, Job], trace: Trace, now: float) -> None:
    before = jobs[trace.job.id]
    assert before.attempt is not None
    assert trace.going_since is not None
    trace.left_s -= now - trace.going_since
    counted = replace(before.retries, capacity=before.retries.capacity + 1)
    after = replace(before, state=State.QUEUED, attempt=_over(before.attempt, now), retries=counted)
    jobs[trace.job.id] = after
    view.saw(before, after)


def _over(attempt: Attempt, now: float) -> Attempt:
    tasks = tuple(replace(task, phase=Phase.ENDED) for task in attempt.tasks)
    return replace(attempt, tasks=tasks, ended_at=now)
