"""Putting a checkpoint back: every part is checked by its hash, and the directory appears as a whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field

from headway_agent.checkpoints.completeness import STRENGTH
from headway_agent.files.parts import signature_of
from headway_agent.node.directory import remove_tree, write_all
from headway_agent.objects.folder import Missing
from headway_wire.manifest_seal import is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Sequence

    from headway_agent.objects.folder import Objects

READ_BYTES_MAX = 16 << 20
READ_TRIES = 3


class Bad(Exception):
    """The checkpoint is not what its manifest says, or its manifest is not a manifest."""

    key = ""  # Of the manifest.


@dataclass
class Restored:
    manifest: dict[str, Any]
    others: list[dict[str, Any]] = field(default_factory=list)  # The manifests of other tasks,
    theirs: set[str] = field(default_factory=set)  # and what was taken from them, by path.


def restore(
    objects: Objects, key: str, directory: str, check: Callable[[], None], others: Sequence[str] = ()
) -> Restored:
    """Fill the directory, which must be empty, from the share with this manifest, and from the others what it lacks.

    `check` is asked before each file, and raises when nobody wants it any more.
    """
    restored = Restored(_known(objects, key), [_known(objects, other) for other in others])
    fresh = f"{directory}.restoring"
    remove_tree(fresh)
    os.makedirs(fresh, mode=0o700)
    taken = TakenFiles()
    try:
        for of, manifest in zip((key, *others), (restored.manifest, *restored.others)):
            for file in manifest["files"]:
                if taken.may_have(file["path"]):
                    check()
                    _restore_file(objects, file, fresh, of)
                    if manifest is not restored.manifest:
                        restored.theirs.add(file["path"])
        remove_tree(directory)
        os.rename(fresh, directory)
    except BaseException:
        remove_tree(fresh)
        raise
    return restored


class TakenFiles:
    """The paths that there are: of what several tasks have under one name, each gets its own."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def may_have(self, path: str) -> bool:
        """Take up this path, unless it is there, or a file and a folder would have to stand under one name."""
        parts = path.split("/")
        above = {"/".join(parts[:number]) for number in range(1, len(parts))}
        if path in self._files or path in self._folders or above & self._files:
            return False
        self._files.add(path)
        self._folders |= above
        return True


def _known(objects: Objects, key: str) -> dict[str, Any]:
    try:
        return read_manifest(objects, key)
    except Bad as problem:
        problem.key = key
        raise


def read_manifest(objects: Objects, key: str) -> dict[str, Any]:
    """The manifest with this key. What is not whole is read again, as with parts."""
    for number in range(READ_TRIES):
        try:
            return _read_manifest(objects, key)
        except Bad:
            if number == READ_TRIES - 1:
                raise
    raise AssertionError("not reached")


def _read_manifest(objects: Objects, key: str) -> dict[str, Any]:
    try:
        content = objects.read_all(key)
        if not is_whole(content):
            raise ValueError("it is not what was stored")
        manifest = json.loads(content)
        if manifest["version"] != 1 or manifest["how"] not in STRENGTH:
            raise ValueError("unknown version")
        for file in manifest["files"]:
            if not _inside(file["path"]) or sum(part["size"] for part in file["parts"]) != file["size"]:
                raise ValueError(f"bad entry {file['path']!r}")
    except Missing as problem:
        raise Bad(str(problem)) from None
    except (ValueError, KeyError, TypeError) as problem:
        raise Bad(f"{key} is not a manifest: {problem}") from None
    return dict(manifest)


def _inside(path: str) -> bool:
    return bool(path) and not any(part in ("", ".", "..") for part in path.split("/")) and "\0" not in path


def _restore_file(objects: Objects, file: Mapping[str, Any], directory: str, key: str) -> None:
    path = os.path.join(directory, file["path"])
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if "link" in file:
        os.symlink(file["link"], path)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        for run in runs(file["parts"]):
            content = _checked(objects, file["path"], run)
            write_all(fd, content)
        os.fchmod(fd, stat.S_IMODE(int(file.get("mode", 0o600))))
    except Bad as problem:
        problem.key = key
        raise
    finally:
        os.close(fd)
    if "mtime_ns" in file:
        os.utime(path, ns=(int(file["mtime_ns"]), int(file["mtime_ns"])))


def _checked(objects: Objects, path: str, run: list[dict[str, Any]]) -> bytes:
    """The bytes of a run of parts. What has the wrong hash is read again: it may have been damaged on the way only."""
    import hashlib

    wrong, missing = None, ""
    for _ in range(READ_TRIES):
        try:
            content = objects.read(run[0]["key"], run[0]["offset"], run[-1]["offset"] + run[-1]["size"])
        except Missing as problem:
            missing = str(problem)  # Perhaps only half of it came: a checkpoint is not set aside for one such answer.
            continue
        position, wrong, missing = 0, None, ""
        for part in run:
            piece = memoryview(content)[position : position + part["size"]]
            position += part["size"]
            if hashlib.sha256(piece).hexdigest() != part["sha256"]:
                wrong = part
                break
        if wrong is None:
            return content
    if missing or wrong is None:
        raise Bad(missing)
    raise Bad(f"{path}: the bytes at {wrong['offset']} of {wrong['key']} are not what was stored")


def runs(parts: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Parts that lie one after the other in the same object, to be read together."""
    found: list[list[dict[str, Any]]] = []
    size = 0
    for part in parts:
        last = found[-1][-1] if found else None
        adjoins = last and last["key"] == part["key"] and last["offset"] + last["size"] == part["offset"]
        if adjoins and size + part["size"] <= READ_BYTES_MAX:
            found[-1].append(part)
            size += part["size"]
        else:
            found.append([part])
            size = part["size"]
    return found


def look(directory: str, troubles: list[str] | None = None) -> dict[str, tuple[int, int, int]]:
    """All files below a directory, by relative path, with their signatures. What cannot be kept is left out."""
    found: dict[str, tuple[int, int, int]] = {}
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            with os.scandir(os.path.join(directory, above)) as entries:
                names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            continue  # Removed while we looked.
        for name, is_directory in names:
            path = f"{above}/{name}" if above else name
            if is_directory:
                waiting.append(path)
                continue
            try:
                seen = os.lstat(os.path.join(directory, path))
                problem = unkeepable(directory, path, seen)
            except OSError:
                continue  # This one was removed; those beside it are still there.
            if not problem:
                found[path] = signature_of(seen)
            elif troubles is not None:
                troubles.append(problem)
    return found


def unkeepable(directory: str, path: str, seen: os.stat_result) -> str:
    """Why this entry is not kept; empty when it can be."""
    if "\n" in path or "\r" in path:
        return f"{path!r}: a name with a line break"
    try:
        path.encode()
    except UnicodeEncodeError:
        return f"{path!r}: a name that is not UTF-8"
    if stat.S_ISREG(seen.st_mode):
        return ""
    if not stat.S_ISLNK(seen.st_mode):
        return f"{path}: neither a file nor a directory"
    top = os.path.realpath(directory)
    target = os.path.realpath(os.path.join(directory, path))
    if os.path.isabs(os.readlink(os.path.join(directory, path))) or not (target + "/").startswith(top + "/"):
        return f"{path}: a link that leaves the directory"
    return ""
