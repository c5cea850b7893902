"""How long jobs run: what like jobs took before, and what to think of one that has outlived that.

Like jobs are those of one user and one name (digits aside); the closer the likeness, the more it counts. After
Tsafrir and others (2007): the mean of the last two, never above the limit, made longer in steps when it was too short.
"""

from __future__ import annotations

import re
from bisect import insort
from dataclasses import dataclass

from headway.core.job.causes import TABLE, Whose
from headway.core.model import Job, JobId, State

COUNTED = 2  # Of how many like jobs the mean is taken.
REMEMBERED = 8  # How many are kept: what was known when a running attempt began must still be known later.
KEYS_MOST = 100_000  # Beyond this the oldest likeness is forgotten.
SHORTEST_S = 1.0
STEPS_S = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0)
UNKNOWN_LEAST_S = 600.0  # An attempt about which nothing is known is expected to last this long at the least.
ENDLESS = float("inf")
DIGITS = re.compile(r"[0-9]+")

Likeness = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Length:
    """All that the length of an attempt can be told from."""

    limit_s: float | None  # It is ended then.
    guess_s: float | None  # What the user expects.
    likes: tuple[Likeness, ...]  # The closest first.


def length_of(job: Job, wall_s_default: float | None = None) -> Length:
    spec = job.spec
    limit = spec.wall_s_max if spec.wall_s_max is not None else wall_s_default
    name = DIGITS.sub("", spec.name)
    width = (spec.nodes, spec.resources.cpus, spec.resources.gpus)
    likes: tuple[Likeness, ...] = (
        (job.user, name, limit, width),
        (job.user, name, limit),
        (job.user, name),
        (job.user,),
    )
    return Length(limit, spec.wishes.estimate_s, likes)


class History:
    """The newest run times by likeness. Which they are does not hang on the order in which they were told."""

    def __init__(self) -> None:
        self._ended: dict[Likeness, list[tuple[float, JobId, float]]] = {}  # Ended at, job, seconds; ascending.

    def learn(self, job: Job, length: Length) -> None:
        """Take note of an ended job, if its length says something about others."""
        attempt = job.attempt
        if attempt is None or attempt.started_at is None or attempt.ended_at is None or not _telling(job):
            return
        over_at = attempt.over_at or attempt.ended_at
        entry = (attempt.ended_at, job.id, max(0.0, over_at - attempt.started_at))
        for like in length.likes:
            known = self._ended.get(like)
            if known is None:
                self._ended[like] = [entry]
                continue
            if known[-1] < entry:
                known.append(entry)
            elif entry not in known:
                insort(known, entry)
            if len(known) > REMEMBERED:
                del known[0]
        while len(self._ended) > KEYS_MOST:
            del self._ended[next(iter(self._ended))]

    def mean_s(self, likes: tuple[Likeness, ...], at: float | None = None) -> float | None:
        """What the closest like jobs took on average, of those that had ended by then; None when there were none."""
        for like in likes:
            known = self._ended.get(like)
            if known and at is not None and known[-1][0] > at:
                known = [entry for entry in known if entry[0] <= at]
            if known:
                newest = known[-COUNTED:]
                return max(SHORTEST_S, sum(entry[2] for entry in newest) / len(newest))
        return None

    def longest_s(self, like: Likeness) -> float | None:
        """What the longest of the newest that are alike in everything took; None when there were none."""
        return max((entry[2] for entry in self._ended.get(like, ())), default=None)

    def estimate_s(self, length: Length, from_history: bool = True, at: float | None = None) -> float:
        """How long a job of this length will probably run, by what was known then; endless when nothing was."""
        known = self.mean_s(length.likes, at) if from_history else None
        if known is None:
            known = length.guess_s if length.guess_s is not None else ENDLESS
        return known if length.limit_s is None else min(known, length.limit_s)


def _telling(job: Job) -> bool:
    """Whether the job ended by its own doing."""
    if job.state is State.SUCCEEDED:
        return True
    return job.state is State.FAILED and job.cause is not None and TABLE[job.cause].whose is Whose.USER


def expected_end(started_at: float, estimate_s: float, limit_s: float | None, now: float) -> float:
    """When a running attempt will probably end, given that it has not ended yet."""
    ran_s = now - started_at
    if estimate_s == ENDLESS:
        # Nothing is known: what has run for long will run for long.
        return now + max(UNKNOWN_LEAST_S, ran_s)
    if ran_s < estimate_s:
        return started_at + estimate_s
    longer = next((step for step in STEPS_S if estimate_s + step > ran_s), None)
    if longer is None:
        return now + max(UNKNOWN_LEAST_S, ran_s) if limit_s is None else max(now, started_at + limit_s)
    end = estimate_s + longer if limit_s is None else min(limit_s, estimate_s + longer)
    return max(now, started_at + end)
