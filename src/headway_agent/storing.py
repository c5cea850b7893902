"""Where large objects go and come from: the storage folder of this very host, or the server, which passes them on.

An object is written as a draft, piece by piece, and exists under its key only once it is finished. In the folder it is
then as durable as the server's own writes (storage/folder.py): synced, renamed, its directory synced by `settle`.
"""

from __future__ import annotations

import os
import threading
import time

from headway_agent.wire import Connection, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Protocol, Union

    from headway_agent.wire import Home

    Piece = Union[bytes, memoryview]

    class Draft(Protocol):
        def write(self, piece: Piece) -> None: ...
        def finish(self, key: str) -> None: ...
        def drop(self) -> None: ...

    class Objects(Protocol):
        object_bytes_max: int
        artifact_bytes_max: int

        def draft(self) -> Draft: ...
        def settle(self) -> None: ...
        def read(self, key: str, start: int, end: int) -> bytes: ...
        def read_all(self, key: str) -> bytes: ...


DRAFTS = ".drafts"
TRIES = 4
PAUSE_S = (0.2, 1.0, 3.0)
PUT_S_MAX = 300.0


class StoreFailed(Exception):
    """The object could not be stored or fetched now. Trying again later may help."""


class StoreRefused(StoreFailed):
    """The server will not take it: this attempt is over for it."""


class Missing(Exception):
    """There is no such object, or it is shorter than it must be."""


class Folder:
    """The storage folder of this host."""

    object_bytes_max = 64 << 20
    artifact_bytes_max = 4 << 30

    def __init__(self, path: str) -> None:
        self.path = path
        self._number = 0
        self._unsettled: set[str] = set()
        self._lock = threading.Lock()

    def draft(self) -> FolderDraft:
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
                self._make(directory)
                self._unsettled.add(directory)
        return path

    def _make(self, directory: str) -> None:
        if os.path.isdir(directory):
            return
        above = os.path.dirname(directory)
        self._make(above)
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass
        _sync(above)

    def settle(self) -> None:
        """Make the names of all finished objects durable."""
        with self._lock:
            directories, self._unsettled = self._unsettled, set()
        try:
            for directory in directories:
                _sync(directory)
        except OSError as error:
            raise StoreFailed(_sentence(self.path, error)) from None

    def read(self, key: str, start: int, end: int) -> bytes:
        try:
            with open(os.path.join(self.path, key), "rb", buffering=0) as file:
                content = bytearray(end - start)
                have = _read_into(file.fileno(), memoryview(content), start)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Missing(f"storage has no object {key}") from None
        except OSError as error:
            raise StoreFailed(_sentence(self.path, error)) from None
        if have < end - start:
            raise Missing(f"{key} has {start + have} bytes, not {end}")
        return bytes(content)

    def read_all(self, key: str) -> bytes:
        try:
            size = os.stat(os.path.join(self.path, key)).st_size
        except OSError:
            raise Missing(f"storage has no object {key}") from None
        return self.read(key, 0, size)


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


class ThroughServer:
    """Objects go to the server, which has the storage."""

    object_bytes_max = 16 << 20  # One is held in memory while it travels.
    artifact_bytes_max = 48 << 20  # Below what the server takes as one object.

    def __init__(self, home: Home, pause: Callable[[float], None] = time.sleep) -> None:
        self._home = home
        self._idle: list[Connection] = []
        self._pause = pause

    def draft(self) -> ServerDraft:
        return ServerDraft(self)

    def put(self, key: str, content: bytes | bytearray) -> None:
        self._ask("PUT", key, content, {})

    def settle(self) -> None:
        pass  # The server answers only when an object is durable.

    def read(self, key: str, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        status, content = self._ask("GET", key, b"", {"Range": f"bytes={start}-{end - 1}"})
        if status != 206:
            content = content[start:end]  # A server that knows no ranges sends the whole.
        if len(content) != end - start:
            raise Missing(f"{key} has no {end - start} bytes from {start} on")
        return content

    def read_all(self, key: str) -> bytes:
        return self._ask("GET", key, b"", {})[1]

    def _ask(self, method: str, key: str, content: bytes | bytearray, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = self._idle.pop() if self._idle else Connection(self._home)
        problem = ""
        for number in range(TRIES):
            if number:
                self._pause(PAUSE_S[min(number, len(PAUSE_S)) - 1])
            path = f"/agent/objects/{quoted(key)}"
            try:
                status, answer = connection.request(method, path, content, PUT_S_MAX, headers=headers)
            except Unreachable as error:
                problem = str(error)
                continue
            if status < 300:
                self._idle.append(connection)
                return status, answer
            if status in (404, 416):
                raise Missing(f"storage has no object {key}")
            if status in (403, 409, 410, 413):
                raise StoreRefused(f"the server refused {key} ({status})")
            if status == 401:
                self._home.read_token()
            problem = f"the server answered {status}"
        raise StoreFailed(f"{key}: {problem}")


class ServerDraft:
    def __init__(self, server: ThroughServer) -> None:
        self._server = server
        self._content = bytearray()

    def write(self, piece: Piece) -> None:
        self._content += piece

    def finish(self, key: str) -> None:
        self._server.put(key, self._content)
        self.drop()

    def drop(self) -> None:
        self._content = bytearray()


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


def _read_into(fd: int, view: memoryview, start: int) -> int:
    have = 0
    while have < len(view):
        count = os.preadv(fd, [view[have:]], start + have)
        if not count:
            break
        have += count
    return have


def _sync(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sentence(where: str, error: OSError) -> str:
    return f"the storage folder {where}: {(error.strerror or str(error)).lower()}"
