"""What a bundle's manifest may say, and the name that follows from it. Pure; the bytes are
features/bundles/shelf.py's.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys
from headway.core.spec.program_words import DIGEST

FILES_MAX = 1_000_000
PATH_BYTES_MAX = 1000
GIT_BYTES_MAX = 8 * 2**20
PACKED_BYTES_MAX = 2**20  # Of one content that travels in a pack with others.
PACK_BYTES_MAX = 16 * 2**20
PACK_FILES_MAX = 2000
_HEAD = struct.Struct(">32sI")  # What stands before each content of a pack: its sha256, its size.
_MANIFEST = {"files": "", "git": ""}
_FILE = {"path": "", "sha256": "", "size": "", "mode": "", "link": ""}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checked manifest: its entries in order of path, and what git said."""

    files: tuple[Mapping[str, Any], ...]
    git: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        canonical = json.dumps(self.files, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def size_bytes(self) -> int:
        return sum(int(entry.get("size", 0)) for entry in self.files)

    @property
    def contents(self) -> dict[str, int]:
        """Each content once, with its size."""
        return {str(entry["sha256"]): int(entry["size"]) for entry in self.files if "link" not in entry}


def read_manifest(raw: Mapping[str, Any]) -> Manifest:
    """Return the checked manifest, or raise BadInput naming the path that is wrong."""
    check_keys(raw, _MANIFEST, "bundle")
    files = raw.get("files")
    if not isinstance(files, list):
        raise BadInput("bundle: no list of files")
    if len(files) > FILES_MAX:
        raise BadInput(f"bundle: {len(files):,} files; at most {FILES_MAX:,} are taken")
    git = raw.get("git") or {}
    if not isinstance(git, Mapping) or len(json.dumps(git)) > GIT_BYTES_MAX:
        raise BadInput("bundle: what git says is not a mapping, or is too long")
    for entry in files:
        _check(entry)
    ordered = sorted(files, key=lambda entry: str(entry["path"]))
    paths = {str(entry["path"]) for entry in ordered}
    if len(paths) != len(ordered):
        raise BadInput("bundle: a path stands there twice")
    _check_tree(ordered, paths)
    sizes: dict[str, int] = {}
    for entry in ordered:
        if "link" not in entry and sizes.setdefault(entry["sha256"], entry["size"]) != entry["size"]:
            raise BadInput(f'bundle: "{entry["path"][:200]}" has another size than the same content elsewhere')
    return Manifest(tuple(ordered), git)


def _check(entry: Any) -> None:
    check_keys(entry, _FILE, "bundle file")
    path = entry.get("path")
    if isinstance(path, str) and len(path.encode("utf-8", "replace")) > PATH_BYTES_MAX:
        raise BadInput(f"bundle: {path[:200]!r}… is longer than the {PATH_BYTES_MAX:,} bytes that a path may have")
    if not isinstance(path, str) or not is_inner(path):
        raise BadInput(f"bundle: {str(path)[:200]!r} is not a path inside the tree", "no .., no newline, not absolute")
    mode = entry.get("mode", 0o644)
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o7777:
        raise BadInput(f'bundle: "{path[:200]}" has the mode {str(mode)[:20]}')
    if "link" in entry:
        if not isinstance(entry["link"], str) or not stays_inside(path, entry["link"]):
            raise BadInput(f'bundle: the link "{path[:200]}" leads out of the tree: {str(entry["link"])[:200]!r}')
        return
    if not isinstance(entry.get("sha256"), str) or not DIGEST.fullmatch(entry["sha256"]):
        raise BadInput(f'bundle: "{path[:200]}" has no sha256')
    size = entry.get("size")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**50:
        raise BadInput(f'bundle: "{path[:200]}" has the size {str(size)[:20]}')


def _check_tree(files: list[Any], paths: set[str]) -> None:
    """No file stands where a directory must be; above all nothing lies beneath a link, which may lead anywhere."""
    for entry in files:
        parent = str(entry["path"])
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent in paths:
                raise BadInput(f'bundle: "{str(entry["path"])[:200]}" lies below "{parent[:200]}", which is a file')


def is_inner(path: str) -> bool:
    """Whether a path is relative, plain, and cannot leave the tree that it is put into."""
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= 255 for part in parts)
    return plain and _is_plain(path)


def _is_plain(path: str) -> bool:
    printable = not any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) <= 0xDFFF for char in path)
    return printable and len(path.encode("utf-8", "replace")) <= PATH_BYTES_MAX


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at this path with this target leads to somewhere in the tree."""
    if not target or target.startswith("/") or not _is_plain(target):
        return False
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return False
    return True


# --- packs: many small contents in one request ----------------------------------------------------------------------


def packed(sha256: str, content: bytes) -> bytes:
    """One content as it stands in a pack. A pack names no paths: those are the manifest's, and are checked there."""
    return _HEAD.pack(bytes.fromhex(sha256), len(content)) + content


def unpack(pack: bytes) -> dict[str, bytes]:
    """The contents of a pack by their hashes, every one of them checked; a pack with one bad content is refused."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(pack):
        if len(pack) - at < _HEAD.size:
            raise BadInput("the pack breaks off", "upload it again")
        digest, size = _HEAD.unpack_from(pack, at)
        at += _HEAD.size
        if size > PACKED_BYTES_MAX:
            raise BadInput(f"a content of {size} bytes in a pack; at most {PACKED_BYTES_MAX} travel with others")
        content = pack[at : at + size]
        at += size
        if len(content) < size:
            raise BadInput("the pack breaks off", "upload it again")
        if hashlib.sha256(content).digest() != digest:
            raise BadInput(f"a content of the pack is not {digest.hex()}", "it changed on its way")
        found[digest.hex()] = content
        if len(found) > PACK_FILES_MAX:
            raise BadInput(f"more than {PACK_FILES_MAX:,} contents in one pack")
    return found
