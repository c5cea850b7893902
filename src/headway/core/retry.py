"""Whether an ended attempt is followed by another, when, and which budget pays for it.

A pure reading of the cause table; lifecycle.py asks it when an attempt settles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.core.causes import TABLE, Again, Whose
from headway.core.model import Cause, Job, Retries

PLATFORM_RETRIES_MAX = 20
BACKOFF_FIRST_S = 2.0
BACKOFF_MOST_S = 300.0
PLATFORM_PAUSE_S = 5.0
PLATFORM_FREE = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: again or not, from when on, and the counters afterwards."""

    again: bool
    not_before: float = 0.0
    retries: Retries = Retries()
    reason: str = ""


def decide(job: Job, cause: Cause, now: float) -> Verdict:
    """Say what follows an attempt of this job that ended for this cause."""
    row = TABLE[cause]
    if row.again is Again.NEVER:
        return Verdict(False, retries=job.retries, reason="trying again cannot help")
    if row.whose is Whose.USER:
        return _charge_user(job, now)
    if row.whose is Whose.CAPACITY:
        return Verdict(True, now, replace(job.retries, capacity=job.retries.capacity + 1))
    return _charge_platform(job, now)


def _charge_user(job: Job, now: float) -> Verdict:
    used = job.retries.user
    if used >= job.spec.retries_max:
        said = f"all {used} retries are used" if used else "no retries were asked for"
        return Verdict(False, retries=job.retries, reason=said)
    pause_s = min(BACKOFF_MOST_S, BACKOFF_FIRST_S * 2**used)
    return Verdict(True, now + pause_s, replace(job.retries, user=used + 1))


def _charge_platform(job: Job, now: float) -> Verdict:
    lost = job.retries.platform + 1
    if lost > PLATFORM_RETRIES_MAX:
        return Verdict(False, retries=job.retries, reason=f"the platform lost it {PLATFORM_RETRIES_MAX} times")
    # The first losses cost nothing and no time. A job that is lost over and over must not spin, hence the pause.
    pause_s = 0.0 if lost <= PLATFORM_FREE else min(BACKOFF_MOST_S, PLATFORM_PAUSE_S * 2 ** (lost - PLATFORM_FREE - 1))
    return Verdict(True, now + pause_s, replace(job.retries, platform=lost))
