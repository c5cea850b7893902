"""The files that a job keeps: which they are, and how they are stored as whole files in plain paths.

An artifact's path is what its rank would call it: from the working directory for what `outputs` names, and from
$HEADWAY_OUTPUT_DIR for what lies there. Where both have a file of one name, the former is kept below `workdir/`.
"""

from __future__ import annotations

import os
import stat
import time

from headway_agent.checkpoints.completeness import ENDED_WELL
from headway_agent.decide.facts_and_acts import UNKEPT, WAIT
from headway_agent.files.parts import Changed, signature_of
from headway_agent.files.restore import look, unkeepable
from headway_agent.files.task_files import ARTIFACT_QUIET_S
from headway_agent.objects import direct_io
from headway_agent.objects.folder import NotJoined
from headway_wire.sync import StoredArtifact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from headway_agent.checkpoints.completeness import Signature
    from headway_agent.files.task_files import TaskFiles
    from headway_agent.files.upload_journal import SentParts
    from headway_agent.objects.folder import Objects

PIECE_BYTES = 4 << 20
NAME_BYTES_MAX, KEY_CHARS_MAX = 255, 480
NAMES_SHOWN_MAX = 3
OF_WORKDIR = "workdir"


def found(charge: TaskFiles, troubles: list[str]) -> dict[str, tuple[str, Signature]]:
    """What there is to keep: by the artifact's path, the file and its signature."""
    files: dict[str, tuple[str, Signature]] = {}
    mine = f"{charge.directory}/output"
    for path, signature in look(mine, troubles).items():
        files[path] = (os.path.join(mine, path), signature)
    for pattern in charge.outputs if charge.cwd else ():
        matching = _matching(charge.cwd, pattern, troubles)
        if not matching and charge.end == ENDED_WELL and not charge.index:
            troubles.append(f"{pattern}: nothing is there")  # Perhaps misspelt: all that it did would be lost silently.
        for path, each in matching.items():
            if not _older_than_the_task(charge, each[1]):
                files[path_beside(files, path, each[0])] = each
    for name in [name for name in files if not _storable(name)]:
        troubles.append(f"{name[:80]!r} {UNKEPT} under this name")
        del files[name]
    return files


def path_beside(files: Mapping[str, tuple[str, Signature]], path: str, file: str) -> str:
    """The path under which a file of the working directory is kept beside these: its own, unless that is another's."""
    while path in files and files[path][0] != file:
        path = f"{OF_WORKDIR}/{path}"
    return path


def _matching(cwd: str, pattern: str, troubles: list[str]) -> dict[str, tuple[str, Signature]]:
    import glob

    clean = os.path.normpath(pattern)
    if os.path.isabs(clean) or clean.startswith(".."):
        troubles.append(f"{pattern}: outside of the working directory")
        return {}
    files: dict[str, tuple[str, Signature]] = {}
    for top in glob.glob(os.path.join(glob.escape(cwd), clean), recursive=True):
        name = os.path.relpath(top, cwd)
        if os.path.isdir(top) and not os.path.islink(top):
            for path, signature in look(top, troubles).items():
                whole = path if name == "." else f"{name}/{path}"
                files[whole] = (os.path.join(top, path), signature)
            continue
        seen = os.lstat(top)
        problem = unkeepable(cwd, name, seen)
        if problem:
            troubles.append(problem)
        else:
            files[name] = (top, signature_of(seen))
    return files


def _older_than_the_task(charge: TaskFiles, signature: Signature) -> bool:
    """Where a job runs in place, what lay there before it began is not its output."""
    if charge.cwd.startswith(charge.directory + "/"):
        return False
    try:
        return signature[1] < os.stat(f"{charge.directory}/progress.json").st_mtime_ns
    except OSError:
        return False


def _storable(name: str) -> bool:
    plain = all(ord(char) >= 32 and char not in "\\\x7f" for char in name)
    return (
        plain and len(name) <= KEY_CHARS_MAX and all(len(part.encode()) <= NAME_BYTES_MAX for part in name.split("/"))
    )


def quiet(signature: Signature, now: float) -> bool:
    return now - signature[1] / 1e9 >= ARTIFACT_QUIET_S


def waiting_sentence(names: list[str], problem: str) -> str:
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return f"outputs {WAIT}: {problem} ({', '.join(names[:NAMES_SHOWN_MAX])}{more})"


def store(
    objects: Objects,
    charge: TaskFiles,
    name: str,
    file: str,
    signature: Signature,
    gets_on: Callable[[int], None] = lambda count: None,
) -> StoredArtifact:
    """Store one file whole and return what the server is told of it. Raises Changed when it was written to.

    `gets_on` is called whenever so many bytes of it more are stored.
    """
    import hashlib

    top = f"jobs/{charge.job}/{charge.attempt}/output/" + (f"task-{charge.index}/" if charge.index else "")
    path = name if not charge.index else f"task-{charge.index}/{name}"
    digest = hashlib.sha256()
    size = 0
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Changed(f"{name}: {error.strerror}") from None
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Changed(f"{name} is not a file any more")
        total = before.st_size
        several = total > objects.artifact_bytes_max
        source = _Source(name, fd, signature_of(before), digest, gets_on)
        keys: list[str] = []
        while size < total or not keys:
            key = f"{top}{name}.part-{len(keys) + 1:04d}" if several else top + name
            size += _store_piece(objects, charge.sent, key, source, min(objects.artifact_bytes_max, total - size))
            keys.append(key)
    finally:
        os.close(fd)
    return StoredArtifact(charge.key, path, tuple(keys), size, digest.hexdigest(), time.time(), objects.mark)


class _Source:
    """The open file from which is stored. What was stored of it before stays in place until it is read unchanged."""

    def __init__(self, name: str, fd: int, before: Signature, digest: Any, gets_on: Callable[[int], None]) -> None:
        self.fd, self.digest, self.gets_on = fd, digest, gets_on
        self._name, self._before = name, before

    def check(self, have: int, want: int) -> None:
        if have != want or signature_of(os.fstat(self.fd)) != self._before:
            raise Changed(f"{self._name} was changed")


def _store_chunks(objects: Objects, sent: SentParts, key: str, source: _Source, want: int) -> int:
    """Store a large file piece by piece. Cut off, it goes on with the first chunk that has not arrived.

    So does an agent that comes after this one: what has arrived is noted in the task's directory.
    """
    import hashlib

    job, attempt, path = key.split("/", 3)[1:]
    name = hashlib.sha256(path.encode()).hexdigest()[:16]
    chunks: list[str] = []
    have, whole = 0, hashlib.sha256()
    while have < want:
        content = os.read(source.fd, min(objects.chunk_bytes, want - have))
        if not content:
            break
        source.digest.update(content)
        whole.update(content)
        chunks.append(f"jobs/{job}/{attempt}/parts/output-{name}.{len(chunks)}")
        sha256 = hashlib.sha256(content).hexdigest()
        if not sent.has_chunk(objects.mark, chunks[-1], sha256):
            objects.put_chunk(chunks[-1], content, sha256)
            sent.chunk_stored(objects.mark, chunks[-1], sha256)
        source.gets_on(len(content))
        have += len(content)
    source.check(have, want)
    try:
        objects.join(key, chunks, have, whole.hexdigest())
    except NotJoined:
        sent.drop_chunks(chunks)
        raise
    sent.drop_chunks(chunks)
    return have


def _store_piece(objects: Objects, sent: SentParts, key: str, source: _Source, want: int) -> int:
    if want > objects.chunk_bytes:
        return _store_chunks(objects, sent, key, source, want)
    draft = objects.draft()
    room = memoryview(direct_io.buffer(min(PIECE_BYTES, max(want, 1))))
    have = 0
    try:
        while have < want:
            count = os.readv(source.fd, [room[: want - have]])
            if not count:
                break
            source.digest.update(room[:count])
            draft.write(room[:count])
            source.gets_on(count)
            have += count
        source.check(have, want)
        draft.finish(key)
    except BaseException:
        draft.drop()
        raise
    return have
