"""A chunk: the points of many series as one object, by columns and compressed. Touches nothing.

`HWM1`, the length of the index, the index (JSON, compressed), blocks. A block holds the columns of one large series or
of many small ones. A series of many points also has a thinned one, in a block that a chart reads instead of all.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

from headway.features.metrics.curves import NO_STEP, Points, thinned
from headway.features.metrics.rules import Ref

MAGIC = b"HWM1"
HEAD = struct.Struct("<4sI")
BLOCK_BYTES = 1 << 16
POINT_BYTES = 24
BUCKET = 64  # A thinned series has at most three points for so many.
THINNED_FROM = 1024
MICRO = 1e6
LEVEL = 1

Read = Callable[[int, int], bytes]
"""Bytes of an object, from one to before another."""


class NoChunk(ValueError):
    """These are not the bytes of a chunk."""


@dataclass(frozen=True)
class Entry:
    """Where a series is: in which block, from which byte of it on, with how many points."""

    block: int
    offset: int
    count: int
    thin_block: int = -1
    thin_offset: int = 0
    thin_count: int = 0


@dataclass(frozen=True)
class Index:
    """What a chunk has, and where."""

    series: Mapping[Ref, Entry]
    blocks: tuple[tuple[int, int], ...]  # Each from one byte of the object to before another.

    @property
    def points(self) -> int:
        return sum(entry.count for entry in self.series.values())


class _Blocks:
    def __init__(self) -> None:
        self.done: list[bytes] = []
        self.open = bytearray()

    def put(self, points: Points) -> tuple[int, int]:
        if self.open and len(self.open) + len(points) * POINT_BYTES > BLOCK_BYTES:
            self.close()
        place = (len(self.done), len(self.open))
        self.open += _packed(points)
        return place

    def close(self) -> None:
        if self.open:
            self.done.append(zlib.compress(bytes(self.open), LEVEL))
            self.open = bytearray()


def write(series: Mapping[Ref, Points]) -> bytes:
    """The object of these series."""
    blocks, said = _Blocks(), []
    placed = {ref: blocks.put(points) for ref, points in series.items()}
    blocks.close()
    for ref, points in series.items():
        entry: list[object] = [*ref, *placed[ref], len(points)]
        if len(points) >= THINNED_FROM:
            thin = thinned(points, BUCKET)
            entry += [*blocks.put(thin), len(thin)]
        said.append(entry)
    blocks.close()
    told = {"series": said, "blocks": [len(block) for block in blocks.done]}
    index = zlib.compress(json.dumps(told, separators=(",", ":")).encode(), LEVEL)
    return b"".join((HEAD.pack(MAGIC, len(index)), index, *blocks.done))


def read_index(read: Read) -> Index:
    """What an object has."""
    head = read(0, HEAD.size)
    if len(head) != HEAD.size or head[:4] != MAGIC:
        raise NoChunk("not a chunk of points")
    size = HEAD.unpack(head)[1]
    try:
        told = json.loads(zlib.decompress(read(HEAD.size, HEAD.size + size)))
        ends = list(accumulate(told["blocks"], initial=HEAD.size + size))
        series = {(each[0], each[1], each[2]): Entry(*each[3:]) for each in told["series"]}
        return Index(series, tuple(pairwise(ends)))
    except (ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
        raise NoChunk(f"a damaged chunk of points: {error}") from None


def read_points(read: Read, index: Index, ref: Ref, thin: bool) -> Points:
    """The points of a series; of one of many, those that stand for them where `thin` is wished."""
    entry = index.series.get(ref)
    if entry is None:
        return Points()
    if thin and entry.thin_block >= 0:
        return _unpacked(_block(read, index, entry.thin_block), entry.thin_offset, entry.thin_count)
    return _unpacked(_block(read, index, entry.block), entry.offset, entry.count)


def read_all(data: bytes) -> dict[Ref, Points]:
    """All series of an object."""

    def read(start: int, end: int) -> bytes:
        return data[start:end]

    index, opened = read_index(read), {}
    found: dict[Ref, Points] = {}
    for ref, entry in index.series.items():
        if entry.block not in opened:
            opened = {entry.block: _block(read, index, entry.block)}
        found[ref] = _unpacked(opened[entry.block], entry.offset, entry.count)
    return found


def _block(read: Read, index: Index, number: int) -> bytes:
    try:
        return zlib.decompress(read(*index.blocks[number]))
    except (zlib.error, IndexError) as error:
        raise NoChunk(f"a damaged chunk of points: {error}") from None


def _packed(points: Points) -> bytes:
    """Steps and times (in microseconds) as differences, and all columns by the weight of their bytes: like by like."""
    steps, times = points.steps.tolist(), [round(at * MICRO) for at in points.at]
    return b"".join(_by_weight(column) for column in (_differences(steps), _differences(times), points.values))


def _differences(numbers: list[int]) -> array[int]:
    wrapped = [now - before for now, before in zip(numbers, [0, *numbers], strict=False)]
    try:
        return array("q", wrapped)
    except OverflowError:  # From "no step" to a large one: around the corner, and back when they are added up.
        return array("q", [_around(each) for each in wrapped])


def _around(number: int) -> int:
    return (number - NO_STEP) % 2**64 + NO_STEP


def _by_weight(column: array[int] | array[float]) -> bytes:
    data = _little(column).tobytes()
    return b"".join(data[byte::8] for byte in range(8))


def _little(column: array[int] | array[float]) -> array[int] | array[float]:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column


def _unpacked(block: bytes, offset: int, count: int) -> Points:
    if len(block) < offset + count * POINT_BYTES:
        raise NoChunk("a damaged chunk of points: a block is too short")
    columns = []
    for number, kind in enumerate("qqd"):
        start = offset + number * count * 8
        spread = bytearray(count * 8)
        for byte in range(8):
            spread[byte::8] = block[start + byte * count : start + (byte + 1) * count]
        column = array(kind)
        column.frombytes(bytes(spread))
        columns.append(_little(column))
    steps, times, values = columns
    at = array("d", [time / MICRO for time in accumulate(times.tolist())])
    return Points(_added(steps), at, values)  # type: ignore[arg-type]


def _added(differences: array[int]) -> array[int]:
    try:
        return array("q", accumulate(differences.tolist()))
    except OverflowError:
        return array("q", [_around(each) for each in accumulate(differences.tolist())])
