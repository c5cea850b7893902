"""What was lost: steps, seconds and money, per attempt and per cause.

Steps lost are those seen and not committed; seconds lost run from the newest save that was committed (or the start) to
the last that an attempt worked without success: not while its files were stored, nor while a lost node was silent.
Where one had to begin before what was committed, since checkpoints were damaged, what lay between is lost too, as a
cause of its own. Pure; prices come from whoever knows the pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headway.core.model import Attempt, Cause, Phase, Task

Price = Callable[[Attempt], float | None]
"""What a second of an attempt costs, all its nodes together; None when nobody knows."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What an attempt, or several of them, lost."""

    steps: int = 0
    seconds: float = 0.0
    money: float | None = None
    at_least: bool = False  # A node was lost: what it did after it was last heard is not among these.
    steps_untold: bool = False  # Nobody knows how far it was when it ended, but for what it had saved.

    def plus(self, other: Loss) -> Loss:
        money = None if self.money is None and other.money is None else (self.money or 0.0) + (other.money or 0.0)
        at_least, untold = self.at_least or other.at_least, self.steps_untold or other.steps_untold
        return Loss(self.steps + other.steps, self.seconds + other.seconds, money, at_least, untold)


DAMAGED = "checkpoint_damaged"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that one attempt did and committed, with the seconds that they took and what a second cost."""

    begin: int
    end: int
    seconds: float
    per_s: float | None

    def beyond(self, step: int) -> Loss:
        """What of it lies after a step."""
        steps = max(0, self.end - max(self.begin, step))
        seconds = self.seconds * steps / (self.end - self.begin)
        return Loss(steps, seconds, None if self.per_s is None else self.per_s * seconds)


@dataclass(frozen=True, slots=True)
class SetBack:
    """An attempt began at `to`, though `since` had been committed."""

    attempt: int
    to: int
    since: int
    loss: Loss


@dataclass(frozen=True, slots=True)
class Account:
    attempts: tuple[tuple[int, Loss], ...]
    by_cause: tuple[tuple[str, Loss], ...]
    total: Loss


def no_price(attempt: Attempt) -> float | None:
    return None


def loss_of(attempt: Attempt, price: Price = no_price) -> Loss:
    """What this attempt lost; nothing while it goes on, when it succeeded, or before a line of it ran."""
    if attempt.over_at is None or attempt.ended_at is None or attempt.cause is None or attempt.started_at is None:
        return Loss()
    kept = attempt.committed_step if attempt.committed_step is not None else attempt.resumed_step
    steps = max(0, attempt.seen_step - (kept or 0)) if attempt.seen_step is not None else 0
    since = attempt.committed_at if attempt.committed_at is not None else attempt.started_at
    until = attempt.over_at if attempt.seen_at is None else min(attempt.seen_at, attempt.over_at)
    seconds = max(0.0, until - since)
    per_s = price(attempt)
    money = None if per_s is None else per_s * seconds
    # The ranks of a gang make their steps together: the word of one of them is enough.
    told = any(task.outcome is not None and task.outcome.steps_told for task in attempt.tasks)
    cut_short = _is_cut_short(attempt)
    return Loss(steps, seconds, money, cut_short, not told and not cut_short)


def _is_cut_short(attempt: Attempt) -> bool:
    """Whether the last word of a part of it was not heard: its node was lost, or knows nothing of it any more."""
    return attempt.seen_at is not None or any(map(_is_unheard, attempt.tasks))


def _is_unheard(task: Task) -> bool:
    if task.outcome is None:
        return task.phase is Phase.LOST
    return task.outcome.cause is Cause.OUTCOME_LOST and not task.outcome.steps_told


def set_backs(attempts: Iterable[Attempt], price: Price = no_price) -> list[SetBack]:
    """Where attempts had to begin before what those before them had committed, and what was lost with it."""
    found: list[SetBack] = []
    standing: list[Stretch] = []
    for attempt in attempts:
        if attempt.started_at is None:
            continue
        begin = attempt.resumed_step or 0
        loss, since = Loss(), max((each.end for each in standing), default=0)
        for each in standing:
            loss = loss.plus(each.beyond(begin))
        if since > begin:
            found.append(SetBack(attempt.number, begin, since, loss))
        standing = [each for each in standing if each.end <= begin] + [
            Stretch(each.begin, begin, each.seconds - each.beyond(begin).seconds, each.per_s)
            for each in standing
            if each.begin < begin < each.end
        ]
        if attempt.committed_step is not None and attempt.committed_at is not None and attempt.committed_step > begin:
            seconds = max(0.0, attempt.committed_at - attempt.started_at)
            standing.append(Stretch(begin, attempt.committed_step, seconds, price(attempt)))
    return found


def account(attempts: Sequence[Attempt], price: Price = no_price) -> Account:
    """The account of a whole job."""
    each: list[tuple[int, Loss]] = []
    causes: dict[str, Loss] = {}
    total = Loss()
    for attempt in attempts:
        loss = loss_of(attempt, price)
        each.append((attempt.number, loss))
        total = total.plus(loss)
        if attempt.cause is not None and attempt.ended_at is not None:
            causes[attempt.cause.value] = causes.get(attempt.cause.value, Loss()).plus(loss)
    for back in set_backs(attempts, price):
        total = total.plus(back.loss)
        causes[DAMAGED] = causes.get(DAMAGED, Loss()).plus(back.loss)
    return Account(tuple(each), tuple(causes.items()), total)
