"""Lines of logs: cut out of the pieces of a story, put in the order of time, and searched.

`merged` is for several at once: the ranks of a gang come merged out of a story, the jobs of an array go through here.
"""

from __future__ import annotations

import heapq
import queue
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

LINE_BYTES_MAX = 1 << 20
HELD_LINES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class StoryPiece:
    """Bytes for the reader: of the job's output, of its separate stderr, or a remark of ours.

    `at` is when the last of them was written, as far as is known; `rank` is told where a job has several.
    """

    data: bytes
    stream: str = "out"  # out, err; `talk` is beside the log.
    at: float | None = None
    rank: int | None = None
    remark: bool = False

    @property
    def slot(self) -> tuple[int | None, str]:
        return self.rank, self.stream


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, without its end."""

    text: bytes
    stream: str = "out"
    at: float | None = None  # When its end was written, or shortly after; see docs/how-to/read-logs.md.
    rank: int | None = None
    remark: bool = False
    job: str = ""  # Told where lines of several jobs are read together.


Timed = TypeVar("Timed", StoryPiece, LogLine)


def lines_of(pieces: Iterable[StoryPiece], job: str = "") -> Iterator[LogLine]:
    """Whole lines, each when its end has come; what has no end yet comes last."""
    kept: dict[tuple[int | None, str], tuple[bytes, StoryPiece]] = {}
    for piece in pieces:
        if piece.remark:
            yield from _remarked(piece, job)
            continue
        before = kept.pop(piece.slot, None)
        lines = ((before[0] if before else b"") + piece.data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield LogLine(line, piece.stream, piece.at, piece.rank, job=job)
        if len(rest) > LINE_BYTES_MAX:
            yield LogLine(rest, piece.stream, piece.at, piece.rank, job=job)
        elif rest:
            kept[piece.slot] = rest, piece
    for rest, piece in kept.values():
        yield LogLine(rest, piece.stream, piece.at, piece.rank, job=job)


def _remarked(piece: StoryPiece, job: str) -> Iterator[LogLine]:
    for line in piece.data.strip(b"\n").split(b"\n"):
        yield LogLine(line, piece.stream, piece.at, None, True, job)


def prefixed(pieces: Iterable[StoryPiece]) -> Iterator[StoryPiece]:
    """The same bytes; of several ranks whole lines, each with the rank's name before it."""
    cut = Cutter()
    for piece in pieces:
        yield piece if piece.rank is None else replace(piece, data=cut.feed(piece))
    yield from cut.rest()


class Cutter:
    """Cuts the bytes of ranks into whole lines, each with its rank's name before it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int | None, str], tuple[bytes, StoryPiece]] = {}

    def feed(self, piece: StoryPiece) -> bytes:
        before = self._kept.pop(piece.slot, None)
        lines = ((before[0] if before else b"") + piece.data).split(b"\n")
        rest, name = lines.pop(), name_of(piece.rank)
        if len(rest) > LINE_BYTES_MAX:
            lines.append(rest)
        elif rest:
            self._kept[piece.slot] = rest, piece
        return b"".join(name + line + b"\n" for line in lines)

    def rest(self) -> Iterator[StoryPiece]:
        kept, self._kept = self._kept, {}
        for rest, piece in kept.values():
            yield replace(piece, data=name_of(piece.rank) + rest + b"\n")


def name_of(rank: int | None) -> bytes:
    return b"" if rank is None else f"[rank {rank}] ".encode()


# --- several at once -------------------------------------------------------------------------------------------------


def in_time(several: Sequence[Iterable[Timed]]) -> Iterator[Timed]:
    """Pieces or lines of several, in the order of time; those of one stay in their own order."""

    def timed(number: int, each: Iterable[Timed]) -> Iterator[tuple[float, int, int, Timed]]:
        latest = float("-inf")
        for count, one in enumerate(each):
            latest = max(latest, one.at or latest)
            yield latest, number, count, one

    for _, _, _, one in heapq.merge(*(timed(number, each) for number, each in enumerate(several))):
        yield one


def merged(several: Sequence[Iterable[LogLine]]) -> Iterator[LogLine]:
    """All lines that there are, in the order of time."""
    return in_time(several)


def followed_together(several: Sequence[Iterable[LogLine]]) -> Iterator[LogLine]:
    """Lines as they come, of logs that grow: each is read on a thread of its own, so each needs a client
    of its own (`Client.another`). What fails there is raised here.
    """
    heard: queue.Queue[LogLine | BaseException | None] = queue.Queue(HELD_LINES_MAX)

    def read(each: Iterable[LogLine]) -> None:
        try:
            for line in each:
                heard.put(line)
            heard.put(None)
        except BaseException as error:
            heard.put(error)

    for each in several:
        threading.Thread(target=read, args=(each,), name="log-reader", daemon=True).start()
    left = len(several)
    while left:
        got = heard.get()
        if isinstance(got, BaseException):
            raise got
        if got is None:
            left -= 1
        else:
            yield got


# --- searching -------------------------------------------------------------------------------------------------------

HIT, BEFORE, AFTER, MARK, GAP = "hit", "before", "after", "mark", "gap"
Slot = tuple[str, int | None, str]


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line that matches, one beside it, or (without a line) that some were left out here."""

    kind: str
    line: LogLine | None = None


def found(
    lines: Iterable[LogLine], pattern: re.Pattern[bytes], context: int = 0, tail: int | None = None
) -> Iterator[FoundLine]:
    """Lines that match, with so many around each; with `tail`, only the last so many that match.

    Lines of one rank are each other's neighbours, whatever others wrote between them. Remarks stay where a match
    follows.
    """
    hits = _hits(lines, pattern, context)
    if tail is None:
        yield from hits
        return
    groups: deque[list[FoundLine]] = deque(maxlen=tail)
    group: list[FoundLine] = []
    for each in hits:
        if group and (each.kind == HIT or each.kind != AFTER) and group[-1].kind in (HIT, AFTER):
            groups.append(group)
            group = []
        group.append(each)
    groups.append(group)
    kept = [each for group in groups for each in group]
    yield from kept[1:] if kept and kept[0].kind == GAP else kept


def _hits(lines: Iterable[LogLine], pattern: re.Pattern[bytes], context: int) -> Iterator[FoundLine]:
    before: dict[Slot, deque[LogLine]] = {}
    after: dict[Slot, int] = {}
    marks: list[LogLine] = []
    told = skipped = False
    for line in lines:
        of = line.job, line.rank, line.stream
        if line.remark:
            marks.append(line)
        elif pattern.search(line.text):
            if told and skipped and context:
                yield FoundLine(GAP)
            yield from (FoundLine(MARK, each) for each in marks)
            yield from (FoundLine(BEFORE, each) for each in before.pop(of, ()))
            yield FoundLine(HIT, line)
            told, skipped, marks = True, False, []
            after[of] = context
        elif after.get(of, 0):
            after[of] -= 1
            yield FoundLine(AFTER, line)
        else:
            room = before.setdefault(of, deque(maxlen=context))
            skipped = skipped or len(room) == room.maxlen
            room.append(line)
