"""The verdict on one training: what its journal says, held against what Headway did and told.

A fault is a sentence; none means that the promise was kept. Pure, and tested with made-up journals (test_judge.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.trainings.journal import Journal

TELLS_WITHIN_S = 5.0  # How far a job is, is told to the server every second or two.
FIRST_WITHIN_S = 3.0  # A job's very first save is committed when nothing more came for a second or two.
JUST_S = 0.2  # A file that was saved so shortly before an end, and is the first of all, may not have been alone.
SLACK_S = 3.0  # For the start and the end of processes on a busy machine, and for what a journal cannot say.
NOTICE, RANK, RANKS, MACHINE = "notice", "rank", "ranks", "machine"


@dataclass(frozen=True)
class End:
    """One end of an attempt that the test brought about, and when."""

    attempt: int
    way: str
    at: float


@dataclass(frozen=True)
class Commit:
    attempt: int
    step: int
    at: float


@dataclass
class Verdict:
    faults: list[str] = field(default_factory=list)
    lost_with_notice: list[int] = field(default_factory=list)
    lost_without: list[int] = field(default_factory=list)
    beyond: list[int] = field(default_factory=list)  # Of these, what had been saved and was lost nevertheless.
    commit_s: list[float] = field(default_factory=list)  # From the end of a save to its commit.
    identical: bool = False
    account_exact: bool = True
    # Of each attempt: steps told as lost, steps lost, whether they are told as a least, and whether that is right.
    account: list[tuple[int, int, bool, bool]] = field(default_factory=list)
    own_steps: bool = True


@dataclass(frozen=True)
class Evidence:
    journal: Journal
    ends: Sequence[End]
    commits: Sequence[Commit]
    told: Mapping[str, Any]  # What `describe --json` says.
    checkpoints: Sequence[Mapping[str, Any]]  # What `checkpoints --json` says.
    undisturbed: Mapping[int, str]
    ranks: int = 1
    heeds: bool = False  # It saves when it is told to end.
    unsure_s: float = 0.0  # What was saved so shortly before an end may be lost: nothing tells whether it is whole.
    several: bool = False  # A save is several files: after the very first, more of them are waited for a while.
    tells_begun: bool = False  # It tells the epoch that it is in, not the last one that it has done.
    tells_later: bool = False  # That what it tells is its steps is known with its first save only.
    slow_to_end: bool = False  # A library that takes seconds to end, after the last that its journal can say.
    price_per_s: float | None = None  # Of all its nodes together.


def judge(case: Evidence) -> Verdict:
    verdict = Verdict()
    for end in case.ends:
        _one_end(case, end, verdict)
    _commit_times(case, verdict)
    _restored(case, verdict)
    _result(case, verdict)
    _account(case, verdict)
    _seconds(case, verdict)
    _money(case, verdict)
    _steps(case, verdict)
    return verdict


def _one_end(case: Evidence, end: End, verdict: Verdict) -> None:
    later = [attempt for attempt in case.journal.attempts(case.ranks) if attempt > end.attempt]
    if not later:
        verdict.faults.append(f"nothing began after the {end.way} in attempt {end.attempt}")
        return
    reached, resumed = case.journal.reached(end.attempt), case.journal.began(later[0])
    lost = max(0, reached - resumed)
    (verdict.lost_with_notice if end.way == NOTICE else verdict.lost_without).append(lost)
    must = _must_resume(case, end)
    verdict.beyond.append(max(0, must - resumed))
    if resumed < must:
        words = f"attempt {later[0]} began from step {resumed}, though step {must} was saved before the {end.way}"
        verdict.faults.append(f"{words} in attempt {end.attempt} (which had come to step {reached})")
    if end.way == NOTICE and case.heeds and lost:
        verdict.faults.append(f"a notice in attempt {end.attempt} lost {lost} steps")


def _must_resume(case: Evidence, end: End) -> int:
    """The newest step that had to survive this end.

    What it went on from, in any case; each end before has its own verdict. Where the disk is left, the newest save that
    was finished, but for those of which nobody could tell so soon, and the very first where it is several files. Where
    the machine is gone, the newest that was committed: and of what was finished, all that had longer than the slowest
    commit of this training took.
    """
    began = case.journal.began(end.attempt)
    if len(case.journal.saves_by(end.at)) < 2 and (case.several or not case.journal.saves_by(end.at - JUST_S)):
        return began
    if end.way != MACHINE:
        return max(began, case.journal.saved(end.attempt, end.at - case.unsure_s if case.unsure_s else float("inf")))
    committed = [each.step for each in case.commits if each.attempt == end.attempt and each.at <= end.at]
    slowest_s = max(commit_times(case.journal, case.commits), default=0.0)
    if not any(each.at <= end.at for each in case.commits):
        slowest_s = max(slowest_s, FIRST_WITHIN_S)
    return max(began, case.journal.saved(end.attempt, end.at - slowest_s), *committed)


def commit_times(journal: Journal, commits: Sequence[Commit]) -> list[float]:
    """How long it took from the end of each save until it, or a later one of the same attempt, was committed."""
    found = []
    for line in journal.lines:
        if line.what == "saved":
            times = [each.at for each in commits if each.attempt == line.attempt and each.step >= line.step]
            if times and min(times) >= line.at:
                found.append(min(times) - line.at)
    return found


def _commit_times(case: Evidence, verdict: Verdict) -> None:
    verdict.commit_s = commit_times(case.journal, case.commits)


def _restored(case: Evidence, verdict: Verdict) -> None:
    for line in case.journal.torn():
        verdict.faults.append(f"attempt {line.attempt} was given what is not whole: {line.why}")
    for line, had in case.journal.restored_states():
        if had and line.hash not in had:
            verdict.faults.append(f"attempt {line.attempt} began from another state than it had at step {line.step}")


def _result(case: Evidence, verdict: Verdict) -> None:
    if case.told["state"] != "succeeded":
        verdict.faults.append(f"it {case.told['state']}: {case.told['sentence']}")
    verdict.identical = case.journal.results() == dict(case.undisturbed)
    if not verdict.identical:
        verdict.faults.append("the result is not that of an undisturbed training")


def _account(case: Evidence, verdict: Verdict) -> None:
    """Steps told as lost are those of the journal, and where a machine took its last word with it, told as a least."""
    for attempt, following in pairwise(case.journal.attempts(case.ranks)):
        told = case.told["attempts"][attempt - 1]
        reached, resumed = case.journal.reached(attempt), case.journal.began(following)
        least, at_least = _least(case, attempt, told)
        most = max(0, reached - resumed + case.tells_begun)
        right = max(0, least - resumed) <= told["steps_lost"] <= most
        verdict.account.append((told["steps_lost"], max(0, reached - resumed), at_least, right))
        if not right:
            words = f"attempt {attempt}: {'at least ' if at_least else ''}{told['steps_lost']} steps told as lost"
            verdict.faults.append(f"{words}, {reached - resumed} were (from step {reached} to {resumed})")
        resumed_told = case.told["attempts"][following - 1]["resumed_step"] or 0
        if resumed_told != resumed:
            verdict.faults.append(f"attempt {following} is told to resume from step {resumed_told}, it was {resumed}")
        verdict.account_exact = verdict.account_exact and right and resumed_told == resumed


def _least(case: Evidence, attempt: int, told: Mapping[str, Any]) -> tuple[int, bool]:
    """The newest step that must be known of an attempt; and whether more may be lost than is told.

    All that it told of. Who is ended between the end of a step and the word of it may be known by either. Of a machine
    that is gone, what it had the time to tell the server of.
    """
    gone = [end.at for end in case.ends if end.way == MACHINE and end.attempt == attempt]
    if gone and told["lost_at_least"]:
        return min(case.journal.told(attempt), case.journal.reached(attempt, gone[0] - TELLS_WITHIN_S)), True
    if not told["steps_told"] and case.tells_later and not case.journal.saves_by(case.journal.ended_at(attempt)):
        return 0, True
    return case.journal.told(attempt), bool(told["lost_at_least"] or not told["steps_told"])


def _seconds(case: Evidence, verdict: Verdict) -> None:
    """Seconds told as lost run from the save that the next attempt began from, or the start, to the last sign of it."""
    ways = {end.attempt: end.way for end in case.ends}
    for attempt, following in pairwise(case.journal.attempts(case.ranks)):
        told = case.told["attempts"][attempt - 1]
        if told.get("seconds_lost") is None:
            continue
        resumed = case.journal.began(following)
        # One that was ended between its save and its word of it had saved all the same.
        words = [case.journal.of(attempt, what) for what in ("saved", "saving")]
        saves = [line.at for lines in words for line in lines if line.step == resumed]
        since = saves[0] if saves else told["started_at"]
        until = max(line.at for line in case.journal.of(attempt))
        # That a machine is gone is not seen at once. Nothing else may count what came after the work.
        late = ways.get(attempt) == MACHINE or case.slow_to_end
        most = (told["ended_at"] if late else until + SLACK_S) - since
        if not until - since - SLACK_S <= told["seconds_lost"] <= most + 0.5:
            verdict.account_exact = False
            said = f"attempt {attempt}: {told['seconds_lost']:.1f} s told as lost"
            verdict.faults.append(f"{said}, {until - since:.1f} s were (it went on from step {resumed})")


def _money(case: Evidence, verdict: Verdict) -> None:
    """Money is seconds by price, and the whole is the sum of its parts."""
    account = case.told.get("account")
    if account is None or case.price_per_s is None:
        return
    for loss in (account["total"], *account["attempts"]):
        meant = loss["seconds"] * case.price_per_s
        if loss["seconds"] and abs((loss["money"] or 0.0) - meant) > 0.01 + meant / 1000:
            verdict.account_exact = False
            verdict.faults.append(f"{loss['seconds']} s are told to cost {loss['money']}, they cost {meant:.2f}")
    for what in ("steps", "seconds"):
        parts = sum(each[what] for each in account["attempts"])
        if abs(account["total"][what] - parts) > 0.1:
            verdict.account_exact = False
            verdict.faults.append(f"{account['total'][what]} {what} told in all, {parts} by attempts")


def _steps(case: Evidence, verdict: Verdict) -> None:
    """Checkpoints are shown under the job's own steps, and the last one is what it saved last."""
    own = {line.step for line in case.journal.lines if line.what == "saved"}
    shown = [int(each["step"]) for each in case.checkpoints]
    strange = [step for step in shown if step not in own]
    if strange:
        verdict.faults.append(f"checkpoints of steps {strange} are shown; the job saved none of these")
    last = case.journal.saved()
    if last and (not shown or max(shown) != last):
        verdict.faults.append(f"its last checkpoint is shown as step {max(shown, default=None)}; it saved step {last}")
        strange = strange or [last]
    verdict.own_steps = not strange
