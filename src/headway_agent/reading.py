"""Reading what lies in storage: from the folder itself on the server's own host, else by signed addresses.

Reads only, and in pieces, so that a large object never lies in memory as a whole. How objects are written is in
remote.py and storing.py.
"""

from __future__ import annotations

import os

from headway_agent import storing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, Sequence

    from headway_agent.remote import Remote

PIECE_BYTES = 4 << 20


class Missing(Exception):
    """There is no such object."""


class Stored:
    """Storage as a reader sees it. Raises Missing, or OSError where storage cannot be reached."""

    def __init__(self, folder: str, remote: Remote | None) -> None:
        self._folder, self._remote = folder, remote

    @property
    def nearby(self) -> bool:
        """Whether storage lies on this very machine."""
        return bool(self._folder)

    def expect(self, keys: Sequence[str]) -> None:
        """These will be read one after the other."""
        if self._remote is not None:
            self._remote.links.expect("GET", keys)

    def read(self, key: str) -> bytes:
        return b"".join(self.pieces(key))

    def pieces(self, key: str, wanted: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """The object from its beginning, piece by piece. `wanted` is asked before each, and may raise."""
        return self._from_folder(key, wanted) if self._folder else self._from_afar(key, wanted)

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

    def _from_afar(self, key: str, wanted: Callable[[], None]) -> Iterator[bytes]:
        assert self._remote is not None
        offset = 0
        while True:
            wanted()
            try:
                piece = self._remote.read_some(key, offset, PIECE_BYTES)
            except storing.Missing:
                raise Missing(key) from None
            except storing.StoreFailed as problem:
                raise OSError(str(problem)) from None
            if piece:
                yield piece
            offset += len(piece)
            if len(piece) < PIECE_BYTES:
                return
