"""Which files a job saves together: the round under way, the one before it, and when one is whole.

Pure: completeness.py tells what was written, closed and renamed, with the time. A job that saves a model and then its
optimizer must never be resumed from the new one and the old other. What it wrote together the time before is waited
for; the first time, quiet is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headway_agent.step_names import shape_of, step_in
from headway_agent.workdir_notes import inner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

    Signature = tuple[int, int, int]  # size, mtime in ns, inode

QUIET_S = 0.5  # After the last event of a first round: who saves two files opens the second right after the first.
QUIET_INSIDE_S = 2.0  # The same where a directory is filled: more may follow each file.
CONFIRM_S = 1.0  # A close may have come with the death of its writer: that is known by then.
HELD_OPEN_S = 30.0  # What is written to for so long without a close is a log, or the like: no round waits for it.


@dataclass(frozen=True)
class Closed:
    """A file of a round as it was closed, and where its bytes are if they were put by."""

    signature: Signature
    at_s: float
    how: str
    whole: bool = False  # Its own format says that nothing is missing, no matter how it came to be closed.
    source: str = ""  # A copy that the job does not write to; empty: only the file itself.
    source_signature: Signature = (0, 0, 0)


class Slots:
    """Names as a job reuses them: the same name again, or the next number of it, is the next round."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.paths: set[str] = set()
        self.steps: dict[str, set[int]] = {}
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        self.paths.add(path)
        step = step_in(path)
        if step is not None:
            self.steps.setdefault(shape_of(path), set()).add(step.number)

    def taken(self, path: str) -> bool:
        if path in self.paths:
            return True
        step = step_in(path)
        return step is not None and bool(self.steps.get(shape_of(path), set()) - {step.number})


@dataclass
class Rounds:
    now: dict[str, Closed] = field(default_factory=dict)  # What was closed in the round under way.
    slots: Slots = field(default_factory=Slots)  # The same by slot.
    full: dict[str, Closed] = field(default_factory=dict)  # The newest whole round, until it is taken.
    before: dict[str, Any] = field(default_factory=dict)  # The newest whole round: files may join it late.
    usual: Counter[str] = field(default_factory=Counter)  # How many files of each shape a round has.
    writing: dict[str, float] = field(default_factory=dict)  # Files with writes and no close yet: since when.
    event_s: float = 0.0
    failed_s: float | None = None  # When a rank failed: closes since just before it prove nothing.


def wrote(rounds: Rounds, path: str, now: float) -> None:
    """A file is being written to. If the round has it already, that round is over, and this is the next one."""
    if rounds.slots.taken(path):
        _finish(rounds)
    rounds.writing.setdefault(path, now)
    rounds.event_s = now


def closed(rounds: Rounds, path: str, what: Closed, now: float) -> None:
    """A file was closed after writing, or came by rename, and nobody has it open for writing."""
    if rounds.slots.taken(path):
        _finish(rounds)
    rounds.writing.pop(path, None)
    rounds.event_s = now
    rounds.now[path] = what
    rounds.slots.add(path)


def forget_missing(rounds: Rounds, there: Mapping[str, Any]) -> None:
    """Names that are no more: drafts that were renamed, files that the job removed."""
    rounds.writing = {path: since_s for path, since_s in rounds.writing.items() if path in there}
    if any(path not in there for path in rounds.now):
        rounds.now = {path: each for path, each in rounds.now.items() if path in there}
        rounds.slots = Slots(rounds.now)


def take(rounds: Rounds, now: float) -> dict[str, Closed]:
    """The newest whole round that nobody has taken yet; empty where there is none."""
    if rounds.now and _is_whole(rounds, now):
        _finish(rounds)
    full, rounds.full = rounds.full, {}
    return full


def take_at_the_end(rounds: Rounds, all_closed: bool) -> dict[str, Closed]:
    """What counts once the ranks are over: the last round if it was whole, else the one before if nobody took it.

    `all_closed`: they ended by themselves, so what they left is what they meant to leave.
    """
    trusted = all(each.whole or _confirmed(rounds, each) for each in rounds.now.values())
    if rounds.now and trusted and (all_closed or _was_whole(rounds)):
        _finish(rounds)
    full, rounds.full = rounds.full, {}
    return full


def awaits_more(rounds: Rounds, path: str) -> bool:
    """Whether other files usually come with this one, and are not all there yet."""
    return shape_of(path) in rounds.usual and not _is_usual(rounds)


def next_s(rounds: Rounds) -> float | None:
    """When time alone makes the round whole; None when only an event can."""
    if not rounds.now:
        return None
    times = [each.at_s + CONFIRM_S for each in rounds.now.values() if not each.whole]
    if not _is_usual(rounds):
        times.append(rounds.event_s + _quiet_s(rounds))
        times += [since_s + HELD_OPEN_S for since_s in rounds.writing.values()]
    return max(times, default=rounds.event_s)


def _is_whole(rounds: Rounds, now: float) -> bool:
    if not all(
        each.whole or (now - each.at_s >= CONFIRM_S and _confirmed(rounds, each)) for each in rounds.now.values()
    ):
        return False
    if _is_usual(rounds):
        return True
    busy = any(now - since_s < HELD_OPEN_S for since_s in rounds.writing.values())
    return not busy and now - rounds.event_s >= _quiet_s(rounds)


def _is_usual(rounds: Rounds) -> bool:
    """Whether all is there that the job wrote together the time before."""
    have = _shapes(rounds.now)
    return bool(rounds.usual) and all(have[shape] >= count for shape, count in rounds.usual.items())


def _was_whole(rounds: Rounds) -> bool:
    """Of a round in which the ranks died: the usual one, or a first one of a single file, or with quiet after it."""
    if _is_usual(rounds):
        return True
    if rounds.usual or rounds.writing:
        return False
    alone = len(rounds.now) == 1 and all("/" not in inner(path) for path in rounds.now)
    return alone or (rounds.failed_s is not None and rounds.failed_s - rounds.event_s >= _quiet_s(rounds))


def _confirmed(rounds: Rounds, each: Closed) -> bool:
    return rounds.failed_s is None or rounds.failed_s - each.at_s >= CONFIRM_S


def _quiet_s(rounds: Rounds) -> float:
    return QUIET_INSIDE_S if any("/" in inner(path) for path in rounds.now) else QUIET_S


def _finish(rounds: Rounds) -> None:
    """The round is over. One of which a part may be cut is none."""
    found, rounds.now, rounds.slots = rounds.now, {}, Slots()
    if not found or not all(each.whole or _confirmed(rounds, each) for each in found.values()):
        return
    slots = Slots(found)
    if rounds.before and not any(map(slots.taken, rounds.before)):
        rounds.before = {**rounds.before, **found}  # The rest of the round before.
        rounds.full = {**rounds.full, **found}
    else:
        rounds.before, rounds.full = dict(found), dict(found)
    rounds.usual = _shapes(rounds.before)


def _shapes(paths: Mapping[str, Any]) -> Counter[str]:
    return Counter(map(shape_of, paths))
