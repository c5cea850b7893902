"""Whether a file is whole, as far as its own structure tells: a cheap look at its head, its tail and its directory.

Never the whole file, never an exception, never more than a moment. The formats are known by their first bytes; by
their ending only where there are none. Pickles are walked in pickles.py, directories in checkpoint_directories.py.
"""

from __future__ import annotations

import os
import stat
import struct
from collections import namedtuple

from headway_agent.pickles import Cut, Odd, Skim, TooLong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping, NamedTuple

    class Verdict(NamedTuple):
        """`kind` is a word for the format ("" where it is none that we know), `detail` says what is amiss."""

        verdict: str
        kind: str
        detail: str

else:
    Verdict = namedtuple("Verdict", ("verdict", "kind", "detail"))

WHOLE, CUT, UNKNOWN = "whole", "cut", "unknown"
HEAD_BYTES = 4096
READ_BYTES_MAX = 96 << 20  # Over all looks at one file: more is no cheap check.
DIRECTORY_BYTES_MAX = 32 << 20
JSON_BYTES_MAX = 4 << 20
LOCAL_HEADERS_MAX = 64  # So many entries of a zip are looked at where they lie; the others only in its directory.
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
TORCH_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # Torch's own number, as a pickle: its files before 1.6.
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}

# Endings that promise a format with a head of its own; without that head the file is not (yet) what it is called.
PROMISED = {
    ".safetensors": "safetensors", ".npy": "npy", ".npz": "npz", ".keras": "keras", ".h5": "hdf5", ".hdf5": "hdf5",
    ".gguf": "gguf", ".zip": "zip",
}  # fmt: skip
# Endings of what may have several formats, but is never empty.
LOOSE = (".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".bin", ".msgpack", ".json", ".distcp", ".tar", ".joblib", ".nemo")
PICKLES = (".pkl", ".pickle", ".p", ".pk")
LINES = (".jsonl", ".ndjson", ".csv", ".tsv", ".log", ".txt")


class Broken(Exception):
    """The structure says more than there is; the text says what."""


class Unsure(Exception):
    """It cannot be told cheaply."""


class Content:
    """A file's bytes by offset. What is asked for and not there is Broken; too much asked for is Unsure."""

    def __init__(self, fd: int, size: int, ending: str) -> None:
        self.fd, self.size, self.ending = fd, size, ending
        self._left = READ_BYTES_MAX
        self.head = self.some(0, HEAD_BYTES)

    def some(self, at: int, count: int) -> bytes:
        """As much of it as there is."""
        self._left -= max(count, 0)
        if self._left < 0:
            raise Unsure("too much to read")
        return os.pread(self.fd, count, at) if count > 0 and 0 <= at < self.size else b""

    def exactly(self, at: int, count: int) -> bytes:
        if at + count > self.size:
            raise Broken(f"ends at {self.size} bytes; at least {at + count} are expected")
        found = self.some(at, count)
        if len(found) < count:
            raise Broken("became shorter")
        return found


def check(path: str) -> Verdict:
    """Whether the file is whole. UNKNOWN where its format is none of ours, or cannot be told cheaply."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as problem:
        return Verdict(UNKNOWN, "", str(problem))
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            return Verdict(UNKNOWN, "", "not a regular file")
        return _check(fd, facts.st_size, os.path.basename(path).lower())
    except OSError as problem:
        return Verdict(UNKNOWN, "", str(problem))
    finally:
        os.close(fd)


def check_directory(files: Mapping[str, int], read: Callable[[str], bytes]) -> Verdict:
    """Whether a directory that holds one checkpoint is whole, by its relative paths with sizes and its small files."""
    from headway_agent.checkpoint_directories import check as check_files

    return check_files(files, read)


def _check(fd: int, size: int, name: str) -> Verdict:
    kind, looks = "", None
    ending = os.path.splitext(name)[1]
    try:
        if size == 0:
            promised = ending in PROMISED or ending in LOOSE
            return Verdict(CUT, "empty", "is empty") if promised else Verdict(UNKNOWN, "empty", "is empty")
        content = Content(fd, size, ending)
        kind, looks = _format(content)
        if looks is None:
            return Verdict(UNKNOWN, kind, "")
        return Verdict(WHOLE, looks(content) or kind, "")
    except Broken as problem:
        return Verdict(CUT, kind, str(problem))
    except Cut:
        return Verdict(CUT, kind, "has no end")
    except (Unsure, Odd, TooLong) as problem:
        return Verdict(UNKNOWN, kind, str(problem))
    except OSError:
        raise
    except Exception as problem:  # A structure that nobody foresaw says nothing.
        return Verdict(UNKNOWN, kind, repr(problem)[:200])


def _format(content: Content) -> tuple[str, Callable[[Content], str] | None]:
    """The kind, and what looks at it (and may name it better)."""
    head, ending = content.head, content.ending
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip", _zip
    if _hdf5_base(content) is not None:
        return "hdf5", _hdf5
    if head.startswith(b"\x93NUMPY"):
        return "npy", _npy
    if head[:1] == b"\x80" and b"\x02" <= head[1:2] <= b"\x05":
        return ("torch, old format", _old_torch) if head.startswith(TORCH_MAGIC) else ("pickle", _pickles)
    if head[8:9] == b"{" and (ending == ".safetensors" or head[8:10] in (b'{"', b"{}")):
        return "safetensors", _safetensors
    for magic, kind in COMPRESSED.items():
        if head.startswith(magic):
            return kind, None
    return _format_by_ending(content)


def _format_by_ending(content: Content) -> tuple[str, Callable[[Content], str] | None]:
    ending = content.ending
    if ending in PROMISED:
        return PROMISED[ending], _headless
    if ending in LOOSE and not content.head[:16].strip(b"\0"):
        return "", _headless
    if ending in PICKLES:
        return "pickle", _pickles
    if ending == ".json":
        return "json", _json
    if ending in LINES:
        return "lines", _lines
    if ending in (".pt", ".pth", ".ckpt", ".bin") and any(
        magic.startswith(content.head) for magic in (b"PK\x03\x04", TORCH_MAGIC)
    ):
        return "torch", _headless
    return "", None


def _headless(content: Content) -> str:
    raise Broken("does not begin as its ending promises")


# --- zip: torch, npz, Keras -----------------------------------------------------------------------------------------


def _zip(content: Content) -> str:
    """The directory is at the end, and is written last: what it lists lies before it."""
    found = zip_entries(content)
    step = max(1, len(found) // LOCAL_HEADERS_MAX)
    for index, (name, at, _) in enumerate(found):
        if (index % step == 0 or index == len(found) - 1) and content.exactly(at, 4) != b"PK\x03\x04":
            raise Broken(f"{name.decode('utf-8', 'replace')} is not where the directory says")
    return _zip_kind([name for name, _, _ in found])


def zip_entries(content: Content) -> list[tuple[bytes, int, int]]:
    """The name, the place and the stored size of each entry, all of which lie inside."""
    tail_at, entries, directory_bytes, directory_at = _zip_end(content)
    before = tail_at - directory_bytes - directory_at
    if before > 0 or content.ending == ".distcp":
        raise Unsure("several archives one after the other")
    if before < 0:
        raise Broken("its directory lies outside")
    if directory_bytes > DIRECTORY_BYTES_MAX:
        raise Unsure("a very large directory")
    found = _listed(content.exactly(directory_at, directory_bytes), entries)
    for name, at, size in found:
        if at + 30 + len(name) + size > directory_at:
            raise Broken(f"{name.decode('utf-8', 'replace')} lies outside")
    return found


def _zip_end(content: Content) -> tuple[int, int, int, int]:
    """Where the records behind the directory begin, and how many entries, how many bytes and where it says."""
    tail_bytes = min(content.size, 22 + 0xFFFF + 76)
    for count in (min(tail_bytes, 98), tail_bytes):  # Mostly there is no comment behind it.
        tail = content.exactly(content.size - count, count)
        at = tail.rfind(b"PK\x05\x06")
        while at >= 0 and (at + 22 > len(tail) or at + 22 + struct.unpack_from("<H", tail, at + 20)[0] != len(tail)):
            at = tail.rfind(b"PK\x05\x06", 0, at)
        if at >= 0:
            break
    else:
        raise Broken("its directory at the end is missing")
    entries, size, offset = struct.unpack_from("<HII", tail, at + 10)
    end_at = content.size - len(tail) + at
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\x06\x07" and (entries, size, offset) != (0, 0, 0):
        (at64,) = struct.unpack_from("<Q", tail, at - 12)
        record = content.exactly(at64, 56)
        if record[:4] != b"PK\x06\x06":
            raise Broken("its directory at the end is missing")
        entries, size, offset = struct.unpack_from("<QQQ", record, 32)
        end_at = at64
    return end_at, entries, size, offset


def _listed(directory: bytes, count: int) -> list[tuple[bytes, int, int]]:
    found, at = [], 0
    while at + 46 <= len(directory):
        if directory[at : at + 4] != b"PK\x01\x02":
            break
        stored, size = struct.unpack_from("<II", directory, at + 20)
        name_bytes, extra_bytes, comment_bytes = struct.unpack_from("<HHH", directory, at + 28)
        (offset,) = struct.unpack_from("<I", directory, at + 42)
        name = directory[at + 46 : at + 46 + name_bytes]
        if 0xFFFFFFFF in (stored, size, offset):
            extra = directory[at + 46 + name_bytes : at + 46 + name_bytes + extra_bytes]
            stored, offset = _zip64(extra, stored, size, offset)
        found.append((name, offset, stored))
        at += 46 + name_bytes + extra_bytes + comment_bytes
    if at != len(directory) or len(found) != count:
        raise Broken("its directory at the end is damaged")
    return found


def _zip64(extra: bytes, stored: int, size: int, offset: int) -> tuple[int, int]:
    at = 0
    while at + 4 <= len(extra):
        field, length = struct.unpack_from("<HH", extra, at)
        if field == 1:
            large = [value for (value,) in struct.iter_unpack("<Q", extra[at + 4 : at + 4 + length // 8 * 8])]
            if size == 0xFFFFFFFF:
                large.pop(0)
            stored = large.pop(0) if stored == 0xFFFFFFFF else stored
            return stored, large.pop(0) if offset == 0xFFFFFFFF else offset
        at += 4 + length
    raise Broken("its directory at the end is damaged")


def _zip_kind(names: list[bytes]) -> str:
    tails = {name.split(b"/", 1)[-1] for name in names}
    if b"data.pkl" in tails and (b"version" in tails or b".data/version" in tails or len(names) > 1):
        return "torch"
    if b"model.weights.h5" in tails and b"config.json" in tails:
        return "keras"
    return "npz" if names and all(name.endswith(b".npy") for name in names) else "zip"


# --- pickles --------------------------------------------------------------------------------------------------------


def _pickles(content: Content) -> str:
    """One pickle or several, one after the other."""
    at, skim = 0, Skim(content.some, content.size)
    try:
        while at < content.size:
            at = skim.end(at)
    except TooLong:
        if content.some(content.size - 1, 1) != b".":
            raise Cut from None
        raise
    return ""


def _old_torch(content: Content) -> str:
    """Five pickles: torch's number, its version, the system, the object, the names of storages; then the storages."""
    at, skim = 0, Skim(content.some, content.size)
    for _ in range(5):
        at = skim.end(at)
    raise Unsure("storages follow")


# --- arrays and tensors ---------------------------------------------------------------------------------------------


def _safetensors(content: Content) -> str:
    import json

    (length,) = struct.unpack("<Q", content.exactly(0, 8))
    if length > DIRECTORY_BYTES_MAX * 3:
        raise Unsure("a very large header")
    try:
        header = json.loads(content.exactly(8, length))
    except ValueError:
        raise Broken("its header is damaged") from None
    ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
    expected = 8 + length + max(ends, default=0)
    if content.size != expected:
        raise Broken(f"is {content.size} bytes; its header says {expected}")
    return ""


def _npy(content: Content) -> str:
    at = 0
    while at < content.size:  # Several arrays may follow each other.
        at = _npy_end(content, at)
    return ""


def _npy_end(content: Content, at: int) -> int:
    import ast

    start = content.exactly(at, 10)
    end: int
    if start[:6] != b"\x93NUMPY":
        raise Broken("has bytes behind its array") if at == 0 else Unsure("not only arrays")
    wide = start[6] > 1
    (length,) = struct.unpack("<I" if wide else "<H", content.exactly(at + 8, 4 if wide else 2))
    begin = at + (12 if wide else 10)
    if length > HEAD_BYTES * 16:
        raise Unsure("a very large header")
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
        raise Unsure("an unknown type of item")
    total = 0
    for field in descr:
        count = 1
        for side in field[2] if len(field) > 2 else ():
            count *= side
        total += count * _item_bytes(field[1])
    return total


def _hdf5_base(content: Content) -> int | None:
    if content.head.startswith(HDF5_MAGIC):
        return 0
    if content.ending not in (".h5", ".hdf5"):
        return None
    return next((at for at in (512, 1024, 2048) if content.head[at : at + 8] == HDF5_MAGIC), None)


def _hdf5(content: Content) -> str:
    """The superblock says how long the file is. It is written at the close; before, it says less or nothing."""
    base = _hdf5_base(content) or 0
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
            raise Broken("was not closed by its writer")
    else:
        raise Unsure("a newer format")
    if content.size not in (end, base + end):
        raise Broken(f"is {content.size} bytes; its header says {end}")
    return ""


# --- text -----------------------------------------------------------------------------------------------------------


def _json(content: Content) -> str:
    import json

    if content.size > JSON_BYTES_MAX:
        if content.some(content.size - 64, 64).rstrip()[-1:] not in (b"}", b"]"):
            raise Broken("has no end")
        return ""
    try:
        json.loads(content.exactly(0, content.size))
    except UnicodeDecodeError:
        raise Unsure("not in UTF-8") from None
    except ValueError:
        raise Broken("cannot be read as JSON") from None
    return ""


def _lines(content: Content) -> str:
    if content.some(content.size - 1, 1) == b"\n":
        return ""
    if content.ending == ".txt":
        raise Unsure("its last line has no end, and may need none")
    raise Broken("its last line has no end")
