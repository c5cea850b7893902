"""The user's code as a bundle: files named by their content, sent to the server as far as it does not know them.

Which files there are is told by ignored_files.py; the form of the manifest stands in
docs/explanation/keeping-progress.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headway.client.code import git, ignored_files
from headway.client.code.hash_cache import StatCache, hash_file
from headway.client.connection.http_socket import FileBody
from headway.core.errors import BadInput
from headway.core.spec.bundle import PACKED_BYTES_MAX, packed
from headway.core.units import show_size

WARN_BYTES = 100 * 10**6
REFUSE_BYTES = 2 * 10**9
FILES_MAX = 1_000_000
ASK_MOST = 50_000  # Hashes in one question.
IN_MEMORY_BYTES = PACKED_BYTES_MAX
PACK_BYTES, PACK_FILES = 4 << 20, 1000  # Well below what a server takes, so that the progress shown moves.

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadBundle:
    """A project as it was found: its manifest, and where the files lie."""

    root: str
    files: tuple[Entry, ...]
    digest: str
    git: git.GitFacts | None = None

    @property
    def size_bytes(self) -> int:
        return sum(int(entry.get("size", 0)) for entry in self.files)

    def __str__(self) -> str:
        count = len(self.files)
        return f"bundle {self.digest[:8]}… ({count} {'file' if count == 1 else 'files'}, {show_size(self.size_bytes)})"

    def holds(self, path: str) -> bool:
        return any(entry["path"] == path for entry in self.files)

    def manifest(self) -> dict[str, Any]:
        return {"files": list(self.files), "git": self.git._asdict() if self.git else None}


class BundleSender(Protocol):
    """What is needed of a connection."""

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | FileBody | None = None,
    ) -> Any: ...


@dataclass(slots=True)
class SentBundle:
    """How far an upload is."""

    files: int
    size_bytes: int
    files_sent: int = 0
    bytes_sent: int = 0
    now: FileBody | None = None  # The large file that is on its way.

    @property
    def bytes_gone(self) -> int:
        """What is there, and what of the file that is on its way has left."""
        return self.bytes_sent + (self.now.sent if self.now else 0)


def read(root: str, cache: Path, *, allow_large: bool = False) -> ReadBundle:
    """Look at every file of a project and name it by its content. What must not travel is refused by its path."""
    root = os.path.abspath(root)
    paths = ignored_files.listing(root)
    if len(paths) > FILES_MAX:
        raise BadInput(f"{root}: {len(paths):,} files; at most {FILES_MAX:,} are taken", _leave_out())
    looked = [(path, found) for path in paths if (found := _look(root, path)) is not None]
    size = sum(found.st_size for _, found in looked if stat.S_ISREG(found.st_mode))
    # Before anything is read: hashing many gigabytes only to refuse them would take minutes.
    if size > REFUSE_BYTES and not allow_large:
        raise BadInput(
            f"{root}: {show_size(size)} in {len(looked):,} files; at most 2 GB are bundled{_largest(looked)}",
            f"{_leave_out()}; --allow-large sends it, --no-bundle runs where it lies if nodes see that directory",
        )
    known = StatCache(cache, root)
    real_root = os.path.realpath(root)
    files = tuple(_entry(root, real_root, path, found, known) for path, found in looked)
    known.save()
    return made_of(files, root, git.facts(root) if os.path.lexists(os.path.join(root, ".git")) else None)


def made_of(files: Sequence[Entry], root: str, facts: git.GitFacts | None = None) -> ReadBundle:
    ordered = sorted(files, key=lambda entry: str(entry["path"]))
    canonical = json.dumps(ordered, sort_keys=True, separators=(",", ":"))
    return ReadBundle(root, tuple(ordered), hashlib.sha256(canonical.encode()).hexdigest(), facts)


def send(
    link: BundleSender, bundle: ReadBundle, on_progress: Callable[[SentBundle], None] = lambda sent: None
) -> SentBundle:
    """Bring the server what it does not have yet, then the manifest. Repeating it sends nothing."""
    places = {entry["sha256"]: entry for entry in bundle.files if "sha256" in entry}
    missing: list[str] = []
    hashes = list(places)
    for start in range(0, len(hashes), ASK_MOST):
        answer = link.call("POST", "/bundles/missing", {"files": hashes[start : start + ASK_MOST]}).json()
        missing += answer["missing"]
    wanted = [places[sha256] for sha256 in missing if sha256 in places]
    sent = SentBundle(len(wanted), sum(int(entry["size"]) for entry in wanted))
    on_progress(sent)
    for pack in _packs(wanted):
        if len(pack) == 1:
            content = _content(bundle.root, pack[0])
            sent.now = content if isinstance(content, FileBody) else None
            link.call("PUT", f"/bundles/files/{pack[0]['sha256']}", data=content)
            sent.now = None
        else:
            contents = [packed(entry["sha256"], _small(bundle.root, entry)) for entry in pack]
            link.call("PUT", "/bundles/files", data=b"".join(contents))
        sent.files_sent += len(pack)
        sent.bytes_sent += sum(int(entry["size"]) for entry in pack)
        on_progress(sent)
    link.call("PUT", f"/bundles/{bundle.digest}", bundle.manifest())
    return sent


def _packs(wanted: Sequence[Entry]) -> Iterator[list[Entry]]:
    """What travels together: small files in packs, each large one alone. A request for each would take longer."""
    pack: list[Entry] = []
    size = 0
    for entry in wanted:
        if entry["size"] > IN_MEMORY_BYTES:
            yield [entry]
            continue
        if pack and (size + entry["size"] > PACK_BYTES or len(pack) == PACK_FILES):
            yield pack
            pack, size = [], 0
        pack.append(entry)
        size += entry["size"]
    if pack:
        yield pack


def _content(root: str, entry: Entry) -> bytes | FileBody:
    if entry["size"] <= IN_MEMORY_BYTES:
        return _small(root, entry)
    path = os.path.join(root, entry["path"])
    try:
        if os.stat(path).st_size != entry["size"] or hash_file(path) != entry["sha256"]:
            raise _changed(entry)
    except OSError:
        raise _changed(entry) from None
    return FileBody(path, int(entry["size"]))


def _small(root: str, entry: Entry) -> bytes:
    try:
        content = Path(root, entry["path"]).read_bytes()
    except OSError:
        raise _changed(entry) from None
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise _changed(entry)
    return content


def _changed(entry: Entry) -> BadInput:
    return BadInput(f'"{entry["path"]}" changed while it was bundled', "submit again when it is at rest")


def _look(root: str, path: str) -> os.stat_result | None:
    """What lies there; None for a file that git lists and somebody removed. What cannot be bundled is refused."""
    if "\n" in path or "\r" in path or ".." in path.split("/"):
        raise BadInput(f"{path!r}: a name with a line break or .. cannot be bundled", f"rename it; {_leave_out()}")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{os.fsencode(path)!r}: the name is not UTF-8", f"rename it; {_leave_out()}") from None
    try:
        found = os.lstat(os.path.join(root, path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f'"{path}" cannot be read: {(error.strerror or str(error)).lower()}') from None
    if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
        return found
    raise BadInput(f'"{path}" is {_kind(found.st_mode)}, which cannot be bundled', _leave_out())


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISCHR, "a device"),
    ):
        if test(mode):
            return name
    return "no ordinary file"


def _entry(root: str, real_root: str, path: str, found: os.stat_result, known: StatCache) -> Entry:
    if stat.S_ISLNK(found.st_mode):
        return {"path": path, "link": _target(root, real_root, path), "mode": 0o777}
    # As git does: whether it can be run is content, all else is the umask of whoever wrote it.
    mode = 0o755 if found.st_mode & stat.S_IXUSR else 0o644
    return {"path": path, "sha256": known.sha256(path, found), "size": found.st_size, "mode": mode}


def _target(root: str, real_root: str, path: str) -> str:
    """Where a link leads, relative to it; refused when that is outside the tree, by its words or by following it."""
    full = os.path.join(root, path)
    target = os.readlink(full)
    folder = os.path.dirname(full)
    if os.path.isabs(target):
        target = os.path.relpath(target, folder)
    by_words = os.path.normpath(os.path.join(folder, target))
    followed = os.path.realpath(full)
    if not _inside(by_words, root) or not _inside(followed, real_root):
        raise BadInput(f'"{path}" is a link that leaves the project: {os.readlink(full)}', _leave_out())
    return target


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _largest(looked: Sequence[tuple[str, os.stat_result]]) -> str:
    size, path = max(((found.st_size, path) for path, found in looked), default=(0, ""))
    return f'; the largest is "{path}" ({show_size(size)})' if path else ""


def _leave_out() -> str:
    return f"leave it out with a line in .gitignore or {ignored_files.OURS}"
