"""Shipping of output: the new bytes of many tasks go into storage as one pack object per round.

Knows how much to take from which file and how a pack is stored. When to ship and what was shipped is decided elsewhere
(loop/agent.py, decide/decide.py); nothing here stops because storage is full or away.
"""

from __future__ import annotations

import os
import time
import zlib

from headway_agent.node.directory import boottime_s
from headway_agent.output import masking
from headway_wire.sync import COLLECTED, LOGGED, LOGS, POINTS, OutputRange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

TASK_BYTES_MAX = 4 << 20  # Per task and round, so that one talker does not keep the others waiting.
POINTS_BYTES_MAX = 1 << 20  # Of that, for points: they go first, and must not keep the log waiting.
PACK_BYTES_MAX = 16 << 20
TAIL_BYTES = 64 << 10
SDK_DIR = "sdk"
IN_TASK_DIR = (*LOGS, COLLECTED)


class WantedOutput:
    """A task whose output may have grown: where its files are and how much of each is in storage."""

    __slots__ = ("directory", "least_bytes", "shipped", "sizes", "task")

    def __init__(
        self,
        task: str,
        directory: str,
        shipped: Mapping[str, int],
        sizes: Mapping[str, int] | None = None,
        least_bytes: int = 1,
    ) -> None:
        self.task = task
        self.directory = directory
        self.shipped = dict(shipped)
        self.sizes = sizes  # Known only once the task is over.
        self.least_bytes = least_bytes  # Leave it for a later round if less than this is new.


def output_sizes(directory: str) -> dict[str, int]:
    """The size of each output file of a task, by `rank/stream`."""
    sizes: dict[str, int] = {}
    for folder, streams in ((directory, IN_TASK_DIR), (f"{directory}/{SDK_DIR}", (LOGGED,))):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name, dot, stream = entry.name.rpartition(".")
                    is_ours = dot and stream in streams and name.startswith("rank") and name[4:].isdigit()
                    if is_ours and entry.is_file(follow_symlinks=False):
                        sizes[f"{name[4:]}/{stream}"] = entry.stat(follow_symlinks=False).st_size
        except OSError:
            pass  # No directory, no output.
    return sizes


def output_path(directory: str, rank: int, stream: str) -> str:
    """The file that holds a stream. What ranks log themselves lies with all else that they say."""
    return f"{directory}/{SDK_DIR}/rank{rank}.{stream}" if stream == LOGGED else f"{directory}/rank{rank}.{stream}"


def output_tail(directory: str, rank: int) -> str:
    """The last bytes that a rank wrote: of its stderr, where that has a file of its own and is not empty."""
    for stream in ("err", "out"):
        try:
            with open(f"{directory}/rank{rank}.{stream}", "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
                tail = file.read().decode("utf-8", "replace")
        except OSError:
            continue
        if tail.strip():
            return masking.mask_of(directory).cover_text(tail)
    return ""


class Pack:
    """One object of storage: the pieces of many outputs, one after the other."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.pieces: list[bytes] = []
        self.ranges: list[OutputRange] = []
        self.size = 0
        self.more = False  # Something was left for another round.
        self.storage = ""  # The mark of the place in which it was stored.
        self.shrunk: dict[str, dict[str, int]] = {}  # By task: sizes, where files are shorter than they were.
        self.written: dict[tuple[str, str], float] = {}  # By task and slot: when its newest byte was written.
        self.printed: dict[str, dict[str, int]] = {}  # By task: the newest steps that its first rank tells, by unit.

    def add(self, wanted: WantedOutput) -> None:
        sizes = wanted.sizes if wanted.sizes is not None else output_sizes(wanted.directory)
        mask = masking.mask_of(wanted.directory)
        room = min(TASK_BYTES_MAX, PACK_BYTES_MAX - self.size)
        if sum(size - wanted.shipped.get(slot, 0) for slot, size in sizes.items()) < wanted.least_bytes:
            return
        points_room = POINTS_BYTES_MAX
        for slot, size in sorted(sizes.items(), key=_points_first):
            start = wanted.shipped.get(slot, 0)
            rank, stream = slot.split("/")
            is_points = stream in POINTS
            count = min(size - start, room, points_room if is_points else room)
            self.more = self.more or count < size - start
            if count <= 0:
                continue
            path = output_path(wanted.directory, int(rank), stream)
            if mask:
                piece = _read_masked(path, start, count, mask, wanted.sizes is not None and start + count == size)
            else:
                piece = _read(path, start, count)
            if len(piece) < count and wanted.sizes is not None and (not mask or start + count == size):
                self.shrunk.setdefault(wanted.task, dict(sizes))[slot] = start + len(piece)
            if piece:
                end, crc32 = start + len(piece), zlib.crc32(piece)
                self.ranges.append(OutputRange(wanted.task, int(rank), stream, start, end, self.key, self.size, crc32))
                self.pieces.append(piece)
                self.written[wanted.task, slot] = written_s(path)
                self.size += len(piece)
                room -= len(piece)
                points_room -= len(piece) if is_points else 0
                if slot == _first_log(sizes):
                    self._read_steps(wanted.task, piece)

    def _read_steps(self, task: str, piece: bytes) -> None:
        from headway_agent.output.printed_steps import PrintedSteps  # Here: an idle node need not carry it.

        steps = PrintedSteps()
        steps.feed(piece)
        if steps.latest:
            self.printed[task] = steps.latest


def _is_points(slot: str) -> bool:
    return slot.rpartition("/")[2] in POINTS


def _points_first(sized: tuple[str, int]) -> tuple[bool, str]:
    return not _is_points(sized[0]), sized[0]


def _first_log(sizes: Mapping[str, int]) -> str:
    logs = [slot for slot in sizes if not _is_points(slot)]
    return min(logs, key=_by_rank) if logs else ""


def _by_rank(slot: str) -> tuple[int, bool]:
    rank, stream = slot.split("/")
    return int(rank), stream != "out"


def make_pack(wanted: Sequence[WantedOutput], key: str) -> Pack:
    """Collect what is new, up to the limits."""
    pack = Pack(key)
    for each in wanted:
        pack.add(each)
    return pack


def written_s(path: str) -> float:
    """When a file was last written to, in seconds of CLOCK_BOOTTIME: nothing that was read of it is younger."""
    try:
        return boottime_s() - max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return boottime_s()


def _read(path: str, start: int, count: int) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            return file.read(count)
    except OSError:
        return b""  # Removed by somebody: what is not there cannot be shipped.


def _read_masked(path: str, start: int, count: int, mask: masking.Mask, final: bool) -> bytes:
    """The same without secrets; a value may have begun in what was shipped before."""
    back = min(start, mask.longest)
    data = _read(path, start - back, count + back)
    return mask.cover_between(data[:back], data[back:], final)
