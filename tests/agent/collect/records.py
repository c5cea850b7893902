"""Event files as TensorBoard's writers make them, byte by byte, for tests of the reader."""

from __future__ import annotations

import struct

from headway_agent.collect.event_files import masked_crc32c


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(values: bytes, step: int, at: float) -> bytes:
    count = b"\x10" + varint(step) if step else b""
    return record(b"\x09" + struct.pack("<d", at) + count + field(5, values))


def scalar(tag: str, value: float, step: int, at: float = 1.0) -> bytes:
    return event(field(1, field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)), step, at)


def tensor_scalar(tag: str, tensor: bytes, step: int, plugin: str = "scalars", at: float = 1.0) -> bytes:
    about = field(9, field(1, field(1, plugin.encode()))) if plugin else b""
    return event(field(1, field(1, tag.encode()) + field(8, tensor) + about), step, at)
