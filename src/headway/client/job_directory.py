"""Files of a running job's directory, brought here and sent there: tar streams through a visit, never half a file.

What a job has kept is another matter: artifacts.py. The far end needs sh and tar, as every node that runs jobs has.
"""

from __future__ import annotations

import io
import os
import shlex
import tarfile
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from headway.core.errors import BadInput, Conflict, HeadwayError, NotFound, Unavailable
from headway.features.visits.client import Visit
from headway_wire.frames import DATA, END, EXIT, STDERR, TROUBLE

if TYPE_CHECKING:
    from headway.client.sdk import Client

PIECE_BYTES = 1 << 18
ABSENT, NO_FOLDER, IS_FOLDER = 44, 45, 46
Heard = Callable[[int, int], None]
"""Hears how many bytes have gone, and of how many; 0 where nobody knows."""

OUT = f"""
[ -e "$1" ] || exit {ABSENT}
exec tar -cf - -C "$(dirname -- "$1")" -- "$(basename -- "$1")"
"""
IN = f"""
t=$1; n=$2
case "$t" in */) mkdir -p -- "$t" || exit 1;; esac
if [ -d "$t" ]; then d=$t; f=$n; else d=$(dirname -- "$t"); f=$(basename -- "$t"); fi
[ -d "$d" ] || exit {NO_FOLDER}
w=$(mktemp -d "$d/.headway-cp.XXXXXX") || exit 1
trap 'rm -rf -- "$w"' EXIT
tar -xf - -C "$w" || exit 1
if [ -d "$w/$n" ] && [ -d "$d/$f" ]; then cp -a -- "$w/$n/." "$d/$f/" || exit 1
elif [ -d "$d/$f" ]; then exit {IS_FOLDER}
else mv -f -- "$w/$n" "$d/$f" || exit 1; fi
"""


def copy_out(
    client: Client, job: str, path: str, target: str, rank: int | None = None, heard: Heard = lambda gone, size: None
) -> list[str]:
    """Bring a file or a directory of a running job here, as `cp -r` would; returns where the files lie."""
    name = os.path.basename(os.path.normpath(path))
    into = os.path.isdir(target) or target.endswith(os.sep)
    base = os.path.join(target, name) if into and name not in (".", "..") else target
    visit = _visit(client, job, OUT, [path], rank)
    try:
        visit.send(END)
        stream = _Incoming(visit)
        try:
            with tarfile.open(fileobj=stream, mode="r|", bufsize=PIECE_BYTES) as archive:
                placed = list(_unpacked(archive, base, heard, stream))
        except tarfile.ReadError:
            placed = []  # An archive that never began: the end says why.
        except OSError as error:
            raise BadInput(f"{base} cannot be written: {(error.strerror or str(error)).lower()}") from None
        code, said = stream.ended()
    finally:
        visit.close()
    if code == ABSENT:
        raise NotFound(f'job {visit.job} has no "{path[:200]}" in its directory', f"headway exec {visit.job} -- ls -l")
    if code:
        raise Conflict(f'"{path[:200]}" could not be read there: {said or f"exit code {code}"}')
    return placed


def _unpacked(archive: tarfile.TarFile, base: str, heard: Heard, stream: _Incoming) -> Iterator[str]:
    for member in archive:
        inner = "/".join(member.name.split("/")[1:]) if "/" in member.name else ""
        place = os.path.join(base, inner) if inner else base
        if ".." in member.name.split("/") or member.name.startswith("/"):
            raise BadInput(f"the node names a file {member.name!r}, which would leave the directory")
        if member.isdir():
            os.makedirs(place, exist_ok=True)
        elif member.isreg():
            os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
            part, content = place + ".part", archive.extractfile(member)
            assert content is not None
            with open(part, "wb") as file:
                while piece := content.read(PIECE_BYTES):
                    file.write(piece)
                    heard(stream.taken, member.size if not inner else 0)
            os.chmod(part, member.mode & 0o777)
            os.utime(part, (member.mtime, member.mtime))
            os.replace(part, place)
            yield place
        elif member.issym():
            if os.path.lexists(place):
                os.unlink(place)
            os.symlink(member.linkname, place)
            yield place


def copy_in(
    client: Client, source: str, job: str, path: str, rank: int | None = None, heard: Heard = lambda gone, size: None
) -> None:
    """Send a file or a directory of this machine into the directory of a running job, as `cp -r` would."""
    if not os.path.lexists(source):
        raise BadInput(f'no file "{source[:200]}"')
    name = os.path.basename(os.path.abspath(source))
    visit = _visit(client, job, IN, [path, name], rank)
    try:
        incoming = _Incoming(visit)
        over = threading.Thread(target=incoming.drain, daemon=True)
        over.start()
        size = size_of(source)
        out = _Outgoing(visit, over, lambda gone: heard(gone, size))
        try:
            with tarfile.open(fileobj=out, mode="w|", bufsize=PIECE_BYTES, format=tarfile.PAX_FORMAT) as archive:
                archive.add(source, name)
            visit.send(END)
        except BrokenPipeError:
            pass  # The command there has ended: its code says why.
        except OSError as error:
            raise BadInput(f'"{source[:200]}" cannot be read: {(error.strerror or str(error)).lower()}') from None
        code, said = incoming.ended()
    finally:
        visit.close()
    shown = path[:200]
    if code == NO_FOLDER:
        raise NotFound(f'job {visit.job} has no directory for "{shown}"', f'"{os.path.dirname(shown)}/" makes it')
    if code == IS_FOLDER:
        raise Conflict(f'"{shown}" is a directory there, and "{source[:200]}" is a file')
    if code:
        raise Conflict(f'"{shown}" could not be written there: {said or f"exit code {code}"}')


def size_of(source: str) -> int:
    """How many bytes a file has, or all files of a directory."""
    if not os.path.isdir(source) or os.path.islink(source):
        return os.lstat(source).st_size
    inner = (os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names)
    return sum(os.lstat(each).st_size for each in inner)


def _visit(client: Client, job: str, script: str, words: list[str], rank: int | None) -> Visit:
    # Its first words are what the job's events and the audit log show of it.
    told = f": headway cp {'from' if script is OUT else 'to'} {shlex.quote(words[0])}\n"
    asked = {"command": ["sh", "-c", told + script, "headway-cp", *words]}
    return Visit(client.link.another(), job, asked | ({"rank": rank} if rank is not None else {}))


class _Incoming(io.RawIOBase):
    """What the command there writes, as a file; at its end, its exit code and what it complained of."""

    def __init__(self, visit: Visit) -> None:
        self._frames, self._kept = visit.frames(), b""
        self._code: int | None = None
        self._said = b""
        self._error: HeadwayError | None = None
        self._lock = threading.Lock()
        self.taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._kept and self._code is None:
            self._take()
        given, self._kept = (self._kept, b"") if size < 0 else (self._kept[:size], self._kept[size:])
        self.taken += len(given)
        return given

    def drain(self) -> None:
        """Read on to the end; what goes wrong is told by `ended`."""
        with self._lock:
            try:
                while self._code is None:
                    self._take()
            except HeadwayError as error:
                self._error = error

    def ended(self) -> tuple[int, str]:
        """How the command ended, and the last that it said."""
        self.drain()
        if self._error is not None:
            raise self._error
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return self._code or 0, lines[-1] if lines else ""

    def _take(self) -> None:
        for kind, content in self._frames:
            if kind == DATA:
                self._kept += content
                return
            if kind == STDERR:
                self._said = (self._said + content)[-PIECE_BYTES:]
            elif kind == EXIT:
                self._code = int(content)
                return
            elif kind == TROUBLE:
                self._code = 1
                raise Conflict(content.decode("utf-8", "replace"))
        self._code = 1  # The stream is over, and nothing was said.
        raise Unavailable("the connection to the job broke off", "the job itself goes on; try again")


class _Outgoing(io.RawIOBase):
    """A file that is the input of the command there; it breaks when the command has ended."""

    def __init__(self, visit: Visit, over: threading.Thread, heard: Callable[[int], None]) -> None:
        self._visit, self._over, self._heard = visit, over, heard
        self._gone = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self._over.is_alive():
            raise BrokenPipeError
        self._visit.send(DATA, bytes(data))
        self._gone += len(data)
        self._heard(self._gone)
        return len(data)
