"""Which files a job saves together: the round under way, the one before it, and when one is whole.

Pure: completeness.py tells what was written, closed and renamed, with the time. A job that saves a model and then its
optimizer must never be resumed from the new one and the old other. What it wrote together the time before is waited
for; the first time, quiet is.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from headway_agent.checkpoints.roots import inner
from headway_agent.checkpoints.step_names import is_share, shape_of, step_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    Signature = tuple[int, int, int]  # size, mtime in ns, inode

QUIET_S = 1.0  # After the last event of a first round: who saves two files opens the second right after the first.
QUIET_INSIDE_S = 2.0  # The same where a directory is filled: more may follow each file.
QUIET_UNUSUAL_S = 5.0  # The same where something is missing that came the time before.
CONFIRM_S = 1.0  # A close may have come with the death of its writer: that is known by then.
GAP_S = 0.05  # A pause within a round that is longer than this, and than twice the one before it, parts two rounds.
UNKNOWN_S = float("inf")  # What was before the first event that was heard.
RENAMED = "renamed"
BEST = re.compile(r"(?<![a-z])best(?![a-z])", re.IGNORECASE)
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
    seen: Mapping[str, int] | None = None  # How far the job had told it was, by unit.
    inside: tuple[str, int] | None = None  # The step that it says inside, where its name says none.
    alive: bool = False  # Its writers were alive after it: it did not come with the death of one.
    lost: bool = False  # It is cut, or was written to again before it could be read: its round is none.


class Slots:
    """Names as a job reuses them: the same name again, or another step in a name, is another round.

    So is another name of the same shape that says no step (a date, a loss) where the file says another one inside, the
    job has told one meanwhile, or a round never has more of that shape.
    """

    def __init__(self, files: Mapping[str, Closed | None] | None = None) -> None:
        self.paths: set[str] = set()
        self.steps: dict[str, set[int]] = {}  # By unit.
        self.shapes: dict[str, list[Closed | None]] = {}  # Of names without a step.
        for path, what in (files or {}).items():
            self.add(path, what)

    def add(self, path: str, what: Closed | None) -> None:
        self.paths.add(path)
        step = step_in(path)
        if step is not None:
            self.steps.setdefault(step.unit, set()).add(step.number)
        elif not is_share(path):
            self.shapes.setdefault(shape_of(path), []).append(what)

    def taken(self, path: str, usual: Mapping[str, int], what: Closed | None = None) -> bool:
        """Whether this file, of which perhaps only the name is known, is of another round."""
        if path in self.paths:
            return True
        step = step_in(path)
        if step is not None:
            return bool(self.steps.get(step.unit, set()) - {step.number})
        alike = self.shapes.get(shape_of(path), [])
        if not alike or is_share(path):
            return False
        return 0 < usual.get(shape_of(path), 0) <= len(alike) or _tells_another(alike[-1], what)


def _tells_another(one: Closed | None, two: Closed | None) -> bool:
    """Whether two files are of different saves, by what they say inside or the job had told when they were closed."""
    if one is None or two is None:
        return False
    if one.inside is not None and two.inside is not None:
        return one.inside != two.inside
    return bool(one.seen) and bool(two.seen) and one.seen != two.seen


@dataclass
class Rounds:
    now: dict[str, Closed] = field(default_factory=dict)  # What was closed in the round under way.
    slots: Slots = field(default_factory=Slots)  # The same by slot.
    full: dict[str, Closed] = field(default_factory=dict)  # The newest whole round, until it is taken.
    before: dict[str, Any] = field(default_factory=dict)  # The newest whole round: files may join it late.
    slots_before: Slots = field(default_factory=Slots)
    joins: bool = True  # Whether all of the round under way may be the rest of the one before.
    usual: Counter[str] = field(default_factory=Counter)  # How many files of each shape a round has.
    sealed: set[str] = field(default_factory=set)  # Folders of this round of which the framework says they are whole.
    writing: dict[str, float] = field(default_factory=dict)  # Files with writes and no close yet: since when.
    gaps: dict[str, float] = field(default_factory=dict)  # How long nothing was written before each file.
    event_s: float = 0.0
    failed_s: float | None = None  # When a rank failed: closes since just before it prove nothing,
    abrupt: bool = False  # but where it was killed in the middle of its work, those that came before its death do.


def wrote(rounds: Rounds, path: str, now: float) -> None:
    """A file is being written to. If the round has it already, that round is over, and this is the next one."""
    if path not in rounds.writing:
        gap_s = 0.0 if rounds.writing else now - rounds.event_s if rounds.event_s else UNKNOWN_S
        _begin(rounds, path, gap_s)
        rounds.gaps[path] = gap_s
        rounds.writing[path] = now
    rounds.event_s = now


def _begin(rounds: Rounds, path: str, gap_s: float) -> None:
    """If this file begins the next round, the one under way is over; first the rest of an older one goes out of it."""
    if _is_next(rounds, path):
        before_s = _before_s(rounds)
        _part(rounds, gap_s if before_s == UNKNOWN_S else max(gap_s, before_s))
    if _is_next(rounds, path):
        _finish(rounds)


def closed(rounds: Rounds, path: str, what: Closed, now: float) -> None:
    """A file was closed after writing, or came by rename, and nobody has it open for writing."""
    again = path in rounds.now and rounds.now[path].lost and path not in rounds.writing  # The same save, closed twice.
    if path not in rounds.writing and not again:
        _begin(rounds, path, now - rounds.event_s)
    elif not again and rounds.slots.taken(path, rounds.usual, what):  # It is held open, or tells of another save.
        _finish(rounds)
    rounds.writing.pop(path, None)
    rounds.event_s = now
    rounds.now[path] = what
    rounds.slots.add(path, what)
    rounds.joins = rounds.joins and not rounds.slots_before.taken(path, rounds.usual, what)


def starts_after(rounds: Rounds, files: Mapping[str, Closed | None]) -> None:
    """The newest round that is whole was this one."""
    rounds.before = dict(files)
    rounds.slots_before = Slots(rounds.before)


def seal(rounds: Rounds, folder: str) -> None:
    """The framework that fills this folder would say that it is whole: so is all that was closed in it."""
    rounds.sealed.add(folder)
    for path, each in rounds.now.items():
        if path.startswith(folder + "/") and not each.lost:
            rounds.now[path] = replace(each, whole=True)


def forget_missing(rounds: Rounds, there: Mapping[str, Any]) -> None:
    """Names that are no more: drafts that were renamed, files that the job removed."""
    rounds.writing = {path: since_s for path, since_s in rounds.writing.items() if path in there}
    if any(path not in there for path in rounds.now):
        rounds.now = {path: each for path, each in rounds.now.items() if path in there}
        rounds.slots = Slots(rounds.now)


def take(rounds: Rounds, now: float) -> dict[str, Closed]:
    """The newest whole round that nobody has taken yet; empty where there is none."""
    if rounds.now and _is_whole(rounds, now) and not _part(rounds, _before_s(rounds)):
        _finish(rounds)
    full, rounds.full = rounds.full, {}
    return full


def take_at_the_end(rounds: Rounds, all_closed: bool) -> dict[str, Closed]:
    """What counts once the ranks are over: the last round if it was whole, else the one before if nobody took it.

    `all_closed`: they ended by themselves, so what they left is what they meant to leave.
    """
    if rounds.now:
        _part(rounds, _before_s(rounds))
    if rounds.now and _is_trusted(rounds) and (all_closed or _was_whole(rounds)):
        _finish(rounds)
    full, rounds.full = rounds.full, {}
    return full


def older(due: Mapping[str, Closed], tree: Mapping[str, Signature]) -> list[str]:
    """Of what is to be kept, the files that lie there in a newer state: a job that ended well meant that one."""
    return [path for path, each in due.items() if tree.get(path, each.signature) != each.signature]


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
        times += [since_s + HELD_OPEN_S for path, since_s in rounds.writing.items() if path not in rounds.now]
    return max(times, default=rounds.event_s)


def _is_whole(rounds: Rounds, now: float) -> bool:
    if not _is_trusted(rounds) or any(now - each.at_s < CONFIRM_S for each in rounds.now.values() if not each.whole):
        return False
    if _is_usual(rounds) or _is_sealed(rounds):
        return True
    busy = any(now - since_s < HELD_OPEN_S for path, since_s in rounds.writing.items() if path not in rounds.now)
    return not busy and now - rounds.event_s >= _quiet_s(rounds)


def _is_usual(rounds: Rounds) -> bool:
    """Whether all is there that the job wrote together the time before. The best so far is not saved each time."""
    have, needed = _shapes(rounds.now), [each for each in rounds.usual if not BEST.search(each)] or list(rounds.usual)
    return bool(needed) and all(have[shape] >= rounds.usual[shape] for shape in needed)


def _is_sealed(rounds: Rounds) -> bool:
    return bool(rounds.now) and all(path.rpartition("/")[0] in rounds.sealed for path in rounds.now)


def _was_whole(rounds: Rounds) -> bool:
    """Of a round in which the ranks died: the usual one, or a first one of a single file, or with quiet after it."""
    if _is_usual(rounds) or _is_sealed(rounds):
        return True
    if rounds.usual or rounds.writing:
        return False
    # A folder that is named by a step is filled with one save; in another one, each file may be all of it.
    alone = len(rounds.now) == 1 and all(step_in(path.rpartition("/")[0]) is None for path in rounds.now)
    after_s = rounds.failed_s - rounds.event_s if rounds.failed_s is not None else 0.0
    return after_s >= (GAP_S if alone else _quiet_s(rounds))


def _is_trusted(rounds: Rounds) -> bool:
    """Whether nothing speaks against any file of the round: none is lost, none was closed as a rank failed."""
    return not any(each.lost or _is_suspect(rounds, each) for each in rounds.now.values())


def _is_suspect(rounds: Rounds, each: Closed) -> bool:
    """A rank that fails while it saves closes the file before it ends; one that is killed closes nothing before."""
    if each.whole or rounds.failed_s is None or (rounds.abrupt and each.alive and each.at_s <= rounds.failed_s):
        return False
    return rounds.failed_s - each.at_s < CONFIRM_S


def _quiet_s(rounds: Rounds) -> float:
    if any(shape_of(path) in rounds.usual for path in rounds.now):
        return QUIET_UNUSUAL_S
    # Each file that came by rename is whole by itself: what settles them (completeness.py) waits no longer either.
    inside = any("/" in inner(path) and each.how != RENAMED for path, each in rounds.now.items())
    return QUIET_INSIDE_S if inside else QUIET_S


def _is_next(rounds: Rounds, path: str) -> bool:
    """Whether this file begins the next round: this one has it, or is the rest of the one before, which has it."""
    usual = rounds.usual
    return rounds.slots.taken(path, usual) or bool(
        rounds.now and rounds.joins and rounds.slots_before.taken(path, usual)
    )


def _part(rounds: Rounds, around_s: float) -> bool:
    """Whether a pause in the round is longer than the one around it: what comes before it belongs to an older one.

    Who begins to watch in the middle of a save would else take the optimizer of each with the model of the next.
    """
    paths = list(rounds.now)
    pauses = {path: _pause_s(rounds, last, path) for last, path in zip(paths, paths[1:])}
    longest = max(pauses, key=pauses.__getitem__, default=None)
    if longest is None or pauses[longest] <= GAP_S + 2 * around_s:
        return False
    rounds.now = {path: rounds.now[path] for path in paths[paths.index(longest) :]}
    rounds.slots = Slots(rounds.now)
    rounds.joins = not any(rounds.slots_before.taken(path, rounds.usual, what) for path, what in rounds.now.items())
    return True


def _before_s(rounds: Rounds) -> float:
    """How long nothing was written before the round."""
    return rounds.gaps.get(next(iter(rounds.now)), 0.0) if rounds.now else 0.0


def _pause_s(rounds: Rounds, last: str, path: str) -> float:
    """Between two files of the round, as it was heard: late on a busy machine; no longer than their own times say."""
    heard_s = rounds.gaps.get(path, 0.0)
    times_ns = [rounds.now[each].signature[1] for each in (last, path)]
    return min(heard_s, max(0.0, (times_ns[1] - times_ns[0]) / 1e9)) if all(times_ns) else heard_s


def _finish(rounds: Rounds) -> None:
    """The round is over. One of which a part may be cut is none."""
    trusted, joins = _is_trusted(rounds), rounds.joins and bool(rounds.before)
    found, rounds.now, rounds.slots, rounds.joins, rounds.sealed = rounds.now, {}, Slots(), True, set()
    rounds.gaps = {path: rounds.gaps[path] for path in rounds.writing if path in rounds.gaps}
    if not found or not trusted:
        return
    rounds.full = {**rounds.full, **found} if joins else dict(found)
    starts_after(rounds, {**rounds.before, **found} if joins else found)
    rounds.usual = _shapes(rounds.before)


def _shapes(paths: Mapping[str, Any]) -> Counter[str]:
    return Counter(map(shape_of, paths))
