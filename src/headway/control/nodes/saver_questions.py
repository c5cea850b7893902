"""Finding out who saves in a gang: nodes are asked whether their tasks have written anything, and are heard.

Asked only while it is open: the first time that some tasks have saved and others have not. What was found out is
written down with the shares (core/files/savers.py has the rule); what memory alone holds is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from headway.control.state.progress_index import Heard
from headway.control.state.transaction import Transaction
from headway.control.state.working_copy import WorkingCopy
from headway.core.files import checkpoints, savers
from headway.core.files.checkpoints import AUTO, Gang, Whole
from headway.core.files.savers import Standing
from headway.core.job.events import Event
from headway.core.job.signals import Progressed
from headway.core.model import OVER, Cause, Job, NodeId, Outcome, Phase, State
from headway_wire.tasks import split_key, task_key

FROM_OUTSIDE = frozenset(
    {
        None, Cause.KILLED, Cause.CANCELLED, Cause.PREEMPTED, Cause.RECLAIMED, Cause.NODE_LOST, Cause.OUTCOME_LOST,
        Cause.UNREACHABLE, Cause.TIME_LIMIT, Cause.OUTPUT_LIMIT, Cause.FILES_LOST,
    }
)  # fmt: skip
"""What ends ranks at any moment; all else may come with what they were doing."""


def hear(tx: Transaction, node: NodeId, said: Iterable[tuple[str, int]], still: Iterable[tuple[str, int]]) -> None:
    """Take in which tasks of a node had written nothing when they heard that others have saved, or still not later."""
    _take_in(tx, node, said, tx.book.trail.idle)
    _take_in(tx, node, still, tx.book.trail.still_idle)


def _take_in(tx: Transaction, node: NodeId, said: Iterable[tuple[str, int]], into: Heard) -> None:
    for key, step in said:
        job_id, attempt, index = split_key(key)
        job = tx.book.jobs.get(job_id)
        if job is None or job.number != attempt:
            continue
        if any(task.index == index and task.node == node for task in job.alive):
            tx.touched.add(job_id)
            heard = {task: of for task, of in into.get(job_id, {}).items() if task[0] == attempt}
            into[job_id] = heard | {(attempt, index): max(step, heard.get((attempt, index), -1))}
            settle(tx, job)


def task_ended(tx: Transaction, job: Job, index: int, outcome: Outcome) -> Job:
    """A task is about to be over, and perhaps never wrote anything. Returns the job as it is then."""
    return settle(tx, job, {index: outcome})


def tasks_lost(tx: Transaction, job: Job, tasks: Iterable[int]) -> Job:
    """These are about to be over without a word: what they said last is all that anybody knows."""
    return settle(tx, job, dict.fromkeys(tasks))


def settle(tx: Transaction, job: Job, ends: Mapping[int, Outcome | None] = MappingProxyType({})) -> Job:
    """Note who saves, as far as it is known by now; tell what is whole by that; and ask about the rest."""
    trail, gang = tx.book.trail, Gang.of(job.spec)
    if job.attempt is None or gang.tasks == 1 or gang.saved_by != AUTO:
        return job
    over = {task.index: task.outcome for task in job.attempt.tasks if task.phase in OVER} | dict(ends)
    said = {index: outcome for index, outcome in over.items() if outcome is not None and outcome.idle}
    finished = frozenset(index for index, outcome in said.items() if outcome.unasked)
    cut_off = frozenset(index for index, outcome in said.items() if outcome.cut_off)
    idle, still_idle = _of_attempt(trail.idle, job), _of_attempt(trail.still_idle, job)
    failed = _failed_by_itself(job, over.values())
    standing = Standing(job.number, idle, still_idle, frozenset(over), frozenset(said), finished, cut_off, failed)
    before = complete_steps(tx, job)
    noted = savers.settle(trail.checkpoints_of(job.id), gang, standing)
    if noted:
        trail.put(job.id, noted)
        tx.keep.changed.extend(noted)
    _ask(tx.book, job, gang)
    fresh = [whole for step, whole in complete_steps(tx, job).items() if step not in before]
    return announce(tx, job, fresh)


def _failed_by_itself(job: Job, outcomes: Iterable[Outcome | None]) -> bool:
    causes = {outcome.cause for outcome in outcomes if outcome is not None}
    return bool((causes | {job.cause if job.state is State.STOPPING else None}) - FROM_OUTSIDE)


def _of_attempt(heard: Heard, job: Job) -> dict[int, int]:
    return {index: step for (attempt, index), step in heard.get(job.id, {}).items() if attempt == job.number}


def complete_steps(tx: Transaction, job: Job) -> dict[int, Whole]:
    mine = [each for each in tx.book.trail.checkpoints_of(job.id) if each.attempt == job.number]
    return {whole.step: whole for whole in checkpoints.gather(mine, Gang.of(job.spec)) if whole.complete}


def announce(tx: Transaction, job: Job, wholes: Iterable[Whole]) -> Job:
    """These have become whole just now."""
    for whole in wholes:
        size, files = sum(part.bytes for part in whole.parts), sum(part.files for part in whole.parts)
        data = {"step": whole.step, "unit": whole.unit, "how": whole.how, "bytes": size, "files": files}
        if whole.found:
            data["found"] = whole.found
        tx.say(Event("CheckpointCommitted", tx.now, job.id, job.number, data))
        job = tx.step(job, Progressed(job.number, committed_step=whole.step, saved_at=whole.at))
    return job


def _ask(book: WorkingCopy, job: Job, gang: Gang) -> None:
    found = savers.question(book.trail.checkpoints_of(job.id), gang, job.number)
    if found is None:
        book.trail.asked.pop(job.id, None)
    elif book.trail.asked.get(job.id) != (job.number, *found):
        book.trail.asked[job.id] = (job.number, *found)
        book.touched.update(task.node for task in job.alive if task.index in found[1])


def asks_anew(book: WorkingCopy, node: NodeId, asked: Mapping[str, int]) -> bool:
    """Whether this node is to be asked what it was not asked before."""
    return bool(book.trail.asked) and bool(questions(book, node).items() - asked.items())


def questions(book: WorkingCopy, node: NodeId) -> dict[str, int]:
    """For tasks of this node: the newest step that others have saved, of which nobody knows whether these have it."""
    asked: dict[str, int] = {}
    for job_id, (attempt, step, tasks) in book.trail.asked.items():
        job, heard = book.jobs.get(job_id), book.trail.idle.get(job_id, {})
        for task in job.alive if job is not None and job.number == attempt else ():
            due = task.index in tasks and task.node == node and task.phase is Phase.GOING
            if due and heard.get((attempt, task.index), -1) < step:
                asked[task_key(job_id, attempt, task.index)] = step
    return asked
