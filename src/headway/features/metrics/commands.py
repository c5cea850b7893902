"""What changes the rows of metrics. Each says from where it goes on: what was done meanwhile is not done again."""

from __future__ import annotations

from dataclasses import dataclass

from headway.control.state.transaction import Transaction
from headway.features.metrics.tables import CHUNKS, PARAMETERS, SERIES, STREAMS, Chunk, Parameter, PointStream, Series
from headway.store.protocol import LogRange


def _stands(tx: Transaction, stream: PointStream, expected: PointStream) -> bool:
    """Whether a stream is as it was when this change was made ready. One that has no row was never read."""
    known = tx.row(STREAMS, *STREAMS.key_of(stream))
    return (known or PointStream(*STREAMS.key_of(stream))) == expected


@dataclass(frozen=True, slots=True)
class CountPoints:
    """Points were read: the rows of their series, with how far each stream was read."""

    streams: tuple[tuple[PointStream, PointStream], ...]  # Before, and after.
    series: tuple[Series, ...] = ()
    parameters: tuple[Parameter, ...] = ()

    def apply(self, tx: Transaction) -> bool:
        if not all(_stands(tx, after, before) for before, after in self.streams):
            return False
        for _, after in self.streams:
            tx.put(STREAMS, after)
        for row in self.series:
            tx.put(SERIES, row)
        for each in self.parameters:
            tx.put(PARAMETERS, each)
        return True


@dataclass(frozen=True, slots=True)
class PackPoints:
    """Points that were counted are in a chunk now: the output that held them leaves the log index."""

    before: PointStream
    after: PointStream
    chunk: Chunk | None  # None where there was not a point in it.
    drop: tuple[LogRange, ...] = ()

    def apply(self, tx: Transaction) -> bool:
        if not _stands(tx, self.after, self.before):
            return False
        tx.put(STREAMS, self.after)
        if self.chunk is not None:
            tx.put(CHUNKS, self.chunk)
        tx.drop_log(self.drop)
        return True


@dataclass(frozen=True, slots=True)
class MergeChunks:
    """Neighbouring chunks of a stream have become one."""

    parts: tuple[Chunk, ...]
    whole: Chunk

    def apply(self, tx: Transaction) -> bool:
        if any(tx.row(CHUNKS, *CHUNKS.key_of(part)) != part for part in self.parts):
            return False
        for part in self.parts:
            tx.drop(CHUNKS, *CHUNKS.key_of(part))
        tx.put(CHUNKS, self.whole)
        return True
