"""The smallest change with which a waiting job would start now, beside everybody who goes before it.

Changes are tried in the order of what they cost the user: a shorter limit, a wish given up, fewer nodes, less on each.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.core.model import Job
from headway.core.scheduling.capacity import find_seats
from headway.core.scheduling.fit import Need
from headway.core.scheduling.plan import Trial
from headway.core.scheduling.view import View

SHORTEST_S = 60.0


def cheapest_change(view: View, job: Job, now: float) -> str:
    """What to change, as the words of the command line; empty when no single change helps."""
    trial = Trial(view, now, 1000, job.id)
    trial.run()
    try:
        return _search(trial, view, job, now)
    finally:
        trial.undo()


def _search(trial: Trial, view: View, job: Job, now: float) -> str:
    name = view.lane_name(job)
    if not trial.allows(view.lanes.get(name)):
        return ""
    run_s = trial.order.estimate_s(name.length)
    shorter = _shorter(trial, name.need, now, run_s)
    if shorter:
        return shorter
    for words, need in _easier(job, name.need, view.queue_of(job).pools):
        barred = trial.kept.barred(need, now + run_s)
        if find_seats(view.free, need, barred, now, name.length.limit_s) is not None:
            return words
    return ""


def _shorter(trial: Trial, need: Need, now: float, run_s: float) -> str:
    """A limit short enough to be over before the places are needed."""
    times = sorted({kept.at for kept in trial.kept.made if now + SHORTEST_S <= kept.at < now + run_s}, reverse=True)
    for at in times:
        if find_seats(trial.view.free, need, trial.kept.barred(need, at), now, at - now) is not None:
            minutes = int((at - now) // 60)
            return f"--max-duration {minutes}m" if minutes < 600 else f"--max-duration {minutes // 60}h"
    return ""


def _easier(job: Job, need: Need, pools: tuple[str, ...] | None) -> Iterator[tuple[str, Need]]:
    if job.spec.pool:
        yield f"another pool than {job.spec.pool}", need._replace(pools=pools)
    if need.zone:
        yield "no --zone", need._replace(zone="")
    if need.labels:
        yield "no --label", need._replace(labels=())
    if need.gpu_type:
        yield f"other GPUs than {need.gpu_type}", need._replace(gpu_type="")
    for nodes in _fewer(need.nodes):
        yield f"--nodes {nodes}", need._replace(nodes=nodes)
    for gpus in _fewer(need.gpus):
        yield f"--gpus {gpus}", need._replace(gpus=gpus)
    for cpus in _fewer(int(need.cpus)):
        yield f"--cpus {cpus}", need._replace(cpus=float(cpus))


def _fewer(count: int) -> Iterator[int]:
    """Smaller amounts, the largest first; of large ones not each."""
    if count <= 16:
        yield from range(count - 1, 0, -1)
        return
    while count > 1:
        count = count * 7 // 8
        yield count
