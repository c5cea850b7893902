"""The bytes of a visit: frames of one letter, a length and a content, the same in both directions.

A stream of frames can be cut anywhere and says by itself whether it ended whole: its last frame is an exit or an end.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator

HEAD = struct.Struct("!cI")
CONTENT_BYTES_MAX = 1 << 20

DATA = b"d"  # To the node: standard input; from it: standard output.
STDERR = b"e"
END = b"z"  # No more data this way.
SIZE = b"s"  # The terminal's size: "rows columns".
SIGNAL = b"k"  # A signal's number.
EXIT = b"x"  # The command's exit code; nothing follows.
TROUBLE = b"t"  # A sentence; nothing follows.
BEAT = b"b"  # Nothing, so that nobody on the way takes the stream for dead.


def frame(kind: bytes, content: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(content)) + content


def frames(read: Callable[[], bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames of a stream; `read` gives its next bytes, or none at its end. Half a frame is dropped."""
    kept = b""
    while True:
        while len(kept) >= HEAD.size:
            kind, size = HEAD.unpack_from(kept)
            if size > CONTENT_BYTES_MAX:
                raise ValueError(f"a frame of {size} bytes")
            if len(kept) < HEAD.size + size:
                break
            yield kind, kept[HEAD.size : HEAD.size + size]
            kept = kept[HEAD.size + size :]
        more = read()
        if not more:
            return
        kept += more
