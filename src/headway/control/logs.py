"""The index of ranks' output: what is kept of a log that outgrows its limit, and which small pieces are joined.

Pure choices over ranges, and the little that commands need to apply them. Bytes are moved in housekeeping.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from headway.control.desk import Desk
from headway.core.events import Event
from headway.store.protocol import LogRange

Stream = tuple[str, int, int, int, str]
JOINED_BYTES_MAX = 8 * 2**20


def stream_of(piece: LogRange) -> Stream:
    return (piece.job, piece.attempt, piece.task, piece.rank, piece.stream)


def to_drop(pieces: Sequence[LogRange], bytes_max: int) -> list[LogRange]:
    """Pieces of one stream that leave when it has outgrown its limit: head and tail stay, half of the limit each."""
    kept = sum(piece.end - piece.start for piece in pieces)
    if kept <= bytes_max:
        return []
    half = bytes_max // 2
    end = pieces[-1].end
    return [piece for piece in pieces if piece.end > half and piece.end <= end - half]


def trim(desk: Desk, fresh: Iterable[LogRange]) -> None:
    """Drop the middle of streams that have just outgrown their job's limit."""
    for stream in dict.fromkeys(stream_of(piece) for piece in fresh):
        job = desk.book.jobs.get(stream[0])
        if job is None:
            continue
        newest = max(piece.end for piece in desk.logs if stream_of(piece) == stream)
        if newest <= job.spec.log_bytes_max:
            continue
        pieces = [piece for piece in desk.store.logs(stream[0], stream[1]) if stream_of(piece) == stream]
        dropped = to_drop(pieces, job.spec.log_bytes_max)
        if dropped:
            desk.drop_logs.extend(dropped)
            data = {"rank": stream[3], "bytes": sum(piece.end - piece.start for piece in dropped)}
            desk.say(Event("LogTrimmed", desk.now, stream[0], stream[1], data))


@dataclass(frozen=True, slots=True)
class Join:
    """Neighbouring pieces of one stream that become one object."""

    parts: tuple[LogRange, ...]

    @property
    def size(self) -> int:
        return sum(piece.end - piece.start for piece in self.parts)


def to_join(pieces: Iterable[LogRange], least: int, bytes_max: int = JOINED_BYTES_MAX) -> list[Join]:
    """Runs of at least `least` small neighbouring pieces. Without a gap between them, and never across streams."""
    joins: list[Join] = []
    for _, group in groupby(pieces, key=stream_of):
        run: list[LogRange] = []
        for piece in [*group, None]:
            size = sum(each.end - each.start for each in run)
            fits = (
                piece is not None and run and piece.start == run[-1].end and size + piece.end - piece.start <= bytes_max
            )
            if piece is None or (run and not fits):
                if len(run) >= least:
                    joins.append(Join(tuple(run)))
                run = []
            if piece is not None:
                run.append(piece)
    return joins
