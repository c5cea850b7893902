"""Who has used how much, with the past counting less and less; and what is held against quotas at this moment.

Use is cpus × seconds (a GPU counts as several cpus) and halves with each half-life. Sums do not hang on the order of
their parts, up to rounding; shares are compared in coarse steps, so that rounding decides nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.core.model import UNLIMITED, Job, Queue, Quota, Resources

Account = tuple[str, ...]  # (queue,), (queue, project) or (queue, project, user).
STEPS_PER_DOUBLING = 8
UNIT = 3600.0  # Less than a cpu-hour is no use at all.
REBASE_HALF_LIVES = 200.0


@dataclass(frozen=True, slots=True)
class Use:
    """The use of one account, as it was at some moment."""

    account: Account
    amount: float
    at: float


class _Ledger:
    """One account: the past as an amount at `base`; what runs as a rate, and as rates weighted by their start."""

    __slots__ = ("base", "past", "rate", "running", "started")

    def __init__(self, base: float) -> None:
        self.base = base
        self.past = 0.0
        self.rate = 0.0
        self.started = 0.0
        self.running = 0


class Shares:
    def __init__(self, half_life_s: float, cpus_per_gpu: float) -> None:
        self.half_life_s = half_life_s
        self.cpus_per_gpu = cpus_per_gpu
        self._ledgers: dict[Account, _Ledger] = {}

    def rate(self, job: Job) -> float:
        wants = job.spec.resources
        return job.spec.nodes * (wants.cpus + wants.gpus * self.cpus_per_gpu)

    def begin(self, job: Job, at: float) -> None:
        rate = self.rate(job)
        base, weight = None, 0.0
        for account in accounts(job):
            ledger = self._at(account, at)
            if ledger.base != base:
                base, weight = ledger.base, self._weight(at, ledger.base)
            ledger.rate += rate
            ledger.started += rate * weight
            ledger.running += 1

    def end(self, job: Job, began: float, at: float | None) -> None:
        """It stopped running; without a time, it never really ran."""
        rate = self.rate(job)
        base, weight, span = None, 0.0, 0.0
        for account in accounts(job):
            ledger = self._at(account, began)
            if ledger.base != base:
                base, weight = ledger.base, self._weight(began, ledger.base)
                span = self._span(began, at, ledger.base) if at is not None and at > began else 0.0
            ledger.rate -= rate
            ledger.started -= rate * weight
            ledger.running -= 1
            if not ledger.running:
                ledger.rate = ledger.started = 0.0
            ledger.past += rate * span

    def uncharge(self, job: Job, began: float, at: float) -> None:
        """An end was taken back (its save failed)."""
        for account in accounts(job):
            ledger = self._at(account, at)
            ledger.past = max(0.0, ledger.past - self.rate(job) * self._span(began, at, ledger.base))

    def add(self, use: Use) -> None:
        ledger = self._at(use.account, use.at)
        ledger.past += use.amount * self._weight(use.at, ledger.base)

    def amount(self, account: Account, now: float) -> float:
        ledger = self._ledgers.get(account)
        if ledger is None:
            return 0.0
        fade = self._weight(ledger.base, now)
        per_rate = self.half_life_s / math.log(2)
        return max(0.0, ledger.past * fade + per_rate * (ledger.rate - ledger.started * fade))

    def step(self, account: Account, weight: float, now: float) -> int:
        """The use in proportion to its weight, in steps of a few per cent."""
        amount = self.amount(account, now)
        return round(STEPS_PER_DOUBLING * math.log2(1 + amount / (max(weight, 1e-9) * UNIT)))

    def past(self, now: float) -> list[Use]:
        """What ended jobs have used, worth keeping over a restart."""
        found = []
        for account, ledger in sorted(self._ledgers.items()):
            amount = ledger.past * self._weight(ledger.base, now)
            if amount > 1.0:
                found.append(Use(account, amount, now))
        return found

    def copy(self) -> Shares:
        other = Shares(self.half_life_s, self.cpus_per_gpu)
        for account, ledger in self._ledgers.items():
            twin = other._ledgers[account] = _Ledger(ledger.base)
            twin.past, twin.rate = ledger.past, ledger.rate
            twin.started, twin.running = ledger.started, ledger.running
        return other

    def _weight(self, at: float, base: float) -> float:
        return float(2.0 ** max(-1000.0, min(1000.0, (at - base) / self.half_life_s)))

    def _span(self, began: float, at: float, base: float) -> float:
        return self.half_life_s / math.log(2) * (self._weight(at, base) - self._weight(began, base))

    def _at(self, account: Account, at: float) -> _Ledger:
        ledger = self._ledgers.get(account)
        if ledger is None:
            # A whole number of half-lives, so that it does not matter which job came first.
            ledger = self._ledgers[account] = _Ledger(math.floor(at / self.half_life_s) * self.half_life_s)
        elif at - ledger.base > REBASE_HALF_LIVES * self.half_life_s:
            base = math.floor(at / self.half_life_s) * self.half_life_s
            fade = self._weight(ledger.base, base)
            ledger.past *= fade
            ledger.started *= fade
            ledger.base = base
        return ledger


def accounts(job: Job) -> tuple[Account, Account, Account]:
    spec = job.spec
    return (spec.queue,), (spec.queue, spec.project), (spec.queue, spec.project, job.user)


# --- quotas -----------------------------------------------------------------------------------------------------------

Amounts = tuple[float, float, float, float]  # gpus, cpus, memory, jobs
NAMES = ("gpus", "cpus", "memory", "jobs")
NOTHING: Amounts = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Short:
    """A quota that has not enough left: whose, of what, how much is held and how much there may be."""

    whose: str
    what: str
    held: float
    most: float
    wants: float

    @property
    def never(self) -> bool:
        """Not even with nothing held."""
        return self.wants > self.most


def amounts_of(nodes: int, wants: Resources) -> Amounts:
    return (float(nodes * wants.gpus), nodes * wants.cpus, float(nodes * wants.memory_bytes), 1.0)


def limited(queue: Queue) -> bool:
    return bool(queue.project_quotas or queue.user_quotas) or not (
        queue.quota == queue.project_quota == queue.user_quota == UNLIMITED
    )


Counter = tuple[str, str, str]  # Queue, "" or "project" or "user", name.


class Held:
    """What is held at this moment, by queue, by project in a queue, by user in a queue."""

    def __init__(self) -> None:
        self.by: dict[Counter, Amounts] = {}

    def add(self, counters: tuple[Counter, ...], amounts: Amounts, sign: float) -> None:
        for counter in counters:
            a, b, c, d = self.by.get(counter, NOTHING)
            now = (a + sign * amounts[0], round(b + sign * amounts[1], 6), c + sign * amounts[2], d + sign * amounts[3])
            if now[3] > 0:
                self.by[counter] = now
            else:
                self.by.pop(counter, None)

    def short(self, queue: Queue, counters: tuple[Counter, ...], amounts: Amounts) -> tuple[Counter, Short] | None:
        """The first quota that has not enough left for this much more."""
        for counter in counters:
            quota = quota_of(queue, counter)
            if quota is UNLIMITED:
                continue
            held = self.by.get(counter, NOTHING)
            for name, have, want, most in zip(NAMES, held, amounts, limits(quota), strict=True):
                if most is not None and want and have + want > most + 1e-6:
                    return counter, Short(_whose(counter), name, have, most, want)
        return None

    def over(self, queue: Queue, counters: tuple[Counter, ...]) -> Counter | None:
        """The first counter that holds more than its quota: what is above it is borrowed."""
        for counter in counters:
            quota = quota_of(queue, counter)
            held = self.by.get(counter, NOTHING)
            if any(most is not None and have > most + 1e-6 for have, most in zip(held, limits(quota), strict=True)):
                return counter
        return None


def limits(quota: Quota) -> tuple[float | None, float | None, float | None, float | None]:
    return quota.gpus, quota.cpus, quota.memory_bytes, quota.jobs


def counters_of(queue: str, project: str, user: str) -> tuple[Counter, Counter, Counter]:
    return (queue, "", ""), (queue, "project", project), (queue, "user", user)


def quota_of(queue: Queue, counter: Counter) -> Quota:
    _, kind, name = counter
    if not kind:
        return queue.quota
    named, each = (
        (queue.project_quotas, queue.project_quota) if kind == "project" else (queue.user_quotas, queue.user_quota)
    )
    return next((quota for whose, quota in named if whose == name), each)


def _whose(counter: Counter) -> str:
    queue, kind, name = counter
    return f'queue "{queue}"' if not kind else f'{kind} "{name}" in queue "{queue}"'
