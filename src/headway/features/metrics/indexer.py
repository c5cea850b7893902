"""Reads the points that nodes have sent, beside the leader: counts them into rows, and packs them into chunks.

What is to be read is what the log index has of streams of points. "Counted to this byte" is saved with the rows, and
"packed to this byte" with the chunk, so a crash at any place neither loses a point nor has one twice.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import structlog

from headway.control.state.feature import LeaderOffice, LeaderPart
from headway.control.views.jobs import can_grow
from headway.core.errors import HeadwayError, for_log
from headway.core.model import JobId
from headway.features.metrics import chunks
from headway.features.metrics.commands import CountPoints, MergeChunks, PackPoints
from headway.features.metrics.point_reader import Stretch, points_of, read_stretch
from headway.features.metrics.rules import Fold, lines_of
from headway.features.metrics.tables import CHUNKS, OF_STREAM, PARAMETERS, SERIES, STREAMS, Chunk, PointStream
from headway.store.protocol import LogRange
from headway.store.tables import Which
from headway_wire.sync import POINTS

log = structlog.get_logger()

GATHER_S = 0.3  # How long news is gathered before it is read.
LOOK_EVERY_S = 5.0  # How often attempts that have something unpacked are looked at.
RETRY_S = 5.0
SLICE_BYTES = 1 << 20  # Of one stream, for one commit.
SLICE_SERIES = 2_000  # Rows of series that one commit writes, about: it holds up all others.
PACK_BYTES = 1 << 20  # So much of a stream that is counted is packed,
PACK_PIECES = 64  # or so many pieces, for each is an object to read.
IN_ROW_BYTES_MAX = 4096  # A chunk that is no larger is kept in its row: most jobs are short, and an object costs more.
MERGE_FROM = 8  # So many chunks of one size become one,
MERGED_POINTS_MAX = 1_000_000  # unless it would have more points than this.
FOLDS_MAX = 200  # Attempts whose rows are remembered.
FOLDED_SERIES_MAX = 300_000
PACKED_AT_ONCE = 100
REST_S = 60.0  # How long the parts of a merged chunk stay, for those who have just begun to read them.
COMMIT_S_MAX = 120.0

Ref = tuple[JobId, int]


class Indexer(LeaderPart):
    def __init__(
        self,
        office: LeaderOffice,
        mono: Callable[[], float] = time.monotonic,
        new_name: Callable[[], str] = lambda: secrets.token_hex(6),
    ) -> None:
        self._store, self._storage, self._control = office.store, office.storage, office.control
        self._mono, self._new_name = mono, new_name
        self._lock = threading.Lock()
        self._heard: dict[Ref, None] = {}  # Attempts of which output has come, in order.
        self._open: dict[Ref, None] = {}  # Attempts of which something is not packed.
        self._folds: OrderedDict[Ref, Fold] = OrderedDict()
        self._packing: list[tuple[PointStream, Chunk | None, Future[bool]]] = []
        self._loose: list[tuple[float, str]] = []  # Objects that nothing names any more, and since when.
        self._news = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)

    # --- from other threads ---

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def heard(self, output: Sequence[LogRange]) -> None:
        refs = {(piece.job, piece.attempt): None for piece in output if piece.stream in POINTS}
        if refs:
            with self._lock:
                self._heard.update(refs)
            self._news.set()

    # --- the thread ---

    def _work(self) -> None:
        self._guarded(self.look_back)
        looked_at = self._mono()
        while not self._stop.is_set():
            self._news.wait(LOOK_EVERY_S if self._open or self._loose else None)
            self._stop.wait(GATHER_S)
            self._news.clear()
            with self._lock:
                due, self._heard = list(self._heard), {}
            if not self._guarded(lambda due=due: self.count(due)):  # type: ignore[misc]
                with self._lock:
                    self._heard.update(dict.fromkeys(due))
                self._stop.wait(RETRY_S)
                self._news.set()
            if self._mono() - looked_at >= LOOK_EVERY_S:
                looked_at = self._mono()
                self._guarded(self.pack)

    def _guarded(self, part: Callable[[], None]) -> bool:
        """What fails is said and tried again: points wait where they are."""
        troubles = self._control.cycle.troubles
        try:
            part()
            troubles.pop("metrics", None)
            return True
        except Exception as error:
            self._folds.clear()  # What was not saved is read again.
            if not self._stop.is_set():
                troubles["metrics"] = error.message if isinstance(error, HeadwayError) else repr(error)
                log.warning("points not read", error=for_log(error))
            return False

    def look_back(self) -> None:
        """After a start: what was sent, and not packed yet."""
        found = dict.fromkeys(self._store.attempts_with_output(POINTS))
        with self._lock:
            self._heard = {**found, **self._heard}
        self._news.set()

    # --- counting ---

    def count(self, refs: Iterable[Ref]) -> None:
        """Count what is new of these attempts. Their commands share commits."""
        left = list(refs)
        self._open.update(dict.fromkeys(left))
        while left and not self._stop.is_set():
            saved = []
            for ref in left:
                fold, command, more = self._next(ref)
                if command is not None:
                    saved.append((ref, fold, command, more, self._do(command)))
            left = []
            for ref, fold, command, more, future in saved:
                if not future.result(timeout=COMMIT_S_MAX):
                    self._folds.pop(ref, None)  # Somebody was faster: read what they made of it.
                    left.append(ref)
                    continue
                fold.saved(after for _, after in command.streams)
                left += [ref] if more else []
        self._forget_folds()

    def _next(self, ref: Ref) -> tuple[Fold, CountPoints | None, bool]:
        """The next slice of an attempt's points, and whether there is more of it."""
        fold = self._fold(ref)
        pieces = _by_stream(self._store.logs(*ref))
        changed, more = [], False
        for of, mine in pieces.items():
            before = fold.streams.get(of) or PointStream(*of)
            if len(fold.fresh) >= SLICE_SERIES:
                more = more or mine[-1].end > before.seen
                continue
            after = self._take(fold, before, mine)
            if after != before:
                changed.append((before, after))
                more = more or after.seen < mine[-1].end
        command = CountPoints(tuple(changed), tuple(fold.rows()), tuple(fold.fresh_params)) if changed else None
        return fold, command, more and command is not None

    def _take(self, fold: Fold, before: PointStream, pieces: Sequence[LogRange]) -> PointStream:
        """Count whole lines of a stream, as many as one commit should have."""
        stretch = read_stretch(self._storage, pieces, before.seen, SLICE_BYTES)
        whole = stretch.data.rfind(b"\n") + 1
        if whole == 0 and len(stretch.data) >= SLICE_BYTES:
            whole = len(stretch.data)  # A line without end says nothing.
        points, unread, left_out = fold.points, fold.unread, fold.left_out
        taken = 0
        for line, end in lines_of(stretch.data[:whole], before.rank, stretch.at):
            fold.take(line, before.task)
            taken = end
            if len(fold.fresh) >= SLICE_SERIES:
                break
        else:
            taken = whole
        return replace(
            before,
            seen=before.seen + taken,
            points=before.points + fold.points - points,
            unread=before.unread + fold.unread - unread,
            left_out=before.left_out + fold.left_out - left_out,
            lost_bytes=before.lost_bytes + stretch.lost,
        )

    def _fold(self, ref: Ref) -> Fold:
        fold = self._folds.get(ref)
        if fold is None or fold.fresh or fold.fresh_params:
            # Streams first: if the rest is newer, what is made of them is refused, and all is read again.
            tables = [self._store.rows(table, _of(ref)) for table in (STREAMS, SERIES, PARAMETERS)]
            fold = self._folds[ref] = Fold(*ref, *tables)
        self._folds.move_to_end(ref)
        return fold

    def _forget_folds(self) -> None:
        total = sum(len(fold.tallies) for fold in self._folds.values())
        while self._folds and (len(self._folds) > FOLDS_MAX or total > FOLDED_SERIES_MAX):
            total -= len(self._folds.popitem(last=False)[1].tallies)

    # --- packing ---

    def pack(self) -> None:
        """Pack what has become much, and all of attempts that are over."""
        self._delete_loose()
        self._packing.clear()  # Of a round that failed: what it saved is found in the store.
        jobs = {job.id: job for job in self._store.jobs(list({ref[0] for ref in self._open}))} if self._open else {}
        for ref in list(self._open):
            if self._stop.is_set():
                return
            job = jobs.get(ref[0])
            if job is None or self._pack_attempt(ref, over=not can_grow(job, ref[1])):
                self._open.pop(ref, None)
                self._folds.pop(ref, None)
        self._settle()
        for ref in list(self._open):
            self._merge(ref)

    def _pack_attempt(self, ref: Ref, over: bool) -> bool:
        """Whether nothing is left to do for it."""
        pieces = _by_stream(self._store.logs(*ref))
        known = {STREAMS.key_of(row): row for row in self._store.rows(STREAMS, _of(ref))}
        for of, mine in pieces.items():
            stream = known.get(of) or PointStream(*of)
            if over and stream.seen < mine[-1].end:
                stream = self._end_of(stream, mine)
            waiting = stream.seen - stream.packed
            if waiting and (over or waiting >= PACK_BYTES or len(mine) >= PACK_PIECES):
                self._pack_stream(stream, mine)
        return over and not pieces

    def _end_of(self, stream: PointStream, pieces: Sequence[LogRange]) -> PointStream:
        """The last line of a rank that ended in the midst of it, or without a line break."""
        ref = (stream.job, stream.attempt)
        self.count([ref])
        fold = self._fold(ref)
        before = fold.streams.get(STREAMS.key_of(stream)) or stream
        stretch = read_stretch(self._storage, pieces, before.seen, SLICE_BYTES)
        if b"\n" in stretch.data or not stretch.data:
            return before
        for line, _ in lines_of(stretch.data, before.rank, stretch.at):
            fold.take(line, before.task)
        after = replace(
            before, seen=before.seen + len(stretch.data), points=before.points + fold.points,
            unread=before.unread + fold.unread, left_out=before.left_out + fold.left_out,
        )  # fmt: skip
        command = CountPoints(((before, after),), tuple(fold.rows()), tuple(fold.fresh_params))
        if not self._do(command).result(timeout=COMMIT_S_MAX):
            self._folds.pop(ref, None)
            return before
        fold.saved([after])
        return after

    def _pack_stream(self, stream: PointStream, pieces: Sequence[LogRange]) -> None:
        """Move all that is counted of a stream into a chunk."""
        size = stream.seen - stream.packed
        stretch = read_stretch(self._storage, pieces, stream.packed, size)
        if len(stretch.data) < size:
            return  # Not all of it is there: it is looked at again.
        series = points_of(Stretch(stream.packed, stretch.data[:size], stretch.times), stream.rank)
        chunk = self._put(_unpacked_chunk(stream), series) if series else None
        drop = tuple(piece for piece in pieces if piece.end <= stream.seen)
        packed = replace(stream, packed=stream.seen)
        self._packing.append((packed, chunk, self._do(PackPoints(stream, packed, chunk, drop))))
        if len(self._packing) >= PACKED_AT_ONCE:
            self._settle()

    def _settle(self) -> None:
        """Hear what became of the packing that is under way."""
        settled, self._packing = self._packing, []
        for packed, chunk, future in settled:
            ref = (packed.job, packed.attempt)
            if not future.result(timeout=COMMIT_S_MAX):
                self._let_go([chunk.object_key] if chunk is not None else [])
            elif ref in self._folds:
                self._folds[ref].streams[STREAMS.key_of(packed)] = packed

    def _let_go(self, keys: Iterable[str]) -> None:
        self._loose += [(self._mono(), key) for key in keys if key]

    def _put(self, chunk: Chunk, series: Any) -> Chunk:
        data, count = chunks.write(series), sum(map(len, series.values()))
        if len(data) <= IN_ROW_BYTES_MAX:
            return replace(chunk, object_key="", points=count, size=len(data), data=data)
        folder = f"jobs/{chunk.job}/{chunk.attempt}/metrics"
        key = f"{folder}/{chunk.task}-{chunk.rank}-{chunk.stream}-{chunk.start}-{self._new_name()}"
        self._storage.put(key, data)
        return replace(chunk, object_key=key, points=count, size=len(data), data=b"")

    # --- merging ---

    def _merge(self, ref: Ref) -> None:
        merged = True
        while merged and not self._stop.is_set():
            by_stream: dict[tuple[Any, ...], list[Chunk]] = {}
            for chunk in self._store.rows(CHUNKS, _of(ref)):
                by_stream.setdefault(stream_of(chunk), []).append(chunk)
            merged = False
            for parts in (parts for mine in by_stream.values() for parts in mergeable(mine)):
                merged = self._merge_parts(parts) or merged

    def _merge_parts(self, parts: Sequence[Chunk]) -> bool:
        series: dict[Any, Any] = {}
        for part in parts:
            data = self._storage.get(part.object_key) if part.object_key else part.data
            for name, points in chunks.read_all(data).items():
                if name in series:
                    series[name].extend(points)
                else:
                    series[name] = points
        whole = replace(parts[0], end=parts[-1].end, level=parts[0].level + 1, object_key="")
        whole = self._put(whole, series)
        done = self._do(MergeChunks(tuple(parts), whole)).result(timeout=COMMIT_S_MAX)
        self._let_go([part.object_key for part in parts] if done else [whole.object_key])
        return done

    def _delete_loose(self) -> None:
        rested = self._mono() - REST_S
        due = [key for since, key in self._loose if since <= rested]
        if due and not self._store.deletions_held():
            self._storage.delete(due)
            self._loose = [each for each in self._loose if each[0] > rested]

    def _do(self, command: Any) -> Future[bool]:
        future: Future[bool] = self._control.do(command)
        return future


def stream_of(chunk: Chunk) -> tuple[Any, ...]:
    return tuple(getattr(chunk, name) for name in OF_STREAM)


def _unpacked_chunk(stream: PointStream) -> Chunk:
    """The chunk of what is counted and not packed."""
    of = (stream.job, stream.attempt, stream.task, stream.rank, stream.stream)
    return Chunk(*of, start=stream.packed, end=stream.seen, object_key="")


def mergeable(mine: Sequence[Chunk]) -> list[list[Chunk]]:
    """Neighbouring chunks of a stream that become one: many of one level, which together are not too large."""
    found: list[list[Chunk]] = []
    run: list[Chunk] = []
    for chunk in mine:
        if run and (chunk.level != run[-1].level or chunk.points >= MERGED_POINTS_MAX):
            run = []
        if chunk.points < MERGED_POINTS_MAX:
            run.append(chunk)
        if len(run) == MERGE_FROM:
            found.append(run)
            run = []
    return found


def _of(ref: Ref) -> Which:
    return Which(equal={"job": ref[0], "attempt": ref[1]})


def _by_stream(pieces: Iterable[LogRange]) -> dict[tuple[Any, ...], list[LogRange]]:
    found: dict[tuple[Any, ...], list[LogRange]] = {}
    for piece in pieces:
        if piece.stream in POINTS:
            found.setdefault(piece.of, []).append(piece)
    return found
