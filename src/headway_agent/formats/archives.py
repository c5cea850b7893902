"""What a zip's or tar's own directory says: torch's files, npz and Keras files are zips, NeMo's are tars.

Only directories and headers are read. Which file is looked at here is decided in file_formats.py.
"""

from __future__ import annotations

import struct

from headway_agent.formats.file_content import BrokenFile, UnsureFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.formats.file_content import Content

DIRECTORY_BYTES_MAX = 32 << 20
LOCAL_HEADERS_MAX = 64  # So many entries of a zip are looked at where they lie; the others only in its directory.
TAR_ENTRIES_MAX = 20_000
TAR_BLOCK_BYTES = 512


def check_zip(content: Content) -> str:
    """The directory is at the end, and is written last: what it lists lies before it."""
    found = zip_entries(content)
    step = max(1, len(found) // LOCAL_HEADERS_MAX)
    for index, (name, at, _) in enumerate(found):
        if (index % step == 0 or index == len(found) - 1) and content.exactly(at, 4) != b"PK\x03\x04":
            raise BrokenFile(f"{name.decode('utf-8', 'replace')} is not where the directory says")
    return _zip_kind([name for name, _, _ in found])


def zip_entries(content: Content) -> list[tuple[bytes, int, int]]:
    """The name, the place and the stored size of each entry, all of which lie inside."""
    tail_at, entries, directory_bytes, directory_at = _zip_end(content)
    before = tail_at - directory_bytes - directory_at
    if before > 0:
        raise UnsureFile("several archives one after the other")
    if before < 0:
        raise BrokenFile("its directory lies outside")
    if directory_bytes > DIRECTORY_BYTES_MAX:
        raise UnsureFile("a very large directory")
    found = _listed(content.exactly(directory_at, directory_bytes), entries)
    for name, at, size in found:
        if at + 30 + len(name) + size > directory_at:
            raise BrokenFile(f"{name.decode('utf-8', 'replace')} lies outside")
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
        raise BrokenFile("its directory at the end is missing")
    entries, size, offset = struct.unpack_from("<HII", tail, at + 10)
    end_at = content.size - len(tail) + at
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\x06\x07" and (entries, size, offset) != (0, 0, 0):
        (at64,) = struct.unpack_from("<Q", tail, at - 12)
        if content.some(at64, 4) != b"PK\x06\x06":
            at64 = end_at - 20 - 56  # Where there is another archive in front, all places are told from its end on.
        record = content.some(at64, 56)
        if len(record) < 56 or record[:4] != b"PK\x06\x06":
            raise BrokenFile("its directory at the end is missing")
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
        raise BrokenFile("its directory at the end is damaged")
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
    raise BrokenFile("its directory at the end is damaged")


def _zip_kind(names: list[bytes]) -> str:
    tails = {name.split(b"/", 1)[-1] for name in names}
    if b"data.pkl" in tails and (b"version" in tails or b".data/version" in tails or len(names) > 1):
        return "torch"
    if b"model.weights.h5" in tails and b"config.json" in tails:
        return "keras"
    return "npz" if names and all(name.endswith(b".npy") for name in names) else "zip"


def check_tar(content: Content) -> str:
    """Headers and files in turn; a header of zeros is the end."""
    at = 0
    for _ in range(TAR_ENTRIES_MAX):
        header = content.exactly(at, TAR_BLOCK_BYTES)
        if not header.strip(b"\0"):
            return ""
        if header[257:262] != b"ustar":
            raise UnsureFile("an unknown entry")
        at += TAR_BLOCK_BYTES * (1 + -(-_tar_size(header[124:136]) // TAR_BLOCK_BYTES))
    raise UnsureFile("very many entries")


def _tar_size(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big")
    return int(field.strip(b" \0") or b"0", 8)
