"""How fast the scheduler decides: a whole plan, one tick, and the answers to "why", over a large house.

A tick is one new job, one ended job and the plan that follows. Seconds are of the processor, so that neighbours do not
count. `rows()` gives what was measured, the unit and the goal.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from headway.core.model import Attempt, Job, Node, Phase, Resources, State, Task
from headway.core.scheduling.scheduler import Plan, View, plan, view_of, why_all_waiting, why_waiting
from headway.core.spec.job import JobSpec

NOW = 1_700_000_000.0
JOBS = 100_000
NODES = 10_000
SHAPES = 50
USERS = 20
TICKS = 100
PAGE = 50

Row = tuple[str, float, str, float]  # What, measured, unit, goal.


def specs() -> list[JobSpec]:
    """Fifty shapes: one to eight GPUs, one to sixteen nodes, limits from ten minutes to three days."""
    found = []
    for number in range(SHAPES):
        gpus = (1, 2, 4, 8, 1)[number % 5]
        nodes = (1, 1, 2, 4, 16)[number // 10]
        limit_s = 600.0 * 2 ** (number % 9)
        wants = Resources(4.0 + number % 3, 2**30 * (4 + number % 7), gpus)
        found.append(JobSpec(("train",), f"shape{number}", nodes=nodes, resources=wants, wall_s_max=limit_s))
    return found


def house(jobs: int = JOBS, nodes: int = NODES) -> View:
    """A full house: every GPU is in use but a few, and many wait."""
    machines = [Node(f"node-{number:05d}", "pool", Resources(96.0, 2**40, 8)) for number in range(nodes)]
    view = view_of([], machines)
    kinds = specs()
    for number in range(jobs):
        spec = kinds[(number * 7) % SHAPES]
        view.saw(None, Job(f"w{number:06d}", spec, f"u{number % USERS}", NOW - jobs + number, seq=jobs + number))
    small = replace(kinds[0], resources=Resources(4.0, 2**32, 2))
    for number in range(nodes * 4):
        if number % 1000 != 999:
            seat = Task(0, machines[number // 4].id, (number % 4 * 2, number % 4 * 2 + 1), phase=Phase.GOING)
            began = NOW - 1.0 - number % 500
            attempt = Attempt(1, (seat,), began, started_at=began)
            job = Job(f"r{number:06d}", small, f"u{number % USERS}", began, State.RUNNING, attempt, seq=number)
            view.saw(None, job)
    return view


def carry_out(view: View, said: Plan, now: float) -> None:
    for placement in said.placements:
        before = view.queued[placement.job]
        tasks = tuple(Task(index, seat.node, seat.gpus, Phase.GOING) for index, seat in enumerate(placement.seats))
        attempt = Attempt(before.number + 1, tasks, now, started_at=now)
        view.saw(before, replace(before, state=State.RUNNING, attempt=attempt))


def tick(view: View, number: int) -> float:
    """One ends, one comes, the plan follows; how long that took."""
    now = NOW + number
    ending = view.active[f"r{number * 31:06d}"]
    assert ending.attempt is not None
    over = replace(
        ending.attempt, tasks=tuple(replace(t, phase=Phase.ENDED) for t in ending.attempt.tasks), ended_at=now
    )
    ended = replace(ending, state=State.SUCCEEDED, attempt=over, ended_at=now)
    spec = specs()[number % SHAPES]
    came = Job(f"x{number:06d}", spec, f"u{number % USERS}", now, seq=10 * JOBS + number)
    began = time.process_time()
    view.saw(ending, ended)
    view.saw(None, came)
    carry_out(view, plan(view, now), now)
    return time.process_time() - began


def rows(jobs: int = JOBS, nodes: int = NODES, ticks: int = TICKS) -> list[Row]:
    """Measure everything on a house of this size."""
    view = house(jobs, nodes)
    began = time.process_time()
    said = plan(view, NOW)
    whole_s = time.process_time() - began
    carry_out(view, said, NOW)
    ticked = sorted(tick(view, number) for number in range(1, ticks + 1))
    waiting = list(view.queued.values())
    began = time.process_time()
    why_waiting(waiting[len(waiting) // 2], view, NOW)
    why_s = time.process_time() - began
    page = waiting[:: max(1, len(waiting) // PAGE)][:PAGE]
    began = time.process_time()
    why_all_waiting(page, view, NOW)
    page_s = time.process_time() - began
    empty = view_of(list(view.queued.values()), [room.node for room in view.rooms.values()])
    began = time.process_time()
    placed = len(plan(empty, NOW).placements)
    empty_s = time.process_time() - began
    size = f"{jobs:,} queued jobs of {SHAPES} shapes, {nodes:,} nodes"
    return [
        (f"plan, full house: {size}", 1000 * whole_s, "ms", 1000.0),
        (f"plan, empty house: {placed:,} placements", 1000 * empty_s, "ms", 1000.0),
        ("tick: one new, one ended, plan (median)", 1000 * statistics.median(ticked), "ms", 20.0),
        ("tick (the slowest of a hundred)", 1000 * ticked[-1], "ms", 0.0),
        ("why, one job", 1000 * why_s, "ms", 50.0),
        (f"why, a page of {PAGE}", 1000 * page_s, "ms", 50.0),
        ("plan of 100 equal small jobs", 1000 * hundred_s(), "ms", 2.0),
    ]


def hundred_s() -> float:
    """A hundred placements of one shape on one node, the best of five."""
    spec = JobSpec(("true",), "noop", resources=Resources(0.02, 0, 0))
    waiting = [Job(f"j{number}", spec, "u", NOW, seq=number) for number in range(10_000)]
    view = view_of(waiting, [Node("local-1", "local", Resources(2.0, 2**34, 0))])
    best = 1.0
    for _ in range(5):
        began = time.process_time()
        said = plan(view, NOW)
        best = min(best, time.process_time() - began)
        assert len(said.placements) == 100
    return best


if __name__ == "__main__":
    import sys

    for what, measured, unit, goal in rows():
        sys.stdout.write(f"{what}: {measured:.2f} {unit} (goal {goal:g})\n")
