"""A task's code: the bundle is fetched, each file once per machine, checked by its hash, and unpacked afresh.

Never trusts what it was sent: paths, links and hashes are checked here again. How a bundle is named and stored is in
docs/explanation/keeping-progress.md.
"""

from __future__ import annotations

import hashlib
import json
import os

from headway_agent.node.directory import remove_tree
from headway_agent.objects.folder import Missing
from headway_agent.prepare.cache import Cache, bytes_max
from headway_agent.prepare.steps import NotHere, StepFailed
from headway_wire import causes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, TypeVar

    from headway_agent.prepare.steps import Work

    Read = TypeVar("Read")

CACHE_BYTES_MAX = 20 << 30  # Of whole bundles, and of single large files that many of them have.
PART_OF_DISK = 0.1
SMALL_BYTES = 64 << 10  # Smaller files are not kept one by one: bundles that share them fetch them again.
MODE_MASK = 0o777


def unpack(work: Work) -> None:
    """Put the bundle into the task's fresh working directory, and let the command run in its `subdir`."""
    digest, subdir = work.asked.bundle, work.asked.subdir
    root = work.place
    if digest:
        try:
            _unpack(work, digest, root)
        except Missing as missing:
            raise StepFailed(causes.BUNDLE_MISSING, f"{missing}, which belongs to the job's bundle") from None
        except OSError as error:
            raise NotHere(f"the bundle could not be unpacked: {error}") from None
    elif not root:
        return
    work.prepared.cwd = os.path.join(root, inner(subdir)) if subdir else root
    if not os.path.isdir(work.prepared.cwd):
        raise StepFailed(causes.BUNDLE_MISSING, f'the bundle has no directory "{subdir}"')


def _unpack(work: Work, digest: str, root: str) -> None:
    remove_tree(root)  # A claim that is made again begins anew.
    if work.site.objects.nearby:
        _fill(work, digest, root)
        return
    kept, _ = _cache(work, "bundles").get(digest, work.directory, lambda draft: _fill(work, digest, draft))
    _copy_tree(work, kept, root)


def _fill(work: Work, digest: str, root: str) -> None:
    entries = _twice(lambda: manifest(digest, work.site.objects.read(f"bundles/{digest}.json")))
    work.site.objects.expect([f"bundles/files/{entry['sha256']}" for entry in entries if "sha256" in entry])
    os.mkdir(root, 0o700)
    made = {""}
    for entry in entries:
        work.check()
        path = inner(entry["path"])
        _make_folders(root, os.path.dirname(path), made)
        target = os.path.join(root, path)
        if "link" in entry:
            os.symlink(_inner_link(path, entry["link"]), target)
        else:
            _put(work, entry, target)


def _twice(read: Callable[[], Read]) -> Read:
    """What is not what its name says may have been damaged on its way: it is read once more."""
    try:
        return read()
    except StepFailed as failed:
        if failed.cause != "bundle_missing":
            raise
        return read()


def manifest(digest: str, content: bytes) -> list[Mapping[str, Any]]:
    """The bundle's entries, if they are what the digest names."""
    try:
        told = json.loads(content)
        entries = told["files"] if isinstance(told, dict) else told
        said = json.dumps(entries, sort_keys=True, separators=(",", ":"))
        paths = [entry["path"] for entry in entries]
    except (ValueError, KeyError, TypeError):
        raise StepFailed(causes.BUNDLE_MISSING, f"the list of bundle {digest[:12]} cannot be read") from None
    if hashlib.sha256(said.encode()).hexdigest() != digest or paths != sorted(set(paths)):
        raise StepFailed(causes.BUNDLE_MISSING, f"the list of bundle {digest[:12]} is not what its name says")
    return list(entries)


def inner(path: str) -> str:
    """The path, if it stays inside the tree."""
    parts = path.rstrip("/").split("/")
    if path.startswith("/") or any(part in ("", "..", ".") for part in parts) or "\0" in path or "\n" in path:
        raise StepFailed(causes.BUNDLE_MISSING, f"the bundle names {path!r}, which is not a path inside it")
    return "/".join(parts)


def _inner_link(path: str, link: str) -> str:
    where = os.path.normpath(os.path.join(os.path.dirname(path), link))
    if link.startswith("/") or not link or where == ".." or where.startswith("../") or "\0" in link:
        raise StepFailed(causes.BUNDLE_MISSING, f"the bundle's link {path!r} leads outside of it, to {link!r}")
    return link


def _make_folders(root: str, folder: str, made: set[str]) -> None:
    """Make each folder ourselves: none of them may be a link that an earlier entry has put there."""
    if folder in made:
        return
    _make_folders(root, os.path.dirname(folder), made)
    try:
        os.mkdir(os.path.join(root, folder), 0o777)
    except FileExistsError:
        raise StepFailed(causes.BUNDLE_MISSING, f"the bundle has {folder!r} both as a file and as a folder") from None
    made.add(folder)


def _put(work: Work, entry: Mapping[str, Any], target: str) -> None:
    sha256, mode = str(entry["sha256"]), int(entry["mode"]) & MODE_MASK
    key = f"bundles/files/{sha256}"
    if work.site.objects.nearby or int(entry["size"]) < SMALL_BYTES:
        _copy(work, key, target, sha256)
    else:
        cached, _ = _cache(work, "files").get(sha256, work.directory, lambda path: _copy(work, key, path, sha256))
        _duplicate(cached, target)
    os.chmod(target, mode | 0o600)


def _cache(work: Work, name: str) -> Cache:
    root = os.path.join(work.site.cache_dir, name)
    return Cache(root, bytes_max(work.site.environ, name.upper(), CACHE_BYTES_MAX, PART_OF_DISK, root))


def _copy(work: Work, key: str, target: str, sha256: str) -> None:
    """Write an object into a file. What does not have the hash that names it is not used."""
    _twice(lambda: _copy_once(work, key, target, sha256))


def _copy_once(work: Work, key: str, target: str, sha256: str) -> None:
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(target, flags, 0o666), "wb") as file:
        for piece in work.site.objects.pieces(key, work.check):
            digest.update(piece)
            file.write(piece)
    if digest.hexdigest() != sha256:
        raise StepFailed(causes.BUNDLE_MISSING, f"{key} in storage has another content than its name says")


def _copy_tree(work: Work, source: str, target: str) -> None:
    os.mkdir(target, 0o700)
    with os.scandir(source) as entries:
        for entry in entries:
            work.check()
            place = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)
            elif entry.is_dir():
                _copy_tree(work, entry.path, place)
            else:
                _duplicate(entry.path, place)
                os.chmod(place, entry.stat().st_mode & MODE_MASK)


def _duplicate(source: str, target: str) -> None:
    """A copy, not a hard link: a rank may write into its own files, and must not write into everybody's."""
    with open(source, "rb") as reader, open(target, "xb") as writer:
        size = os.fstat(reader.fileno()).st_size
        offset = 0
        while offset < size:
            sent = os.sendfile(writer.fileno(), reader.fileno(), offset, size - offset)
            if not sent:
                break
            offset += sent
