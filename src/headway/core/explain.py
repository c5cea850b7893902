"""Sentences for people: why a job waits, why an attempt ended, what happens next.

Data in, words out. The same sentence appears in the CLI, the API and the dashboard.
"""

from __future__ import annotations

import re

from headway.core.job.causes import TABLE
from headway.core.job.lifecycle import only_saves, place_kept
from headway.core.job.retry import lost_what, standing, times
from headway.core.model import Attempt, Cause, Job, State
from headway.core.scheduling.scheduler import Waiting
from headway.core.scheduling.shares import Short
from headway.core.steps import STEP, explain_resume, named
from headway.core.units import show_duration, show_size, show_time

SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL"}
SIGNALS |= {11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ"}


# How agents tell of the rank that failed: `ValueError: no data (rank 0, exit code 3)`, `rank 0 was ended by SIGSEGV`.
RANK = re.compile(
    r"\(rank \d+(?: on [^\s,)]+)?, (?:exit code \d+|SIG[A-Z]+\d?|signal \d+)\)"
    r"|^rank \d+(?: on [^\s,)]+)? (?:ended with exit code \d+|was ended by (?:SIG[A-Z]+\d?|signal \d+))"
)


def explain_waiting(job: Job, waiting: Waiting, now: float = 0.0) -> str:
    """Why this queued job does not run yet."""
    if waiting.in_vain and not waiting.held:
        return f"will never start: {waiting.in_vain}"
    apart = _no_matter_of_room(job, waiting, now)
    if apart:
        return f"waits: {apart}"
    if waiting.array is not None:
        # Its place in the queue says nothing: others of its array have to end first.
        array, runs, most = waiting.array
        full = f"waits: {runs} of array {array} {'has a place' if runs == 1 else 'have places'}, and {most} may at once"
        said = "; ".join([full, *_outlook(job, waiting, now)])
        return f"{said}, after: {explain_cause(job)}" if job.cause else said
    parts = []
    if waiting.ahead:
        parts.append(f'{_ordinal(waiting.ahead + 1)} in queue "{job.spec.queue}"')
    if waiting.quota is not None:
        parts.append(_quota(waiting.quota))
    if waiting.licence is not None:
        parts.append(_licence(*waiting.licence))
    parts.append(f"needs {wants(job)}")
    parts += [waiting.coming] if waiting.coming else _room(waiting)
    parts += _outlook(job, waiting, now)
    said = "waits: " + "; ".join(parts)
    return f"{said} ({explain_cause(job)})" if job.cause else said


def _no_matter_of_room(job: Job, waiting: Waiting, now: float) -> str:
    """What it waits for before room matters at all."""
    if waiting.held:
        return "held until somebody releases it"
    if waiting.after:
        more = f" and {len(waiting.after) - 3} more" if len(waiting.after) > 3 else ""
        return f"for the end of {', '.join(waiting.after[:3])}{more}"
    if waiting.backing_off_s > 0:
        so_far = f"; it {explain_losses(job)}" if job.losses.platform > 1 else ""
        return f"tries again in {show_duration(waiting.backing_off_s)}, after: {explain_cause(job)}{so_far}"
    if waiting.until is not None:
        return f"will not start before {show_time(waiting.until)}, in {show_duration(waiting.until - now)}"
    if waiting.no_nodes:
        coming = waiting.coming or "no node has called home yet (headway pool ls shows where nodes come from)"
        return f"needs {wants(job)}; {coming}"
    return ""


def _quota(short: Short) -> str:
    if short.never:
        wanted, most = _amount(short.wants, short.what), _amount(short.most, short.what)
        return f"can never run here: it wants {wanted}, and the quota of {short.whose} is {most}"
    return f"{short.whose} holds {_amount(short.held, short.what)} of its quota of {_amount(short.most, short.what)}"


def _amount(value: float, what: str) -> str:
    if what == "memory":
        return show_size(int(value))
    return f"{value:g} {what[:-1] if value == 1 else what}"


def _licence(name: str, wanted: int, free: int, there: int) -> str:
    if wanted > there:
        return f'wants {wanted} of licence "{name}", of which there {"is" if there == 1 else "are"} {there}'
    return f'wants {wanted} of licence "{name}", {free} of {there} are free'


def _room(waiting: Waiting) -> list[str]:
    parts = []
    if waiting.never:
        few = "no node is" if waiting.nodes_wanted == 1 else f"fewer than {waiting.nodes_wanted} nodes are"
        parts.append(f"{few} large enough, even when empty")
    if waiting.nodes_wanted > 1:
        parts.append(f"{waiting.nodes_fitting} of {waiting.nodes_wanted} places are free")
    if waiting.lacks:
        parts.append(", ".join(f"{count} {_nodes(count)} {phrase}" for phrase, count in waiting.lacks))
    elif not (waiting.never or waiting.quota or waiting.licence):
        parts.append("is about to be placed")
    return parts


def _outlook(job: Job, waiting: Waiting, now: float) -> list[str]:
    """When it may start, and what would start it now."""
    parts = []
    at, deadline = waiting.starts_at, job.spec.wishes.deadline
    if at is not None and at > now:
        soon = show_duration(at - now)
        parts.append(f"expected to start in {soon}" if waiting.starts_exactly else f"not before {soon} from now")
    elif waiting.starts_unknown:
        parts.append("how long the others will run is unknown")
    if deadline is not None and (deadline < now or (at is not None and at > deadline)):
        parts.append(f"too late for its deadline, {show_time(deadline)}")
    if waiting.change:
        parts.append(f"with {waiting.change} it would start now")
    return parts


def wants(job: Job) -> str:
    """`2 nodes with 8 gpus and 4 cpus each`."""
    resources = job.spec.resources
    parts = [f"{resources.cpus:g} {'cpu' if resources.cpus == 1 else 'cpus'}"]
    if resources.memory_bytes:
        parts.append(f"{resources.memory_bytes / 2**30:.3g} GiB memory")
    if resources.gpus:
        parts.append(f"{resources.gpus} {'gpu' if resources.gpus == 1 else 'gpus'}")
    each = " and ".join(parts)
    return each if job.spec.nodes == 1 else f"{job.spec.nodes} nodes with {each} each"


def explain_cause(job: Job) -> str:
    """One sentence about the newest end: what happened, to which attempt, with the evidence."""
    if job.cause is None:
        return ""
    who = f"attempt {job.number}" if job.number else "the job"
    return _ended(who, job.cause, job.attempt.exit_code if job.attempt else None, job.detail)


def _ended(who: str, cause: Cause, exit_code: int | None, detail: str) -> str:
    of_a_rank = RANK.search(detail)
    if of_a_rank:
        which = "" if cause in (Cause.USER_CODE, Cause.CRASHED) else f", which {TABLE[cause].says}"
        return f"{detail[: of_a_rank.end()]} in {who}{which}{detail[of_a_rank.end() :]}"
    said = f"{who} {TABLE[cause].says}"
    if cause is Cause.USER_CODE and exit_code is not None:
        said += f" with exit code {exit_code}"
    return f"{said}: {detail}" if detail else said


def explain_attempt(attempt: Attempt) -> str:
    """How one attempt ended, or that it goes on."""
    if attempt.ended_at is None:
        return f"attempt {attempt.number} goes on"
    if attempt.cause is None:
        return f"attempt {attempt.number} succeeded"
    return _ended(f"attempt {attempt.number}", attempt.cause, attempt.exit_code, attempt.detail)


def explain_set_back(to: int, since: int, unit: str = STEP) -> str:
    """Why an attempt began earlier than what had been committed."""
    begins = explain_resume(to or None, unit) or "begins from nothing"
    return f"{begins}, not from {named(since, unit)}: what was committed since is damaged, and set aside"


def explain_losses(job: Job) -> str:
    """What stands against a job since its newest step, with the limits: `lost its machine 3 times …`."""
    losses, again = standing(job), job.spec.progress.again
    lost, room = lost_what(job.cause), "made room"
    since = "without a new step"
    parts = [
        _counted(lost, losses.platform, since, again.platform_max),
        _counted(room, losses.capacity, since, again.capacity_max),
        _counted(lost, losses.platform_day, "within a day", again.platform_max_per_day),
        _counted(room, losses.capacity_day, "within a day", again.capacity_max_per_day),
    ]
    return "; ".join(filter(None, parts))


def _counted(what: str, count: int, since: str, most: int | None) -> str:
    return f"{what} {times(count)} {since} (limit {most:,})" if count and most is not None else ""


def hint_for(job: Job) -> str:
    if job.cause is None:
        return ""
    tasks = job.attempt.tasks if job.attempt else ()
    told = [task.outcome.suggestion for task in tasks if task.outcome and task.outcome.cause is job.cause]
    return next(filter(None, told), "") or TABLE[job.cause].hint.replace("JOB", job.id)


def explain_state(
    job: Job, waiting: Waiting | None = None, now: float = 0.0, saved: str = "", preparing: str = ""
) -> str:
    """Where the job is and why, in one sentence. `saved`: how far the files of its tasks that are over have come;
    `preparing`: what a node does before it can begin.
    """
    if job.state is State.QUEUED:
        return explain_waiting(job, waiting, now) if waiting else "waits in the queue"
    if job.state is State.STARTING:
        nodes = ", ".join(job.attempt.nodes) if job.attempt else ""
        if job.lined and job.attempt is not None:
            before = job.attempt.tasks[0].behind.partition("/")[0]
            return f"starts: {nodes} has it, and begins it when {before} has ended"
        if preparing:
            return f"starts: {nodes} {preparing}" if job.spec.nodes == 1 else f"starts on {nodes}: one {preparing}"
        return f"starts: attempt {job.number} is placed on {nodes} and waits to be claimed"
    if only_saves(job):
        return _saves(job, saved)
    if job.state is State.RUNNING:
        return f"runs: attempt {job.number} on {', '.join(job.attempt.nodes) if job.attempt else ''}"
    if job.state is State.STOPPING and place_kept(job):
        left = show_duration(max(0.0, (job.stop_by or now) - now))
        return (
            f"failed: {explain_cause(job)}; its place is kept for {left}: "
            f"headway ssh {job.id} looks at it, headway stop {job.id} gives it back"
        )
    if job.state is State.STOPPING:
        left = f", killed in {show_duration(job.stop_by - now)}" if job.stop_by and job.stop_by > now else ""
        return f"stops: {explain_cause(job)}{left}"
    if job.state is State.SUCCEEDED:
        return "succeeded" if job.number == 1 else f"succeeded with attempt {job.number}"
    return f"{job.state.value}: {explain_cause(job)}"


def _saves(job: Job, saved: str) -> str:
    """Its processes have ended, its places are free, and what it wrote is on its way."""
    before = f"{explain_cause(job)}; " if job.state is State.STOPPING else ""
    nodes = ", ".join(task.node for task in job.alive)
    return f"{before}saving its files on {nodes}" + (f": {saved}" if saved else "")


def explain_silence(node: str, since: float, given_up_at: float, now: float) -> str:
    """What it means for a job that a node on which it runs is not heard."""
    silent, left = show_duration(max(0.0, now - since)), show_duration(max(0.0, given_up_at - now))
    return (
        f"but nothing was heard of {node} for {silent}: its task may well go on there, and nobody can see it; "
        f"if that lasts {left} more, the task is given up and tried again elsewhere"
    )


def signal_name(number: int) -> str:
    return SIGNALS.get(number, f"signal {number}")


def _nodes(count: int) -> str:
    return "node:" if count == 1 else "nodes:"


def _ordinal(number: int) -> str:
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
