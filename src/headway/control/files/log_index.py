"""The index of ranks' output: what is kept of a log that outgrows its limit, and which small pieces are joined.

Choices over ranges, and the little that is needed to apply them. Bytes are moved in log_upkeep.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from headway.control.state.transaction import Transaction
from headway.core.files.log_times import MARKS_MAX, Mark, Thinning, packed, times_of
from headway.core.job.events import Event
from headway.store.protocol import LogRange
from headway_wire.sync import LOGS

Stream = tuple[str, int, int, int, str]
JOINED_BYTES_MAX = 8 * 2**20


def stream_of(piece: LogRange) -> Stream:
    return (piece.job, piece.attempt, piece.task, piece.rank, piece.stream)


@dataclass(frozen=True, slots=True)
class Trim:
    """Pieces that leave the index, and what of them stays, cut shorter. No byte is moved for it."""

    drop: tuple[LogRange, ...] = ()
    add: tuple[LogRange, ...] = ()

    @property
    def size(self) -> int:
        return sum(piece.end - piece.start for piece in self.drop) - sum(piece.end - piece.start for piece in self.add)


def to_trim(pieces: Sequence[LogRange], bytes_max: int) -> Trim:
    """What leaves when a stream has outgrown its limit: half of the limit stays as head, a quarter as tail.

    The last quarter is left to grow into, so that a stream is not trimmed anew with every piece.
    """
    if sum(piece.end - piece.start for piece in pieces) <= bytes_max:
        return Trim()
    head_end, tail_start = bytes_max // 2, pieces[-1].end - bytes_max // 4
    drop: list[LogRange] = []
    add: list[LogRange] = []
    for piece in pieces:
        if piece.end <= head_end or piece.start >= tail_start:
            continue
        drop.append(piece)
        if piece.start < head_end:
            add.append(_cut(piece, piece.start, head_end))
        if piece.end > tail_start:
            add.append(_cut(piece, tail_start, piece.end))
    return Trim(tuple(drop), tuple(add))


def _cut(piece: LogRange, start: int, end: int) -> LogRange:
    # The checksum is that of the whole piece; nobody has one of a part.
    return replace(piece, start=start, end=end, key_offset=piece.key_offset + start - piece.start, crc32=None)


def is_intact(piece: LogRange, data: bytes) -> bool:
    """Whether these are the bytes that the node had, as far as that was told."""
    return len(data) == piece.end - piece.start and piece.crc32 in (None, zlib.crc32(data))


def note_overgrown(tx: Transaction, fresh: Iterable[LogRange]) -> None:
    """Remember streams that have outgrown their job's limit. They are trimmed soon, once this output is saved."""
    for piece in fresh:
        job = tx.book.jobs.get(piece.job)
        if job is not None and piece.stream in LOGS and piece.end > job.spec.log_bytes_max:
            tx.book.overgrown.add(stream_of(piece))


@dataclass(frozen=True, slots=True)
class TrimLogs:
    """Drop the middle of streams that have outgrown their job's limit."""

    streams: frozenset[Stream]

    def apply(self, tx: Transaction) -> None:
        leaving = set(tx.drop_logs)
        for stream in sorted(self.streams):
            job = tx.find(stream[0])
            if job is None:
                continue
            pieces = [piece for piece in tx.store.logs(stream[0], stream[1]) if stream_of(piece) == stream]
            trim = to_trim(pieces, job.spec.log_bytes_max)
            # Pieces that are being joined in this very batch have no say: the joined one is trimmed another time.
            if not trim.drop or not leaving.isdisjoint(trim.drop):
                continue
            tx.drop_log(trim.drop)
            tx.move_logs.extend(trim.add)
            data = {"rank": stream[3], "stream": stream[4], "bytes": trim.size}
            tx.say(Event("LogTrimmed", tx.now, stream[0], stream[1], data))


@dataclass(frozen=True, slots=True)
class Join:
    """Neighbouring pieces of one stream that become one object."""

    parts: tuple[LogRange, ...]

    @property
    def size(self) -> int:
        return sum(piece.end - piece.start for piece in self.parts)

    @property
    def times(self) -> str:
        """When its parts were written: the joined piece has one time of its own only, that of its end."""
        thinning = Thinning()
        for piece in self.parts:
            thinning.add(marks_of(piece))
        return packed(thinning.kept)


def marks_of(piece: LogRange) -> list[Mark]:
    return times_of(piece.start, piece.end, piece.at, piece.times)


def to_join(pieces: Iterable[LogRange], least: int, bytes_max: int = JOINED_BYTES_MAX) -> list[Join]:
    """Runs of at least `least` small neighbouring pieces. Without a gap between them, and never across streams."""
    joins: list[Join] = []
    thinning = Thinning()
    for _, group in groupby(pieces, key=stream_of):
        run: list[LogRange] = []
        size = 0
        for piece in group:
            fits = run and piece.start == run[-1].end and size + piece.end - piece.start <= bytes_max
            thinning.add(marks_of(piece))
            if not fits or len(thinning.kept) > MARKS_MAX:
                if len(run) >= least:
                    joins.append(Join(tuple(run)))
                run, size, thinning = [], 0, Thinning()
                thinning.add(marks_of(piece))
            run.append(piece)
            size += piece.end - piece.start
        if len(run) >= least:
            joins.append(Join(tuple(run)))
    return joins


@dataclass(frozen=True, slots=True)
class SwapLogs:
    """Replace pieces of the log index: joined pieces enter, their parts leave. Only what is still there is swapped."""

    drop: tuple[LogRange, ...]
    add: tuple[LogRange, ...] = ()

    def apply(self, tx: Transaction) -> bool:
        if self.add:
            first = self.add[0]
            present = set(tx.store.logs(first.job, first.attempt))
            if not present.issuperset(self.drop) or not set(tx.drop_logs).isdisjoint(self.drop):
                return False
        tx.drop_log(self.drop)
        tx.move_logs.extend(self.add)
        return True
