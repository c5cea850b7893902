"""Whether a file is whole, as far as its own structure tells: a cheap look at its head, its tail and its directory.

Never the whole file, never an exception, never more than a moment. The formats are known by their first bytes; by
their ending only where there are none. Pickles are walked in pickles.py, directories in checkpoint_directories.py.
"""

from __future__ import annotations

import os
import stat
from collections import namedtuple

from headway_agent.formats.archives import check_tar, check_zip
from headway_agent.formats.file_content import BrokenFile, Content, UnsureFile
from headway_agent.formats.pickles import Cut, Odd, Skim, TooLong
from headway_agent.formats.tensor_files import (
    begins_as_msgpack,
    check_gguf,
    check_hdf5,
    check_msgpack,
    check_npy,
    check_old_torch,
    check_safetensors,
    hdf5_base,
)

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
JSON_BYTES_MAX = 4 << 20
LINE_BYTES_MAX = 1 << 20
TORCH_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # Torch's own number, as a pickle: its files before 1.6.
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}

# Endings that promise a format with a head of its own; without that head the file is not (yet) what it is called.
PROMISED = {
    ".safetensors": "safetensors", ".npy": "npy", ".npz": "npz", ".keras": "keras", ".h5": "hdf5", ".hdf5": "hdf5",
    ".gguf": "gguf", ".zip": "zip", ".nemo": "tar", ".parquet": "parquet",
}  # fmt: skip
# Endings of what may have several formats, but is never empty.
LOOSE = (".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".bin", ".msgpack", ".json", ".distcp", ".tar", ".joblib")
PICKLES = (".pkl", ".pickle", ".p", ".pk")
LINES = (".jsonl", ".ndjson", ".csv", ".tsv", ".log", ".txt")


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
    from headway_agent.formats.checkpoint_directories import check as check_files

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
    except BrokenFile as problem:
        return Verdict(CUT, kind, str(problem))
    except Cut:
        return Verdict(CUT, kind, "has no end")
    except (UnsureFile, Odd, TooLong) as problem:
        return Verdict(UNKNOWN, kind, str(problem))
    except OSError:
        raise
    except Exception as problem:  # A structure that nobody foresaw says nothing.
        return Verdict(UNKNOWN, kind, repr(problem)[:200])


def _format(content: Content) -> tuple[str, Callable[[Content], str] | None]:
    """The kind, and what looks at it (and may name it better)."""
    head, ending = content.head, content.ending
    if ending == ".distcp":
        return "distcp", None  # What several tensors need, one after the other; only .metadata says how many there are.
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip", check_zip
    if hdf5_base(content) is not None:
        return "hdf5", check_hdf5
    if head.startswith(b"\x93NUMPY"):
        return "npy", check_npy
    if head[:1] == b"\x80" and b"\x02" <= head[1:2] <= b"\x05":
        return ("torch, old format", check_old_torch) if head.startswith(TORCH_MAGIC) else ("pickle", _pickles)
    if head[8:9] == b"{" and (ending == ".safetensors" or head[8:10] in (b'{"', b"{}")):
        return "safetensors", check_safetensors
    if head.startswith(b"GGUF"):
        return "gguf", check_gguf
    if head[257:262] == b"ustar":
        return "tar", check_tar
    if head.startswith((b"PAR1", b"ARROW1")):
        return "parquet" if head[:1] == b"P" else "arrow", _same_ends
    if begins_as_msgpack(head):
        return "msgpack", check_msgpack
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
    if ending == ".msgpack":
        return "msgpack", check_msgpack
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
    if content.head[:2] in (b'{"', b"{\n", b"[{") and content.size <= JSON_BYTES_MAX:
        return "json", _surely_json
    return "", None


def _headless(content: Content) -> str:
    raise BrokenFile("does not begin as its ending promises")


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


# --- text -----------------------------------------------------------------------------------------------------------


def _json(content: Content) -> str:
    import json

    if content.size > JSON_BYTES_MAX:
        return _long_json(content)
    data = content.exactly(0, content.size)
    try:
        json.loads(data.decode("utf-8-sig"))
        return ""
    except UnicodeDecodeError as problem:
        raise BrokenFile("has no end") if problem.end >= len(data) else UnsureFile("not in UTF-8") from None
    except json.JSONDecodeError as problem:
        if problem.msg == "Extra data":
            return _json_lines(content)
        if "Unterminated string" in problem.msg or problem.pos >= len(problem.doc.rstrip()) - len("-Infinity"):
            raise BrokenFile("has no end") from None
        raise UnsureFile("cannot be read as JSON") from None


def _surely_json(content: Content) -> str:
    """By its beginning only: one that cannot be read may be something else."""
    try:
        return _json(content)
    except BrokenFile as problem:
        raise UnsureFile(str(problem)) from None


def _long_json(content: Content) -> str:
    """Too long to be read: one that is laid out ends in a bracket at the beginning of a line."""
    tail = content.some(content.size - 64, 64).rstrip()
    if tail[-1:] not in (b"}", b"]"):
        raise BrokenFile("has no end")
    if tail[-2:-1] != b"\n":
        raise UnsureFile("too long to be read")
    return ""


def _json_lines(content: Content) -> str:
    """A value on each line. The last may have no newline, if it is whole."""
    import json

    tail = content.some(max(0, content.size - LINE_BYTES_MAX), LINE_BYTES_MAX)
    if not tail.endswith(b"\n"):
        try:
            json.loads(tail.rpartition(b"\n")[2])
        except ValueError:
            raise BrokenFile("its last line has no end") from None
    return "lines"


def _lines(content: Content) -> str:
    if content.ending in (".jsonl", ".ndjson"):
        return _json_lines(content)
    if content.some(content.size - 1, 1) != b"\n":
        raise UnsureFile("its last line has no end, and may need none")
    return ""


def _same_ends(content: Content) -> str:
    """The last bytes are the first again."""
    magic = content.head[:4] if content.head[:1] == b"P" else content.head[:6]
    if content.size < 2 * len(magic) or content.some(content.size - len(magic), len(magic)) != magic:
        raise BrokenFile("its directory at the end is missing")
    return ""
