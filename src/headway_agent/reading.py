"""Reading what lies in storage: from the folder itself on the server's own host, else through the server.

Reads only, and in pieces, so that a large object never lies in memory as a whole. How objects are written is in
shipping.py.
"""

from __future__ import annotations

import os
import threading

from headway_agent.wire import Connection, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator

    from headway_agent.wire import Home

PIECE_BYTES = 4 << 20
READ_S_MAX = 120.0


class Missing(Exception):
    """There is no such object."""


class Stored:
    """Storage as a reader sees it. Raises Missing, or OSError where storage cannot be reached."""

    def __init__(self, folder: str, home: Home | None) -> None:
        self._folder, self._home = folder, home
        self._mine = threading.local()  # A connection for each thread, kept from object to object.

    @property
    def nearby(self) -> bool:
        """Whether storage lies on this very machine."""
        return bool(self._folder)

    def read(self, key: str) -> bytes:
        return b"".join(self.pieces(key))

    def pieces(self, key: str, wanted: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """The object from its beginning, piece by piece. `wanted` is asked before each, and may raise."""
        return self._from_folder(key, wanted) if self._folder else self._from_server(key, wanted)

    def _from_folder(self, key: str, wanted: Callable[[], None]) -> Iterator[bytes]:
        try:
            file = open(os.path.join(self._folder, key), "rb")  # noqa: SIM115 - closed below, after the last piece.
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Missing(key) from None
        with file:
            while True:
                wanted()
                piece = file.read(PIECE_BYTES)
                if not piece:
                    return
                yield piece

    def _from_server(self, key: str, wanted: Callable[[], None]) -> Iterator[bytes]:
        assert self._home is not None
        connection: Connection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = Connection(self._home)
        offset = 0
        while True:
            wanted()
            status, piece = _get(connection, key, offset)
            if status == 416:  # Nothing begins there: the object ended with the last piece.
                return
            if piece:
                yield piece
            offset += len(piece)
            if status == 200 or len(piece) < PIECE_BYTES:
                return


def _get(connection: Connection, key: str, offset: int) -> tuple[int, bytes]:
    headers = {"Range": f"bytes={offset}-{offset + PIECE_BYTES - 1}"}
    try:
        status, piece = connection.request("GET", f"/agent/objects/{key}", b"", READ_S_MAX, headers=headers)
    except Unreachable as error:
        raise OSError(f"the server could not be reached: {error}") from None
    if status == 404:
        raise Missing(key)
    if status == 401:
        connection.home.read_token()
    if status not in (200, 206, 416):
        raise OSError(f"the server answered {status} for {key}")
    return status, piece
