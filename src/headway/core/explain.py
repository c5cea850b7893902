"""Sentences for people: why a job waits, why an attempt ended, what happens next.

Data in, words out. The same sentence appears in the CLI, the API and the dashboard.
"""

from __future__ import annotations

from headway.core.causes import TABLE
from headway.core.model import Attempt, Cause, Job, State
from headway.core.scheduler import Waiting
from headway.core.units import show_duration

SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL"}
SIGNALS |= {11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ"}


def explain_waiting(job: Job, waiting: Waiting) -> str:
    """Why this queued job does not run yet."""
    if waiting.backing_off_s > 0:
        return f"waits: tries again in {show_duration(waiting.backing_off_s)} ({explain_cause(job)})"
    if waiting.no_nodes:
        return "waits: no node has called home yet"
    parts = []
    if waiting.ahead:
        parts.append(f'{_ordinal(waiting.ahead + 1)} in queue "{job.spec.queue}"')
    parts.append(f"needs {wants(job)}")
    if waiting.never:
        few = "no present node is" if waiting.nodes_wanted == 1 else f"fewer than {waiting.nodes_wanted} nodes are"
        parts.append(f"{few} large enough, even when empty")
    if waiting.nodes_wanted > 1:
        parts.append(f"{waiting.nodes_fitting} of {waiting.nodes_wanted} places are free")
    if waiting.lacks:
        counted = ", ".join(f"{count} {_nodes(count)} {phrase}" for phrase, count in waiting.lacks)
        parts.append(counted)
    elif not waiting.never:
        parts.append("is about to be placed")
    said = "waits: " + "; ".join(parts)
    return f"{said} ({explain_cause(job)})" if job.cause else said


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


def hint_for(job: Job) -> str:
    return TABLE[job.cause].hint if job.cause else ""


def explain_state(job: Job, waiting: Waiting | None = None, now: float = 0.0) -> str:
    """Where the job is and why, in one sentence."""
    if job.state is State.QUEUED:
        return explain_waiting(job, waiting) if waiting else "waits in the queue"
    if job.state is State.STARTING:
        nodes = ", ".join(job.attempt.nodes) if job.attempt else ""
        return f"starts: attempt {job.number} is placed on {nodes} and waits to be claimed"
    if job.state is State.RUNNING:
        return f"runs: attempt {job.number} on {', '.join(job.attempt.nodes) if job.attempt else ''}"
    if job.state is State.STOPPING:
        left = f", killed in {show_duration(job.stop_by - now)}" if job.stop_by and job.stop_by > now else ""
        return f"stops: {explain_cause(job)}{left}"
    if job.state is State.SUCCEEDED:
        return "succeeded" if job.number == 1 else f"succeeded with attempt {job.number}"
    return f"{job.state.value}: {explain_cause(job)}"


def signal_name(number: int) -> str:
    return SIGNALS.get(number, f"signal {number}")


def _nodes(count: int) -> str:
    return "node:" if count == 1 else "nodes:"


def _ordinal(number: int) -> str:
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
