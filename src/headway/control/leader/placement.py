"""The plan carried out: what the scheduler wants becomes signals to jobs; and what its view must know to want it.

The only file between the scheduler's interface (docs/explanation/scheduling.md) and the rest of control.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headway.control.state.cluster_config import ClusterConfig
from headway.control.state.transaction import Transaction
from headway.core.fields import one_of
from headway.core.job.signals import CanNeverRun, Placed, Seat, StopDecided
from headway.core.model import ENDS, POLICIES, Cause, Job, JobId, Policy, State
from headway.core.scheduling import scheduler, waiting_lines
from headway.core.scheduling.scheduler import View
from headway.core.scheduling.shares import Use
from headway.settings import Settings
from headway.store.protocol import JobFilter, Store, UseAccount

LEARNED = 1000
"""How many ended jobs are read at a start, for their run times."""
SAVE_USE_S = 60.0


def policy_of(settings: Settings) -> Policy:
    for name, chosen, known in (
        ("policy", settings.policy, tuple(POLICIES)),
        ("estimates", settings.estimates, ("history", "limit")),
        ("preemption", settings.preemption, ("on", "off")),
    ):
        one_of(chosen, name, known)
    return Policy(
        name=settings.policy,
        half_life_s=settings.half_life_s,
        patience_s=settings.patience_s,
        cpus_per_gpu=settings.cpus_per_gpu,
        backfill_depth=settings.backfill_depth,
        estimates=settings.estimates,
        preemption=settings.preemption == "on",
        preemptions_most=settings.preemptions_most,
        repair_s=settings.repair_s,
    )


def new_view(store: Store, house: ClusterConfig, policy: Policy, older: View | None, now: float) -> View:
    """A view that knows the rules, the past use and the run times; jobs and nodes are yet to come."""
    view = View()
    if older is not None:
        view.inherit(older)
    view.set_policy(policy)
    view.set_queues(house.queues.values())
    view.set_licences(house.licences)
    if older is not None:
        used: Iterable[Use] = older.use(now)
    else:
        used = [Use(_account(each), each.amount, each.at) for each in store.use()]
        ends = JobFilter(states=frozenset(state.value for state in ENDS))
        for job in reversed(store.page(ends, None, LEARNED)):
            view.learn(job)
    for use in used:
        view.add_use(use)
    return view


def _account(use: UseAccount) -> tuple[str, ...]:
    return tuple(name for name in (use.queue, use.project, use.user) if name)


def carry_out(tx: Transaction, now: float, ahead_s: float = 0.0, agent_version: str = "") -> bool:
    """Plan, and let what it wants happen. Says whether that was anything, so that another plan may want more."""
    tx.touched = set()
    book = tx.book
    for name in book.view.unresolved():
        book.view.resolve(name, _fate(tx.store, name))
    plan = scheduler.plan(book.view, now)
    for never in plan.never:
        tx.step(book.jobs[never.job], CanNeverRun(never.detail, never.needless))
    for preemption in plan.preemptions:
        job = book.jobs[preemption.job]
        tx.step(job, StopDecided(job.number, Cause.PREEMPTED, preemption.why))
    for placement in plan.placements:
        job = book.jobs[placement.job]
        tx.step(job, Placed(placement.seats, book.trail.step_for(job)))
        book.untold.add(job.id)
    lined = line_up(tx, now, ahead_s, agent_version)
    return lined or bool(plan.never or plan.preemptions or plan.placements)


def line_up(tx: Transaction, now: float, ahead_s: float, agent_version: str) -> bool:
    """Let short jobs wait on nodes behind others, and call those back whose turn it is no longer."""
    book = tx.book
    for job_id in waiting_lines.call_back(book.view, now, ahead_s):
        if job_id not in book.called_back:
            book.called_back.add(job_id)
            book.touched.update(node for node in _nodes_of(book.jobs[job_id]))
    nodes = book.nodes
    takes = lambda node: node in nodes and nodes[node].agent_version == agent_version  # noqa: E731
    found = waiting_lines.line_up(book.view, now, ahead_s, takes)
    for each in found:
        job = book.jobs[each.job]
        tx.step(job, Placed((Seat(each.node, ()),), book.trail.step_for(job), each.behind))
        book.untold.add(job.id)
    return bool(found)


def _nodes_of(job: Job) -> tuple[str, ...]:
    return job.attempt.nodes if job.attempt else ()


def _fate(store: Store, name: JobId) -> State | None:
    """How a job or array ended; a state that is not an end while it goes on; None when there is none of that name."""
    found = store.jobs([name])
    if found:
        return found[0].state
    states = store.counts(JobFilter(array=name, unretried=True))
    bad = states.get(State.FAILED.value, 0) + states.get(State.CANCELLED.value, 0)
    if not states:
        return None
    if bad:
        return State.FAILED
    return State.SUCCEEDED if states.keys() == {State.SUCCEEDED.value} else State.RUNNING


@dataclass(frozen=True, slots=True)
class SaveUse:
    """Write down the account of use, so that a restart forgives nobody."""

    def apply(self, tx: Transaction) -> None:
        accounts = []
        for use in tx.book.view.use(tx.now):
            queue, project, user = (*use.account, "", "")[:3]
            accounts.append(UseAccount(queue, project, user, use.amount, use.at))
        if accounts:
            tx.arrange.use = accounts
