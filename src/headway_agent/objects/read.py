"""Reading what lies in storage, piece by piece, so that a large object never lies in memory as a whole.

Whether the folder of this very host or storage elsewhere is read, folder.py and remote.py know.
"""

from __future__ import annotations

from headway_agent.objects.folder import StoreFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, Sequence

    from headway_agent.objects.folder import Objects

PIECE_BYTES = 4 << 20


class Stored:
    """Storage as a reader sees it, wherever it is by now. Raises Missing, or OSError where it cannot be reached."""

    def __init__(self, objects: Callable[[], Objects]) -> None:
        self._objects = objects

    @property
    def nearby(self) -> bool:
        """Whether storage lies on this very machine."""
        return self._objects().nearby

    def expect(self, keys: Sequence[str]) -> None:
        """These will be read one after the other."""
        self._objects().expect(keys)

    def read(self, key: str) -> bytes:
        return b"".join(self.pieces(key))

    def pieces(self, key: str, wanted: Callable[[], None] = lambda: None) -> Iterator[bytes]:
        """The object from its beginning, piece by piece. `wanted` is asked before each, and may raise."""
        objects, offset, piece = self._objects(), 0, b""
        while not offset or len(piece) == PIECE_BYTES:
            wanted()
            try:
                piece = objects.read_some(key, offset, PIECE_BYTES)
            except StoreFailed as problem:
                raise OSError(str(problem)) from None
            if not piece:
                return
            yield piece
            offset += len(piece)
