"""Whether an ended attempt is followed by another, when, and which budget pays for it.

A pure reading of the cause table and of what the job's description says about retries; lifecycle.py asks it when an
attempt settles. What counts against a job is counted from its newest step on: headway begins every count anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.job.causes import TABLE, Again, Whose
from headway.core.model import NO_LOSSES, Cause, Job, Losses, Retries
from headway.core.records import replace
from headway.core.spec.program_words import PLATFORM_MAX
from headway.core.spec.program_words import REQUEUE_EXIT_CODE as REQUEUE_EXIT_CODE
from headway.core.units import show_duration

PLATFORM_RETRIES_MAX = PLATFORM_MAX
HOPELESS = "the next attempt would end the same way"
QUICK_S = 120.0  # An attempt that ends by its own doing sooner than this has ended quickly.
BACKOFF_FIRST_S = 2.0
BACKOFF_MOST_S = 300.0
PLATFORM_PAUSE_S = 5.0
PLATFORM_FREE = 3
UNREACHABLE_PAUSE_S = 15.0
REFUSALS_MOST = 3  # So many nodes are asked before what is in the way is taken for the same everywhere.
LONG_S = 3600.0  # Who ran that long is not in a loop that pauses must slow down, though it has no checkpoint to show.
DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: again or not, from when on, and the counters afterwards."""

    again: bool
    not_before: float = 0.0
    retries: Retries = Retries()
    quick_ends: int = 0
    losses: Losses = NO_LOSSES
    reason: str = ""
    worth_saying: bool = False  # Whether the reason is more than that a retry was not asked for, or cannot help.


def decide(job: Job, cause: Cause, now: float) -> Verdict:
    """Say what follows an attempt of this job that ended for this cause."""
    row = TABLE[cause]
    quick_ends, losses = _quick_ends(job, cause, now), counted(job, cause, now)
    verdict = _verdict(job, cause, losses, now)
    if row.again is Again.NEVER or _hopeless(job, cause):
        verdict = Verdict(False, reason=HOPELESS, worth_saying=job.retries.user < job.spec.retries_max)
    elif said := _policy_against(job):
        verdict = Verdict(False, reason=said, worth_saying=True)
    elif verdict.again and quick_ends > job.spec.progress.again.quick_max:
        verdict = Verdict(False, reason=_crash_loop(quick_ends), worth_saying=True)
    if not verdict.again:
        return replace(verdict, retries=job.retries, quick_ends=job.quick_ends, losses=job.losses)
    return replace(verdict, quick_ends=quick_ends, losses=losses)


def refusal_is_final(job: Job, elsewhere: bool, now: float) -> bool:
    """Whether a node that refuses a job for its own sake speaks for all: no other is left, or enough were asked."""
    if not elsewhere or standing(job).platform + 1 >= REFUSALS_MOST:
        return True
    return not decide(job, Cause.NEVER_STARTED, now).again


def made_headway(job: Job) -> bool:
    """Whether the newest attempt committed a step beyond what stood at the last loss, and what it began from."""
    attempt = job.attempt
    if attempt is None or attempt.committed_step is None:
        return False
    return all(step is None or attempt.committed_step > step for step in (job.losses.step, attempt.resumed_step))


def standing(job: Job) -> Losses:
    """What stands against a job as it is now."""
    return replace(job.losses, user=0, platform=0, capacity=0, hasty=0) if made_headway(job) else job.losses


def counted(job: Job, cause: Cause, now: float) -> Losses:
    """What stands against a job once this end is counted."""
    attempt, losses = job.attempt, standing(job)
    if attempt is not None and attempt.started_at is not None and now - attempt.started_at >= LONG_S:
        losses = replace(losses, user=0, hasty=0)
    if attempt is not None:
        # The step that stands now, not the largest ever: after damage, headway counts from where it had to begin.
        stands = [step for step in (attempt.resumed_step, attempt.committed_step) if step is not None]
        losses = replace(losses, step=max(stands, default=None))
    whose = TABLE[cause].whose
    if whose is Whose.USER:
        return replace(losses, user=losses.user + 1)
    if now - losses.day_at >= DAY_S:
        losses = replace(losses, day_at=now, platform_day=0, capacity_day=0)
    if whose is Whose.CAPACITY:
        return replace(losses, capacity=losses.capacity + 1, capacity_day=losses.capacity_day + 1)
    hasty, today = losses.hasty + 1, losses.platform_day + 1
    return replace(losses, platform=losses.platform + 1, hasty=hasty, platform_day=today)


def _verdict(job: Job, cause: Cause, losses: Losses, now: float) -> Verdict:
    whose = TABLE[cause].whose
    if whose is Whose.USER:
        return _charge_user(job, losses, now)
    return _charge_capacity(job, losses, now) if whose is Whose.CAPACITY else _charge_platform(job, cause, losses, now)


def _charge_user(job: Job, losses: Losses, now: float) -> Verdict:
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
    return Verdict(True, now + _pause_s(BACKOFF_FIRST_S, losses.user), replace(job.retries, user=used + 1))


def _charge_capacity(job: Job, losses: Losses, now: float) -> Verdict:
    again = job.spec.progress.again
    if losses.capacity > again.capacity_max:
        said = f"it made room {times(losses.capacity)} without a new step (retry.capacity_max)"
        return Verdict(False, reason=said, worth_saying=True)
    if again.capacity_max_per_day is not None and losses.capacity_day > again.capacity_max_per_day:
        said = f"it made room {times(losses.capacity_day)} within a day (retry.capacity_max_per_day)"
        return Verdict(False, reason=said, worth_saying=True)
    return Verdict(True, now, replace(job.retries, capacity=job.retries.capacity + 1))


def _charge_platform(job: Job, cause: Cause, losses: Losses, now: float) -> Verdict:
    again, hasty = job.spec.progress.again, losses.hasty
    if losses.platform > again.platform_max:
        said = f"it {lost_what(cause)} {times(losses.platform)} without a new step (retry.platform_max)"
        return Verdict(False, reason=said, worth_saying=True)
    if again.platform_max_per_day is not None and losses.platform_day > again.platform_max_per_day:
        said = f"it {lost_what(cause)} {times(losses.platform_day)} within a day (retry.platform_max_per_day)"
        return Verdict(False, reason=said, worth_saying=True)
    # The first losses cost nothing and no time. A job that is lost over and over must not spin, hence the pause. Nor is
    # it of use to ask at once again for what was asked for several times.
    first_s, free = (UNREACHABLE_PAUSE_S, 0) if cause is Cause.UNREACHABLE else (PLATFORM_PAUSE_S, PLATFORM_FREE)
    return Verdict(True, now + _pause_s(first_s, hasty - free), replace(job.retries, platform=job.retries.platform + 1))


def _pause_s(first_s: float, count: int) -> float:
    """The pause before the try that follows so many ends: none before the first, then twice as long each time."""
    return 0.0 if count < 1 else min(BACKOFF_MOST_S, first_s * 2 ** min(count - 1, 16))


def lost_what(cause: Cause | None) -> str:
    """What the platform did to a job, as the end of the sentence "it …"."""
    return "could not be started" if cause in (Cause.NEVER_STARTED, Cause.UNREACHABLE) else "lost its machine"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


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
