"""The files that figures are read from, each with its reader: looked at when they have grown or were written anew.

A source gives lines for the spool. How far it was read stands in those lines; a source that is made anew goes on there.
"""

from __future__ import annotations

import os
from itertools import groupby

from headway_agent.collect import parameters, picked_values, points, search
from headway_agent.collect.event_files import EventFile
from headway_agent.collect.printed_metrics import PrintedMetrics
from headway_agent.collect.table_files import HypertuneFile, TableFile, TrainerState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, Sequence

    from headway_agent.collect.parameters import Params
    from headway_agent.collect.points import Point
    from headway_agent.collect.spool import Spool

PIECE_BYTES = 1 << 20
ROUND_BYTES_MAX = 8 << 20  # Of one file in one look: others wait.
LAST_BYTES_MAX = 512 << 20  # Of one file in its last look.
REPLAYED_BYTES_MAX = 8 << 20  # Of output that was read before, to know again what its lines mean.
BEHIND_BYTES_MAX = 32 << 20  # Output that is further ahead than this is passed over: it is printed faster than read.
REPORT_BYTES_MAX = 64 << 20


class Source:
    """A file, and what was seen of it last."""

    kind = ""
    single = False  # Its numbers have 32 bits.
    by_bytes = True  # Another file by the same name begins at its first byte.

    def __init__(self, path: str, name: str, spool: Spool, prefix: str = "") -> None:
        self.path, self.name, self.spool, self.prefix = path, name, spool, prefix
        self.more = False  # Not all of it was read: there is more than one look may take.
        self.passed_over = 0  # Bytes that were never read.
        self._seen = (-1, -1, -1)
        self._identity = 0
        self._params: Params = {}

    def look(self, at: float, final: bool = False) -> None:
        """Read what is new, and put it into the spool."""
        try:
            with open(self.path, "rb") as file:
                found = os.fstat(file.fileno())
                seen = (found.st_ino, found.st_size, found.st_mtime_ns)
                if seen == self._seen and not self.more and not final:
                    return
                identity = found.st_ino if self.by_bytes else 1
                if identity != self._identity:
                    self._identity = identity
                    taken = self.spool.taken(self.name)
                    self._begin(taken[1] if taken is not None and taken[0] == identity else 0)
                self.more = False
                self._read(file, found.st_size, at, final)
        except FileNotFoundError:
            return
        self._seen = seen

    @property
    def trouble(self) -> str:
        """Why some of it is not read as was asked for; empty when all is well."""
        return ""

    def close(self) -> None:
        """It is not looked at any more."""

    def _begin(self, taken: int) -> None:
        """Make the reader of a file of which so much was taken before."""
        raise NotImplementedError

    def _read(self, file: BinaryIO, size: int, at: float, final: bool) -> None:
        raise NotImplementedError

    def _put(self, found: Sequence[Point]) -> None:
        if found:
            if self.prefix:
                found = [(self.prefix + name, value, step, at, end) for name, value, step, at, end in found]
            number = self.spool.number(self.name, self._identity)
            self.spool.append(points.lines_of(found, self.kind, number, self.single))

    def _put_params(self, params: Params, at: float, taken: int, kind: str = "") -> None:
        if params and params != self._params:
            self._params = dict(params)
            number = self.spool.number(self.name, self._identity)
            self.spool.append(points.params_line(params, kind or self.kind, at, number, taken))


class EventSource(Source):
    kind, single = points.TENSORBOARD, True

    def _begin(self, taken: int) -> None:
        self._reader = EventFile(taken)

    def _read(self, file: BinaryIO, size: int, at: float, final: bool) -> None:
        reader = self._reader
        if size < reader.offset and not final:
            self._begin(0)  # Cut, and begun again.
            reader = self._reader
        limit = LAST_BYTES_MAX if final else ROUND_BYTES_MAX
        begun, piece = reader.offset, PIECE_BYTES
        while reader.offset < size:
            before = reader.offset
            file.seek(before)
            self._put(reader.feed(file.read(piece)))
            self._put_params(reader.params, at, reader.offset)
            if reader.offset - begun >= limit:
                self.more, self.passed_over = not final, max(0, size - reader.offset) if final else 0
                return
            if reader.offset == before:
                if piece > PIECE_BYTES or size - before <= piece:
                    return  # Half a record.
                piece = 4 * PIECE_BYTES


class OutputSource(Source):
    kind = points.STDOUT

    def _begin(self, taken: int) -> None:
        self._taken = taken
        self._reader = PrintedMetrics()
        self._reader.offset = max(0, taken - REPLAYED_BYTES_MAX)
        if self._picker is None and os.path.exists(f"{os.path.dirname(self.path)}/{picked_values.RULES}"):
            self._picker = picked_values.Picker(os.path.dirname(self.path))

    _picker: picked_values.Picker | None = None  # For the user's own rules, where there are any.

    @property
    def trouble(self) -> str:
        return self._picker.trouble if self._picker is not None else ""

    def close(self) -> None:
        if self._picker is not None:
            self._picker.close()
            self._picker = None

    def _read(self, file: BinaryIO, size: int, at: float, final: bool) -> None:
        reader = self._reader
        if size < reader.offset:
            self._begin(0)
            reader = self._reader
        if size - reader.offset > BEHIND_BYTES_MAX:
            self.passed_over += size - PIECE_BYTES - reader.offset
            reader.offset = size - PIECE_BYTES
        begun, pick = reader.offset, self._picker.pick if self._picker is not None else None
        while reader.offset < size or final:
            file.seek(reader.offset)
            data = file.read(min(PIECE_BYTES, size - reader.offset))
            last = final and reader.offset + len(data) >= size
            before = reader.offset
            self._put_both(reader.feed(data, at, last, pick), reader.picked)
            self._put_params(reader.params, at, max(self._taken, reader.offset), points.ARGUMENTS)
            if last or reader.offset == before:
                return
            if reader.offset - begun >= ROUND_BYTES_MAX and not final:
                self.more = True
                return

    def _put_both(self, found: Sequence[Point], picked: Sequence[Point]) -> None:
        """In the order of the output, and at once: an offset says that all before it was told.

        While it reads once more what was read before, points come out that were taken.
        """
        told = [(point, self.kind) for point in found if point[4] > self._taken]
        told += [(point, points.REGEX) for point in picked if point[4] > self._taken]
        if told:
            number = self.spool.number(self.name, self._identity)
            runs = groupby(sorted(told, key=lambda each: each[0][4]), key=lambda each: each[1])
            lines = [points.lines_of([point for point, _ in run], kind, number) for kind, run in runs]
            self.spool.append(b"".join(lines))


class TableSource(Source):
    kind, by_bytes = points.CSV, False

    def _begin(self, taken: int) -> None:
        self._reader = TableFile(taken)

    def _read(self, file: BinaryIO, size: int, at: float, final: bool) -> None:
        beginning = file.read(PIECE_BYTES)
        if not self._reader.begins_anew(beginning) and size < self._reader.offset:
            self._begin(0)  # Cut, and begun again.
        while self._reader.offset < size:
            before = self._reader.offset
            file.seek(before)
            data = file.read(ROUND_BYTES_MAX)
            self._put(self._reader.feed(data, at, final and before + len(data) >= size))
            if self._reader.offset == before:
                return


class TrainerSource(Source):
    """The reports of one training: `path` is the newest, which has all that those before it had."""

    kind, by_bytes = points.TRAINER_STATE, False
    begun_at_step = -1

    def _begin(self, taken: int) -> None:
        self._reader = TrainerState(taken, self.begun_at_step)

    def _read(self, file: BinaryIO, size: int, at: float, final: bool) -> None:
        if size <= REPORT_BYTES_MAX:
            self._put(self._reader.read(file.read(), at))


class HypertuneSource(Source):
    kind, by_bytes = points.HYPERTUNE, False

    def _begin(self, taken: int) -> None:
        self._reader = HypertuneFile(taken)

    def _read(self, file: BinaryIO, size: int, at: float, final: bool) -> None:
        if size <= REPORT_BYTES_MAX:
            self._put(self._reader.read(file.read()))


class SettingsSource(Source):
    """Parameters that a framework writes down when a run begins."""

    kind, by_bytes = points.HYDRA, False

    def _begin(self, taken: int) -> None:
        self._taken = taken

    def _read(self, file: BinaryIO, size: int, at: float, final: bool) -> None:
        self._put_params(parameters.of_yaml(file.read(parameters.FILE_BYTES_MAX)), at, 1)


class HparamsSource(SettingsSource):
    kind = points.HPARAMS


KINDS: dict[str, type[Source]] = {
    search.EVENTS: EventSource,
    search.TABLE: TableSource,
    search.TRAINER: TrainerSource,
    search.HPARAMS: HparamsSource,
    search.HYDRA: SettingsSource,
}
