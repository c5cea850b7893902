"""Files of tensors and arrays: whether they are as long as their own header says.

Only headers are read; where torch's old files say their lengths in between, those. Which file is looked at here is
decided in file_formats.py.
"""

from __future__ import annotations

import struct

from headway_agent.formats.file_content import HEAD_BYTES, BrokenFile, UnsureFile
from headway_agent.formats.pickles import Skim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.formats.file_content import Content

HEADER_BYTES_MAX = 96 << 20
ITEMS_MAX = 300_000
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Torch's storages by the names of their classes: bytes per item.
ITEM_BYTES = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "ComplexFloat": 8, "ComplexDouble": 16, "QInt8": 1, "QUInt8": 1, "QInt32": 4, "QUInt4x2": 1, "QUInt2x4": 1,
    "Untyped": 1,
}  # fmt: skip
# GGUF's types of tensors by number: items and bytes in a block. And of values: bytes.
GGUF_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66),
}  # fmt: skip
GGUF_VALUES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
GGUF_STRING, GGUF_ARRAY = 8, 9


def check_safetensors(content: Content) -> str:
    import json

    (length,) = struct.unpack("<Q", content.exactly(0, 8))
    if length > HEADER_BYTES_MAX:
        raise UnsureFile("a very large header")
    try:
        header = json.loads(content.exactly(8, length))
    except ValueError:
        raise BrokenFile("its header is damaged") from None
    ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
    expected = 8 + length + max(ends, default=0)
    if content.size != expected:
        raise BrokenFile(f"is {content.size} bytes; its header says {expected}")
    return ""


def check_npy(content: Content) -> str:
    at = 0
    while at < content.size:  # Several arrays may follow each other.
        at = _npy_end(content, at)
    return ""


def _npy_end(content: Content, at: int) -> int:
    import ast

    start = content.exactly(at, 10)
    end: int
    if start[:6] != b"\x93NUMPY":
        raise BrokenFile("has bytes behind its array") if at == 0 else UnsureFile("not only arrays")
    wide = start[6] > 1
    (length,) = struct.unpack("<I" if wide else "<H", content.exactly(at + 8, 4 if wide else 2))
    begin = at + (12 if wide else 10)
    if length > HEAD_BYTES * 16:
        raise UnsureFile("a very large header")
    header = ast.literal_eval(content.exactly(begin, length).decode("latin-1").strip())
    items = 1
    for side in header["shape"]:
        items *= side
    if header["descr"] == "|O":
        return Skim(content.some, content.size).end(begin + length)
    end = begin + length + items * _item_bytes(header["descr"])
    content.exactly(end, 0)
    return end


def _item_bytes(descr: object) -> int:
    if isinstance(descr, str):
        return int(descr[2:].split("[")[0]) * (4 if descr[1] == "U" else 1)
    if not isinstance(descr, list):
        raise UnsureFile("an unknown type of item")
    total = 0
    for field in descr:
        count = 1
        for side in field[2] if len(field) > 2 else ():
            count *= side
        total += count * _item_bytes(field[1])
    return total


def hdf5_base(content: Content) -> int | None:
    if content.head.startswith(HDF5_MAGIC):
        return 0
    if content.ending not in (".h5", ".hdf5"):
        return None
    return next((at for at in (512, 1024, 2048) if content.head[at : at + 8] == HDF5_MAGIC), None)


def check_hdf5(content: Content) -> str:
    """The superblock says how long the file is. It is written at the close; before, it says less or nothing."""
    base = hdf5_base(content) or 0
    block = content.exactly(base, 16)
    version = block[8]
    if version <= 1:
        width, at = block[13], base + (24 if version == 0 else 28)
        places = content.exactly(at, 4 * width)
        end = int.from_bytes(places[2 * width : 3 * width], "little")
    elif version <= 3:
        width, flags = block[9], block[11]
        places = content.exactly(base + 12, 4 * width)
        end = int.from_bytes(places[2 * width : 3 * width], "little")
        if flags & 0x05:
            raise BrokenFile("was not closed by its writer")
    else:
        raise UnsureFile("a newer format")
    if content.size not in (end, base + end):
        raise BrokenFile(f"is {content.size} bytes; its header says {end}")
    return ""


def check_old_torch(content: Content) -> str:
    """Five pickles: torch's number, its version, the system, the object, the names of storages; then the storages."""
    from headway_agent.formats.pickled_data import Loading

    at, skim = 0, Skim(content.some, content.size)
    for _ in range(3):
        at = skim.end(at)
    loading = Loading(content.some, at)
    loading.load()
    widths = {each[2]: ITEM_BYTES[_storage(each[1].name)] for each in loading.persistent if each[0] == "storage"}
    keys, at = loading.load(), loading.at
    for key in keys:
        at += 8 + int.from_bytes(content.exactly(at, 8), "little") * widths[key]
    content.exactly(at, 0)
    if at < content.size:
        raise UnsureFile("has bytes behind its storages")
    return ""


def _storage(name: str) -> str:
    short = name.rpartition(".")[2]
    return short[: -len("Storage")] if short.endswith("Storage") else short


def check_gguf(content: Content) -> str:
    """A header, values by name, then what each tensor is and where it begins."""
    reader = HeaderReader(content, 4)
    version, tensors, values = reader.number(4), reader.number(8), reader.number(8)
    if version not in (2, 3):
        raise UnsureFile("another version")
    alignment = 32
    for _ in range(reader.counted(values)):
        key, kind = reader.string(), reader.number(4)
        value = reader.value(kind)
        alignment = value if key == b"general.alignment" and value else alignment
    ends = [0]
    for _ in range(reader.counted(tensors)):
        reader.string()
        items = 1
        for _ in range(reader.counted(reader.number(4))):
            items *= reader.number(8)
        in_block, block_bytes = GGUF_BLOCKS[reader.number(4)]
        ends.append(reader.number(8) + items // in_block * block_bytes)
    content.exactly(-(-reader.at // alignment) * alignment + max(ends) if tensors else reader.at, 0)
    return ""


class HeaderReader:
    """Numbers and strings one after the other."""

    def __init__(self, content: Content, at: int = 0) -> None:
        self._content, self.at = content, at
        self._window, self._base = b"", 0
        self._left = ITEMS_MAX

    def take(self, count: int) -> bytes:
        begin = self.at - self._base
        if not 0 <= begin <= len(self._window) - count:
            self._content.exactly(self.at, 0)
            self._window, self._base, begin = self._content.some(self.at, max(count, 1 << 16)), self.at, 0
            if len(self._window) < count:
                raise BrokenFile(f"ends at {self._content.size} bytes; at least {self.at + count} are expected")
        self.at += count
        return self._window[begin : begin + count]

    def number(self, width: int, order: str = "little") -> int:
        return int.from_bytes(self.take(width), "big" if order == "big" else "little")

    def counted(self, count: int) -> int:
        """That many more things are to be read; there is a limit."""
        self._left -= count
        if self._left < 0:
            raise UnsureFile("too much to read")
        return count

    def over(self, count: int) -> None:
        self.at += count
        self._content.exactly(self.at, 0)

    def string(self) -> bytes:
        count = self.number(8)
        if count > HEAD_BYTES:
            self.over(count)
            return b""
        return self.take(count)

    def value(self, kind: int) -> int:
        """A value of GGUF; its number if it is a plain one."""
        if kind == GGUF_STRING:
            self.string()
        elif kind == GGUF_ARRAY:
            kind, count = self.number(4), self.number(8)
            if kind in GGUF_VALUES:
                self.over(count * GGUF_VALUES[kind])
            else:
                for _ in range(self.counted(count)):
                    self.value(kind)
        else:
            return self.number(GGUF_VALUES[kind])
        return 0


# --- msgpack --------------------------------------------------------------------------------------------------------

# By first byte: how many bytes of length come next, what each of its units adds in bytes, and in things to come.
_MSGPACK_SIZED = {
    0xC4: (1, 0, 0), 0xC5: (2, 0, 0), 0xC6: (4, 0, 0), 0xC7: (1, 1, 0), 0xC8: (2, 1, 0), 0xC9: (4, 1, 0),
    0xD9: (1, 0, 0), 0xDA: (2, 0, 0), 0xDB: (4, 0, 0),
    0xDC: (2, 0, 1), 0xDD: (4, 0, 1), 0xDE: (2, 0, 2), 0xDF: (4, 0, 2),
}  # fmt: skip
_MSGPACK_FIXED = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip


def begins_as_msgpack(head: bytes) -> bool:
    """A map whose first key is a name: what flax writes."""
    behind = {0xDE: 3, 0xDF: 5}.get(head[0], 1 if 0x81 <= head[0] <= 0x8F else 0)
    key = head[behind : behind + 1]
    if not behind or not b"\xa1" <= key <= b"\xbf":
        return False
    name = head[behind + 1 : behind + 1 + key[0] - 0xA0]
    return bool(name) and name.isascii() and name.decode().replace(".", "_").replace("/", "_").isidentifier()


def check_msgpack(content: Content) -> str:
    reader = HeaderReader(content)
    while reader.at < content.size:
        left = 1
        while left:
            reader.counted(1)
            left += over_msgpack(reader) - 1
    return ""


def over_msgpack(reader: HeaderReader) -> int:
    """Go behind one thing, and return how many are in it that come next."""
    first = reader.number(1)
    if first <= 0x7F or first >= 0xE0:
        return 0
    if first <= 0x9F:
        return (first & 0x0F) * (2 if first <= 0x8F else 1)
    if first <= 0xBF:
        reader.over(first & 0x1F)
        return 0
    if first in _MSGPACK_FIXED:
        reader.over(_MSGPACK_FIXED[first])
        return 0
    if first not in _MSGPACK_SIZED:
        raise UnsureFile("not msgpack")
    width, more, things = _MSGPACK_SIZED[first]
    count = reader.number(width, "big")
    if not things:
        reader.over(count + more)
    return count * things
