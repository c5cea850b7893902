"""The answer to a request over HTTP/1.1, read from whatever brings its bytes: by length, in chunks, or to the end.

The standard library's client would be half of what a short command costs, and 5 MB of an agent. Every failure is an
OSError, and an answer that ends early is one: what is returned is whole.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, Mapping

LINE_BYTES_MAX = 65_536
HEADERS_MAX = 200
PIECE_BYTES = 1 << 18


class BrokenConnection(ConnectionError):
    """The other side ended early, or said something that is not HTTP."""


class AnswerReader:
    """Reads one answer after the other. `receive` gives up to so many bytes, none at the end."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self._receive = receive
        self._buffer = b""
        self.reusable = True  # Whether another answer may follow.

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers, with names in lower case, of the next answer. (100 is only a promise of one.)"""
        status = 0
        while status < 200:
            version, _, rest = self._line().partition(b" ")
            if not version.startswith(b"HTTP/1."):
                raise BrokenConnection("no HTTP answer" if version else "closed without an answer")
            status, found = _number(rest[:3], 10), self._fields()
        self.reusable = found.get("connection", "").lower() != "close"
        return status, found

    def body(self, status: int, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The body, piece by piece as it comes; a chunk is one piece."""
        if status in (204, 304):
            return
        if headers.get("transfer-encoding", "").lower() == "chunked":
            chunk = self.chunk()
            while chunk:
                yield chunk
                chunk = self.chunk()
        elif "content-length" in headers:
            left = _number(headers["content-length"].encode("latin-1"), 10)
            while left:
                if not self._buffer:
                    self._more()
                piece, self._buffer = self._buffer[:left], self._buffer[left:]
                left -= len(piece)
                yield piece
        else:
            self.reusable = False
            piece, self._buffer = self._buffer, b""
            while True:
                if piece:
                    yield piece
                piece = self._receive(PIECE_BYTES)
                if not piece:
                    return

    def chunk(self) -> bytes:
        """The next chunk of a body that comes in chunks, whole; none after the last."""
        size = _number(self._line().split(b";")[0], 16)
        if not size:
            while self._line():
                pass  # Trailers.
            return b""
        data = self._exactly(size)
        self._line()
        return data

    def _fields(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _ in range(HEADERS_MAX):
            line = self._line()
            if not line:
                return found
            name, _, value = line.decode("latin-1").partition(":")
            found[name.strip().lower()] = value.strip()
        raise BrokenConnection("too many headers")

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            if len(self._buffer) > LINE_BYTES_MAX:
                raise BrokenConnection("a line of the answer has no end")
            self._more()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.rstrip(b"\r")

    def _exactly(self, size: int) -> bytes:
        pieces: list[bytes] = [self._buffer]
        have = len(self._buffer)
        while have < size:
            self._buffer = b""
            self._more()
            pieces.append(self._buffer)
            have += len(self._buffer)
        whole = b"".join(pieces)
        self._buffer = whole[size:]
        return whole[:size]

    def _more(self) -> None:
        data = self._receive(PIECE_BYTES)
        if not data:
            raise BrokenConnection("the answer broke off" if self._buffer else "closed without an answer")
        self._buffer += data


def _number(text: bytes, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        raise BrokenConnection(f"{text[:20]!r} is not a number") from None
    if number < 0:
        raise BrokenConnection(f"{number} is not a size")
    return number
