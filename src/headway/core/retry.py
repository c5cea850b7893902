"""Whether an ended attempt is followed by another, when, and which budget pays for it.

A pure reading of the cause table and of what the job's description says about retries; lifecycle.py asks it when an
attempt settles.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.causes import TABLE, Again, Whose
from headway.core.model import Cause, Job, Retries
from headway.core.progress_spec import PLATFORM_MAX
from headway.core.replacing import replace
from headway.core.units import show_duration

PLATFORM_RETRIES_MAX = PLATFORM_MAX
REQUEUE_EXIT_CODE = 99
HOPELESS = "the next attempt would end the same way"
QUICK_S = 120.0  # An attempt that ends by its own doing sooner than this has ended quickly.
BACKOFF_FIRST_S = 2.0
BACKOFF_MOST_S = 300.0
PLATFORM_PAUSE_S = 5.0
PLATFORM_FREE = 3
UNREACHABLE_PAUSE_S = 15.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: again or not, from when on, and the counters afterwards."""

    again: bool
    not_before: float = 0.0
    retries: Retries = Retries()
    quick_ends: int = 0
    reason: str = ""
    worth_saying: bool = False  # Whether the reason is more than that a retry was not asked for, or cannot help.


def decide(job: Job, cause: Cause, now: float) -> Verdict:
    """Say what follows an attempt of this job that ended for this cause."""
    row = TABLE[cause]
    quick_ends = _quick_ends(job, cause, now)
    verdict = _verdict(job, cause, now)
    if row.again is Again.NEVER or _hopeless(job, cause):
        verdict = Verdict(False, reason=HOPELESS, worth_saying=job.retries.user < job.spec.retries_max)
    elif said := _policy_against(job):
        verdict = Verdict(False, reason=said, worth_saying=True)
    elif verdict.again and quick_ends > job.spec.progress.again.quick_max:
        verdict = Verdict(False, reason=_crash_loop(quick_ends), worth_saying=True)
    if not verdict.again:
        return replace(verdict, retries=job.retries, quick_ends=job.quick_ends)
    return replace(verdict, quick_ends=quick_ends)


def _verdict(job: Job, cause: Cause, now: float) -> Verdict:
    whose = TABLE[cause].whose
    if whose is Whose.USER:
        return _charge_user(job, now)
    return _charge_capacity(job, now) if whose is Whose.CAPACITY else _charge_platform(job, cause, now)


def _charge_user(job: Job, now: float) -> Verdict:
    used = job.retries.user
    wanted = job.spec.progress.again.on_exit_codes
    code = job.attempt.exit_code if job.attempt else None
    if wanted is not None and code not in wanted:
        shown = f"exit code {code}" if code is not None else "an end without an exit code"
        return Verdict(
            False, reason=f"{shown} is not among retry.on_exit_codes", worth_saying=used < job.spec.retries_max
        )
    if used >= job.spec.retries_max:
        said = f"all {used} retries are used" if used else "no retries were asked for"
        return Verdict(False, reason=said)
    pause_s = min(BACKOFF_MOST_S, BACKOFF_FIRST_S * 2**used)
    return Verdict(True, now + pause_s, replace(job.retries, user=used + 1))


def _charge_capacity(job: Job, now: float) -> Verdict:
    used, most = job.retries.capacity, job.spec.progress.again.capacity_max
    if used >= most:
        return Verdict(False, reason=f"it had to make room {used} times (retry.capacity_max)", worth_saying=True)
    return Verdict(True, now, replace(job.retries, capacity=used + 1))


def _charge_platform(job: Job, cause: Cause, now: float) -> Verdict:
    lost, most = job.retries.platform + 1, job.spec.progress.again.platform_max
    if lost > most:
        said = f"the platform lost it {most} times (retry.platform_max)"
        return Verdict(False, reason=said, worth_saying=True)
    # The first losses cost nothing and no time. A job that is lost over and over must not spin, hence the pause. Nor is
    # it of use to ask at once again for what was asked for several times.
    first_s, free = (UNREACHABLE_PAUSE_S, 0) if cause is Cause.UNREACHABLE else (PLATFORM_PAUSE_S, PLATFORM_FREE)
    pause_s = 0.0 if lost <= free else min(BACKOFF_MOST_S, first_s * 2 ** (lost - free - 1))
    return Verdict(True, now + pause_s, replace(job.retries, platform=lost))


def _hopeless(job: Job, cause: Cause) -> bool:
    """Whether a node saw that the next attempt would end the same way."""
    outcomes = [task.outcome for task in job.attempt.tasks] if job.attempt else []
    return any(each is not None and each.cause is cause and each.hopeless for each in outcomes)


def _policy_against(job: Job) -> str:
    """The label of a log policy that says to stop retrying, as a reason; empty when there is none."""
    for task in job.attempt.tasks if job.attempt else ():
        for label, action in task.outcome.policies if task.outcome else ():
            if action == "stop_retrying":
                return f'the log policy "{label}" says not to try again'
    return ""


def _quick_ends(job: Job, cause: Cause, now: float) -> int:
    """How many attempts in a row have ended soon, by their own doing, without a newly committed step."""
    attempt = job.attempt
    if TABLE[cause].whose is not Whose.USER and cause is not Cause.REQUEUE_ASKED:
        return job.quick_ends  # What the platform does to a job says nothing about its code.
    if attempt is None or attempt.started_at is None or attempt.committed_step is not None:
        return 0
    return job.quick_ends + 1 if now - attempt.started_at < QUICK_S else 0


def _crash_loop(ends: int) -> str:
    within = show_duration(QUICK_S)
    why = "it would go on like that (retry.quick_max)"
    return f"{ends} attempts in a row ended within {within} and without a new checkpoint: {why}"
