"""Where large objects go and come from: the storage folder of this very host, or storage elsewhere (remote.py).

An object is written as a draft, piece by piece, and exists under its key only once it is finished. In the folder it is
then as durable as the server's own writes (storage/folder.py): synced, renamed, its directory synced by `settle`.
Large pieces go past the page cache (direct_io.py).
"""

from __future__ import annotations

import os
import threading

from headway_agent.node.directory import sync_directory
from headway_agent.objects import direct_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, Sequence, Union

    Piece = Union[bytes, memoryview]

    class Draft(Protocol):
        def write(self, piece: Piece) -> None: ...
        def finish(self, key: str) -> None: ...
        def drop(self) -> None: ...

    class Objects(Protocol):
        object_bytes_max: int
        artifact_bytes_max: int
        chunk_bytes: int
        in_flight: int
        nearby: bool
        mark: str  # Of the storage place that it is; see decide/storage_moved.py.

        def draft(self) -> Draft: ...
        def settle(self) -> None: ...
        def read(self, key: str, start: int, end: int) -> bytes: ...
        def read_some(self, key: str, start: int, count: int) -> bytes: ...
        def read_all(self, key: str) -> bytes: ...
        def expect(self, keys: Sequence[str]) -> None: ...
        def put_chunk(self, key: str, content: bytes | bytearray, sha256: str) -> None: ...
        def join(self, key: str, chunks: Sequence[str], size: int, sha256: str) -> None: ...


DRAFTS = ".drafts"
ID = "storage-id"  # The object by which a storage place is known again.


class StoreFailed(Exception):
    """The object could not be stored or fetched now. Trying again later may help."""


class StoreRefused(StoreFailed):
    """The server will not take it: this attempt is over for it."""


class NotJoined(StoreFailed):
    """Something is wrong with the chunks of a large object: all of them are to be sent anew."""


class Missing(Exception):
    """There is no such object, or it is shorter than it must be."""


class Folder:
    """The storage folder of this host."""

    object_bytes_max = 64 << 20
    artifact_bytes_max = 4 << 30
    chunk_bytes = 4 << 30  # Files are copied whole.
    in_flight = 1  # The disk is one.
    nearby = True

    def __init__(self, path: str, mark: str = "", copy: str = "") -> None:
        self.path, self.mark, self._copy = path, mark, copy
        self._number = 0
        self._unsettled: set[str] = set()
        self._lock = threading.Lock()
        self._cache_avoided: bool | None = None  # Nobody has asked yet.

    def is_cache_avoided(self) -> bool:
        if self._cache_avoided is None:
            self._cache_avoided = direct_io.is_avoidable(self.path)
        return self._cache_avoided

    def check(self) -> None:
        """Raise StoreFailed when another folder stands in the place of this one: its disk may not be mounted."""
        if self._copy and not is_copy(self.path, self.mark, self._copy):
            raise StoreFailed(f"the storage folder {self.path}: another folder stands in its place; is it mounted?")

    def draft(self) -> FolderDraft:
        self.check()
        with self._lock:
            self._number += 1
            name = f"{DRAFTS}/agent-{os.getpid()}-{id(self)}-{self._number}"
        return FolderDraft(self, os.path.join(self.path, name))

    def place(self, key: str) -> str:
        """The file of a key, with its directory made so that it outlives a power cut."""
        path = os.path.join(self.path, key)
        directory = os.path.dirname(path)
        with self._lock:
            if directory not in self._unsettled:
                make_dir(directory)
                self._unsettled.add(directory)
        return path

    def put(self, key: str, content: bytes) -> None:
        """Store a small object whole and durably, whatever other threads have under way."""
        draft = self.draft()
        draft.write(content)
        draft.finish(key)
        try:
            sync_directory(os.path.dirname(os.path.join(self.path, key)))
        except OSError as error:
            raise StoreFailed(_sentence(self.path, error)) from None
        self.check()  # Once more: what is told of as stored is where the server will look for it.

    def put_chunk(self, key: str, content: bytes | bytearray, sha256: str) -> None:
        raise AssertionError("no chunks where files are copied whole")

    def join(self, key: str, chunks: Sequence[str], size: int, sha256: str) -> None:
        raise AssertionError("no chunks where files are copied whole")

    def settle(self) -> None:
        """Make the names of all finished objects durable."""
        with self._lock:
            directories, self._unsettled = self._unsettled, set()
        try:
            self.check()
            for directory in directories:
                sync_directory(directory)
        except (StoreFailed, OSError) as error:
            with self._lock:
                self._unsettled |= directories  # The objects are there: the next try sends none, and syncs these.
            raise error if isinstance(error, StoreFailed) else StoreFailed(_sentence(self.path, error)) from None

    def expect(self, keys: Sequence[str]) -> None:
        pass  # What is here needs no address.

    def read(self, key: str, start: int, end: int) -> bytes:
        content = self.read_some(key, start, end - start)
        if len(content) < end - start:
            raise Missing(f"{key} has {start + len(content)} bytes, not {end}")
        return content

    def read_some(self, key: str, start: int, count: int | None) -> bytes:
        """Up to so many bytes, or all; none at the object's end."""
        try:
            with open(os.path.join(self.path, key), "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                left = max(0, size - start)
                return _read_at(file.fileno(), start, left if count is None else min(count, left))
        except OSError as error:
            raise self._not_read(key, error) from None

    def read_all(self, key: str) -> bytes:
        return self.read_some(key, 0, None)

    def _not_read(self, key: str, error: OSError) -> Exception:
        """Only what this very folder has not is missing. A disk that fails, or is not there, says nothing of it."""
        if not isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
            return StoreFailed(_sentence(self.path, error))
        self.check()
        return Missing(f"storage has no object {key}")


def is_copy(path: str, mark: str, copy: str) -> bool:
    """Whether a folder is the very place that the server calls by this mark: its id, and the inode that holds it."""
    try:
        with open(os.path.join(path, ID), "rb") as file:
            found = (file.read(200).decode("ascii", "replace").strip(), str(os.fstat(file.fileno()).st_ino))
    except OSError:
        return False
    return found == (mark.rpartition(".")[0], copy)


class FolderDraft:
    def __init__(self, folder: Folder, path: str) -> None:
        self._folder, self._path = folder, path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            try:
                self._fd = os.open(path, flags, 0o600)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreFailed(_sentence(folder.path, error)) from None

    def write(self, piece: Piece) -> None:
        view = memoryview(piece)
        try:
            if len(view) >= direct_io.BYTES_MIN and self._folder.is_cache_avoided():
                view = direct_io.write(self._fd, view)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.drop()
            raise StoreFailed(_sentence(self._folder.path, error)) from None

    def finish(self, key: str) -> None:
        try:
            os.fsync(self._fd)
            os.replace(self._path, self._folder.place(key))
        except OSError as error:
            self.drop()
            raise StoreFailed(_sentence(self._folder.path, error)) from None
        os.close(self._fd)
        self._fd = -1

    def drop(self) -> None:
        """Half an object would only take the room that is missing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            try:
                os.unlink(self._path)
            except OSError:
                pass


def make_dir(directory: str) -> None:
    """Make a directory and those above it so that they outlive a power cut."""
    if os.path.isdir(directory):
        return
    above = os.path.dirname(directory)
    make_dir(above)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    sync_directory(above)


def put(objects: Objects, key: str, content: bytes) -> None:
    """Store a small object whole."""
    draft = objects.draft()
    draft.write(content)
    draft.finish(key)
    objects.settle()


def quoted(key: str) -> str:
    """The key as it may stand in a request line."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/"
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in key.encode("utf-8", "surrogateescape"))


def _read_at(fd: int, start: int, count: int) -> bytes:
    content = os.pread(fd, count, start)
    while len(content) < count:
        more = os.pread(fd, count - len(content), start + len(content))
        if not more:
            break
        content += more
    return content


def _sentence(where: str, error: OSError) -> str:
    return f"the storage folder {where}: {(error.strerror or str(error)).lower()}"
