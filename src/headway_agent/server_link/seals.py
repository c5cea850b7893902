"""Who is who between a node and its server, proven in every call without showing the token.

Both know the token; what travels is an HMAC with it. A request is marked with its method, path, content, the server's
challenge and a number that is never used again; an answer with the number of the request that it answers. So whoever
answers in the server's place, or repeats what it has heard, says nothing that counts. The other end:
api/web/sealed_calls.py.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

BLOCK_BYTES = 64
LARGE_BYTES = 1 << 16
MAC_BYTES = 32
PIECES = "pieces"  # In place of a hash: the content comes as marked pieces, for as long as it takes.
PIECE_BYTES_MAX = 64 << 20
NO_CONTENT = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Unproven(ConnectionError):
    """Whoever answered did not prove to be the server of this node: nothing that it says counts."""


def _bare_sha256() -> Any:
    for name in ("_sha2", "_sha256", "hashlib"):  # The bare modules cost no memory; hashlib brings OpenSSL with it.
        try:
            return importlib.import_module(name).sha256
        except ImportError:
            continue
    raise RuntimeError("this Python has no sha256")


_BARE = _bare_sha256()


def sha256(content: Any = b"") -> Any:
    """A hash that can be added to; for much content by OpenSSL, which is faster, where it is loaded anyway."""
    if len(content) > LARGE_BYTES and "hashlib" in sys.modules:
        return sys.modules["hashlib"].sha256(content)
    return _BARE(content)


class Seal:
    """What marks and checks with one token. Of the token itself only the part that names its bearer is shown."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.name = token.partition(".")[0]
        key = token.encode()
        key = (sha256(key).digest() if len(key) > BLOCK_BYTES else key).ljust(BLOCK_BYTES, b"\0")
        self._inner, self._outer = sha256(bytes(x ^ 0x36 for x in key)), sha256(bytes(x ^ 0x5C for x in key))

    def mark(self, *words: object) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update("\n".join(map(str, words)).encode("utf-8", "surrogatepass"))
        outer.update(inner.digest())
        return bytes(outer.digest())


class Numbers:
    """Numbers for calls: none is ever used twice, by this process or by another that has the same token."""

    def __init__(self) -> None:
        self._life = os.urandom(8).hex()
        self._counted: Iterator[int] = itertools.count(1)

    def next(self) -> str:
        return f"{self._life}-{next(self._counted)}"


class SealedCall:
    """One request, and how its answer is known to be the server's."""

    def __init__(self, seal: Seal, number: str, challenge: str) -> None:
        self._seal, self.number, self._challenge = seal, number, challenge

    def headers(self, method: str, path: str, content: str, part: str = "") -> dict[str, str]:
        """What proves the request. `content` is its hash, or PIECES; `part` the range that it asks for."""
        mark = self._seal.mark("request", method, path, self._challenge, self.number, content, part).hex()
        said = f"Headway {self._seal.name} {self._challenge or '-'} {self.number} {mark}"
        return {"Authorization": said, "Headway-Sha256": content}

    def check(self, status: int, body: bytes, seal: str) -> None:
        """Raise Unproven unless this is the server's answer to this very request."""
        expected = self._seal.mark("answer", self.number, status, sha256(body).hexdigest()).hex()
        if not same(expected.encode(), seal.encode("latin-1")):
            raise Unproven(f"the answer ({status}) is not sealed by the server of this node, and does not count")

    def piece(self, way: str, count: int, data: bytes) -> bytes:
        """The mark of one piece of a content that comes in pieces; the last one is empty."""
        return self._seal.mark(way, self.number, count, sha256(data).hexdigest())


class Pieces:
    """Takes a content apart that came as marked pieces: four bytes of length, a mark, data; an empty one ends it."""

    def __init__(self, call: SealedCall, way: str) -> None:
        self._call, self._way, self._count, self._held = call, way, 0, b""
        self.ended = False

    def take(self, data: bytes) -> list[bytes]:
        """What has become whole with these bytes. Raises Unproven for a piece that is not the server's."""
        self._held += data
        whole = []
        while not self.ended and len(self._held) >= 4 + MAC_BYTES:
            size = int.from_bytes(self._held[:4], "big")
            if size > PIECE_BYTES_MAX:
                raise Unproven("a piece is larger than any piece is")
            end = 4 + MAC_BYTES + size
            if len(self._held) < end:
                break
            piece, mark = self._held[4 + MAC_BYTES : end], self._held[4 : 4 + MAC_BYTES]
            if not same(self._call.piece(self._way, self._count, piece), mark):
                raise Unproven("a piece of an answer is not sealed by the server of this node, and does not count")
            self._held, self._count = self._held[end:], self._count + 1
            self.ended = not piece
            whole.append(piece)
        return [piece for piece in whole if piece]


def packed(call: SealedCall, way: str, count: int, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + call.piece(way, count, data) + data


def same(one: bytes, other: bytes) -> bool:
    from _operator import _compare_digest

    return bool(_compare_digest(one, other))
