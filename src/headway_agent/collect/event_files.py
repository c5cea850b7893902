"""One event file of TensorBoard, read as it grows: bytes from its offset go in, points come out, the offset moves on.

Pure. A record that is not whole yet waits. A damaged one is passed over by its length, or by looking for the next head
that its checksum confirms. Records of scalars look alike but for time, step and value: each tag is understood once, and
then known by its bytes.
"""

from __future__ import annotations

import struct

from headway_agent.collect.event_messages import Malformed, read_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.collect.event_messages import Event, Params
    from headway_agent.collect.points import Point

HEAD_BYTES, FOOT_BYTES = 12, 4
AROUND_BYTES = HEAD_BYTES + FOOT_BYTES
RECORD_BYTES_MAX = 1 << 20  # A larger one is an image, a graph, a histogram: it is passed over unread.
LENGTH_MAX = 1 << 40
KNOWN_MAX = 20_000  # Tags and lengths that are remembered at a time.
TIME, STEP = 0x09, 0x10  # How the first two fields of an event begin.
TIME_END = 9

_length, _crc = struct.Struct("<Q"), struct.Struct("<I")
_double_at, _float_at = struct.Struct("<d").unpack_from, struct.Struct("<f").unpack_from


class EventFile:
    def __init__(self, offset: int = 0) -> None:
        self.offset = offset  # Where the next record begins: what is before it was taken.
        self.params: Params = {}
        self.damaged_bytes = 0
        self._heads: dict[bytes, int] = {}  # Heads of records whose checksum is right: the lengths that they tell.
        self._tails: dict[bytes, str] = {}  # What stands between step and value of a scalar: its name.
        self._plugins: dict[str, str] = {}

    def feed(self, data: bytes) -> list[Point]:
        """Take the bytes that begin at `offset`. What is left of them is to be fed again, with more behind it."""
        points: list[Point] = []
        append = points.append
        at, size = 0, len(data)
        heads, tails, base = self._heads, self._tails, self.offset
        while True:
            length = heads.get(data[at : at + HEAD_BYTES])
            if length is None:
                length = self._length_at(data, at)
                if length is None:
                    skipped = self._next_head(data, at)
                    if not skipped:
                        break
                    self.damaged_bytes += skipped
                    at += skipped
                    continue
            end = at + length + AROUND_BYTES
            if end > size:
                at = end if length > RECORD_BYTES_MAX else at
                break
            # The fast way: time, a step of at most three bytes, and a tail that was understood before.
            body = at + HEAD_BYTES
            step = -1
            if length > TIME_END + 8 and data[body] == TIME and data[body + TIME_END] == STEP:
                first = body + TIME_END + 1
                step = data[first]
                if step > 127:
                    second = data[first + 1]
                    first += 1
                    step += (second - 1) << 7
                    if second > 127:
                        third = data[first + 1]
                        first += 1
                        step = step + ((third - 1) << 14) if third < 128 else -1
            if step >= 0:
                name = tails.get(data[first + 1 : end - 8])
                if name is not None:
                    append((name, _float_at(data, end - 8)[0], step, _double_at(data, body + 1)[0], base + end))
                    at = end
                    continue
            if length <= RECORD_BYTES_MAX:
                self._read(data, body, end, first + 1 if step >= 0 else 0, points)
            at = end
        self.offset += at
        return points

    def _read(self, data: bytes, body: int, end: int, tail: int, points: list[Point]) -> None:
        """The slow way, for everything that is new."""
        record = data[body : end - FOOT_BYTES]
        try:
            event = read_event(record, self._plugins)
        except Malformed:
            self.damaged_bytes += len(record) + AROUND_BYTES
            return
        points += [(name, value, event.step, event.at, self.offset + end) for name, value in event.figures]
        self.params.update(event.params)
        if tail and len(event.figures) == 1:
            self._learn(data[tail : end - 8], event)

    def _learn(self, tail: bytes, event: Event) -> None:
        """Remember the bytes of a scalar, if they are those that every writer of plain scalars makes."""
        name = event.figures[0][0]
        tag = name.encode("utf-8")
        if len(tag) > 100 or tail != plain_tail(tag):
            return
        if len(self._tails) >= KNOWN_MAX:
            self._tails.clear()
        self._tails[tail] = name

    def _length_at(self, data: bytes, at: int) -> int | None:
        """The length that a head tells, if its checksum is right."""
        head = data[at : at + HEAD_BYTES]
        if len(head) < HEAD_BYTES:
            return None
        (length,) = _length.unpack_from(head)
        if length > LENGTH_MAX or _crc.unpack_from(head, 8)[0] != masked_crc32c(head[:8]):
            return None
        if len(self._heads) >= KNOWN_MAX:
            self._heads.clear()
        self._heads[head] = int(length)
        return int(length)

    def _next_head(self, data: bytes, at: int) -> int:
        """How many bytes to pass over; none where no head follows (yet): the record is only half written."""
        begin = at + 1
        while True:
            zeros = data.find(b"\0\0\0\0", begin + 4)  # The upper half of a length.
            if zeros < 0 or zeros + 8 > len(data):
                return 0
            for candidate in range(max(begin, zeros - 4), zeros + 1):
                if self._length_at(data, candidate) is not None:
                    return candidate - at
            begin = zeros - 3


def plain_tail(tag: bytes) -> bytes:
    """The bytes from the step to the value of a record with one plain scalar, for a tag of up to 100 bytes."""
    value = b"\x0a" + bytes([len(tag)]) + tag + b"\x15"
    return b"\x2a" + bytes([len(value) + 6]) + b"\x0a" + bytes([len(value) + 4]) + value


def _table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_TABLE = _table()


def masked_crc32c(data: bytes) -> int:
    """The checksum that records have."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
