"""Reading points back: from chunks in storage, and what is not in one yet from the log index. Any server can.

A curve is read thinned where it has far more points than were asked for. Indexes of chunks are remembered: an object
never changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from headway.control.files.log_index import is_intact
from headway.core.errors import NotFound, Unavailable
from headway.features.metrics import chunks
from headway.features.metrics.curves import Points, fitting
from headway.features.metrics.rules import Ref, clean, lines_of, number
from headway.features.metrics.tables import CHUNKS, STREAMS, Chunk, PointStream, Series
from headway.storage.protocol import Storage
from headway.store.protocol import LogRange, Store
from headway.store.tables import Which
from headway_wire.sync import POINTS

log = structlog.get_logger()

RAW_UP_TO = 32  # So many times more points than asked for are read in full.
INDEXES_MAX = 200
READ_TRIES = 3


@dataclass(frozen=True)
class Stretch:
    """Bytes of a stream from `start` on, one after the other, with the time at which each piece came."""

    start: int
    data: bytes
    times: tuple[tuple[int, float], ...]  # From which byte of `data` on, when.
    lost: int = 0  # How many of the bytes are not what was written, and are left empty.

    def at(self, place: int) -> float:
        found = 0.0
        for begin, at in self.times:
            if begin > place:
                break
            found = at
        return found


def read_stretch(storage: Storage, pieces: Sequence[LogRange], start: int, most: int) -> Stretch:
    """What follows a byte of a stream, as far as its pieces join; what storage has lost stands there as empty lines."""
    data, times, lost = bytearray(), [], 0
    for piece in pieces:
        place = start + len(data)
        if piece.end <= place:
            continue
        if piece.start > place or len(data) >= most:
            break
        times.append((len(data), piece.at))
        read = _read_piece(storage, piece)
        if read is None:
            lost += piece.end - place
            read = b"\n" * (piece.end - piece.start)
        data += read[place - piece.start :]
    return Stretch(start, bytes(data), tuple(times), lost)


def _read_piece(storage: Storage, piece: LogRange) -> bytes | None:
    size = piece.end - piece.start
    data = b""
    for _ in range(READ_TRIES):
        try:
            data = storage.get(piece.key, piece.key_offset, piece.key_offset + size)
        except NotFound:
            break
        if is_intact(piece, data):
            return data
    log.error("points are lost in storage", job=piece.job, attempt=piece.attempt, key=piece.key, bytes=size)
    return None


def points_of(stretch: Stretch, rank: int) -> dict[Ref, Points]:
    """The points in lines of a stream, by series."""
    found: dict[Ref, Points] = {}
    for line, _ in lines_of(stretch.data, rank, stretch.at):
        if line is None:
            continue
        for name, value in line.metrics.items():
            read = number(value)
            if read is not None:
                ref = (line.rank, clean(name), line.source)
                found.setdefault(ref, Points()).add(line.step, line.at, read)
    return found


class PointReader:
    """Points of series, by whoever may see the job."""

    def __init__(self, store: Store, storage: Storage, control: object = None) -> None:
        self._store = store
        self._storage = storage
        self._indexes: OrderedDict[str, chunks.Index] = OrderedDict()

    def points(self, rows: Sequence[Series], most: int) -> list[Points]:
        """The points of each of these series of one job and attempt, thinned to about so many."""
        if not rows:
            return []
        job, attempt = rows[0].job, rows[0].attempt
        mine = Which(equal={"job": job, "attempt": attempt})
        # Chunks after streams: what is packed meanwhile is then in both, and counted once, by its byte.
        streams = self._store.rows(STREAMS, mine)
        pieces = [piece for piece in self._store.logs(job, attempt) if piece.stream in POINTS]
        kept = self._store.rows(CHUNKS, mine)
        tails: dict[tuple[int, int, str], dict[Ref, Points]] = {}
        found = []
        for row in rows:
            thin = row.count > most * RAW_UP_TO
            whole = Points()
            for stream in streams:
                if stream.task != row.task:
                    continue
                self._add(whole, stream, row, thin, kept, pieces, tails)
            found.append(fitting(whole, most))
        return found

    def _add(
        self,
        whole: Points,
        stream: PointStream,
        row: Series,
        thin: bool,
        kept: Iterable[Chunk],
        pieces: Iterable[LogRange],
        tails: dict[tuple[int, int, str], dict[Ref, Points]],
    ) -> None:
        """Add the points that one stream has of a series: of its chunks, then of what is in none yet."""
        of, ref = (stream.task, stream.rank, stream.stream), (row.rank, row.name, row.source)
        packed = 0
        for chunk in kept:
            if (chunk.task, chunk.rank, chunk.stream) == of and chunk.start >= packed:
                whole.extend(self._of_chunk(chunk, ref, thin))
                packed = chunk.end
        if of not in tails:
            mine = [each for each in pieces if (each.task, each.rank, each.stream) == of]
            begin = max(packed, stream.packed)
            stretch = read_stretch(self._storage, mine, begin, max(stream.seen - begin, 0))
            cut = Stretch(stretch.start, stretch.data[: max(stream.seen - begin, 0)], stretch.times)
            tails[of] = points_of(cut, stream.rank)
        whole.extend(tails[of].get(ref, Points()))

    def _of_chunk(self, chunk: Chunk, ref: Ref, thin: bool) -> Points:
        read = partial(self._storage.get, chunk.object_key)
        try:
            if not chunk.object_key:
                return chunks.read_all(chunk.data).get(ref, Points())
            index = self._indexes.get(chunk.object_key)
            if index is None:
                index = self._indexes[chunk.object_key] = chunks.read_index(read)
                while len(self._indexes) > INDEXES_MAX:
                    self._indexes.popitem(last=False)
            return chunks.read_points(read, index, ref, thin)
        except (chunks.NoChunk, NotFound) as error:
            said = error.message if isinstance(error, NotFound) else str(error)
            raise Unavailable(
                f'points of "{ref[1]}" cannot be read: {said}', "the operator finds the object in the log"
            ) from None
