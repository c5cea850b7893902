"""What one event of TensorBoard says, from its protobuf bytes: scalars of both kinds, and hyperparameters.

Pure. Only the few fields that figures need are known; everything else is skipped by its length. A message that is cut
or is none raises `Malformed`, never anything else.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Tuple, Union

    Figure = Tuple[str, float]
    Params = Dict[str, Union[str, float, bool, None]]
    Fields = List[Tuple[int, int, Any]]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
NAME_BYTES_MAX = 1000
SCALARS, HPARAMS = "scalars", "hparams"
# Type of a tensor: how its content is packed. (Halves of the other kind, bfloat16, are the upper bytes of a float.)
PACKED = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 10: "?", 17: "H", 19: "e", 22: "I", 23: "Q"}
BFLOAT16, HALF = 14, 19
HALF_VALUES, FLOAT_VALUES, DOUBLE_VALUES = 13, 5, 6
WHOLE_VALUES = {7: 32, 10: 64, 11: 0, 16: 0, 17: 0}  # Field of a tensor: bits, where it has a sign.

_double, _float = struct.Struct("<d"), struct.Struct("<f")


class Malformed(ValueError):
    """These bytes are no such message."""


class Event:
    """What an event said. `plugins` belongs to the file: whose a tag is stands in its first event alone."""

    __slots__ = ("at", "figures", "params", "step")

    def __init__(self) -> None:
        self.at = 0.0
        self.step = 0  # A step of zero is not written.
        self.figures: list[Figure] = []
        self.params: Params = {}


def read_event(data: bytes, plugins: dict[str, str]) -> Event:
    event = Event()
    summaries = []
    for number, kind, value in _fields(data):
        if number == 1 and kind == FIXED64:
            event.at = _double.unpack(value)[0]
        elif number == 2 and kind == VARINT:
            event.step = _signed(value, 64)
        elif number == 5 and kind == LENGTH:
            summaries.append(value)
    for summary in summaries:
        for number, kind, value in _fields(summary):
            if number == 1 and kind == LENGTH:
                _read_value(value, event, plugins)
    return event


def _read_value(data: bytes, event: Event, plugins: dict[str, str]) -> None:
    tag, simple, tensor = b"", None, None
    plugin, content = "", b""
    for number, kind, value in _fields(data):
        if number == 1 and kind == LENGTH:
            tag = value
        elif number == 2 and kind == FIXED32:
            simple = _float.unpack(value)[0]
        elif number == 8 and kind == LENGTH:
            tensor = value
        elif number == 9 and kind == LENGTH:
            plugin, content = _plugin(value)
    name = name_of(tag)
    if plugin:
        plugins[name] = plugin
    if plugins.get(name) == HPARAMS:
        event.params.update(_hparams(content))
    elif simple is not None:
        event.figures.append((name, simple))
    elif tensor is not None and plugins.get(name) == SCALARS:
        figure = _tensor_figure(tensor)
        if figure is not None:
            event.figures.append((name, figure))


def name_of(tag: bytes) -> str:
    return tag[:NAME_BYTES_MAX].decode("utf-8", "replace")


def _plugin(metadata: bytes) -> tuple[str, bytes]:
    for number, kind, value in _fields(metadata):
        if number == 1 and kind == LENGTH:
            inner = {field: said for field, wire, said in _fields(value) if wire == LENGTH}
            return inner.get(1, b"").decode("utf-8", "replace"), inner.get(2, b"")
    return "", b""


# --- tensors of one element ---


def _tensor_figure(data: bytes) -> float | None:
    """The one number of a tensor; None where it has another count of them, or none at all."""
    dtype, content, numbers = 0, b"", []
    for number, kind, value in _fields(data):
        if number == 1 and kind == VARINT:
            dtype = value
        elif number == 4 and kind == LENGTH:
            content = value
        elif number == FLOAT_VALUES:
            numbers += _unpacked("f", value)
        elif number == DOUBLE_VALUES:
            numbers += _unpacked("d", value)
        elif number == HALF_VALUES:
            numbers += [_half(each, dtype) for each in _varints(value)]
        elif number in WHOLE_VALUES:
            numbers += [_signed(each, 64) if WHOLE_VALUES[number] else each for each in _varints(value)]
    if content and dtype == BFLOAT16:
        content, dtype = b"".join(b"\0\0" + content[at : at + 2] for at in range(0, len(content), 2)), 1
    if content and dtype in PACKED:
        numbers = _unpacked(PACKED[dtype], content)
    return float(numbers[0]) if len(numbers) == 1 else None


def _unpacked(letter: str, value: bytes) -> list[Any]:
    count = len(value) // struct.calcsize("<" + letter)
    try:
        return list(struct.unpack(f"<{count}{letter}", value)) if count <= 1 else [0, 0]
    except struct.error:
        raise Malformed("a tensor's content is cut") from None


def _half(bits: int, dtype: int) -> float:
    bits &= 0xFFFF
    if dtype == HALF:
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    return float(_float.unpack(struct.pack("<I", bits << 16))[0])


def _varints(value: int | bytes) -> list[int]:
    """The numbers of a repeated field: one by one, or packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


# --- hyperparameters ---


def _hparams(content: bytes) -> Params:
    """The parameters that a session began with; nothing for the plugin's other messages."""
    params: Params = {}
    for number, kind, session in _fields(content):
        for inner, wire, entry in _fields(session) if number == 3 and kind == LENGTH else ():
            if inner == 1 and wire == LENGTH:
                pair = {field: said for field, form, said in _fields(entry) if form == LENGTH}
                params[name_of(pair.get(1, b""))] = _param(pair.get(2, b""))
    return params


def _param(data: bytes) -> str | float | bool | None:
    for number, kind, value in _fields(data):
        if number == 2 and kind == FIXED64:
            return float(_double.unpack(value)[0])
        if number == 3 and kind == LENGTH:
            return str(value.decode("utf-8", "replace"))
        if number == 4 and kind == VARINT:
            return bool(value)
    return None


# --- the wire ---


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        value: int | bytes
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32, LENGTH):
            if kind == LENGTH:
                size, at = _varint(data, at)
            else:
                size = 8 if kind == FIXED64 else 4
            if size > end - at:
                raise Malformed("a field is longer than its message")
            value, at = data[at : at + size], at + size
        else:
            raise Malformed(f"no field has the form {kind}")
        yield key >> 3, kind, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place in range(10):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at
    raise Malformed("a number has no end")


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number
