"""Calls of nodes that prove themselves, and answers that prove the server: headway_agent/server_link/seals.py is the
other end.

A request is good once: it names this server's challenge, which is another after each start, and a number that this
server has not heard before. What is answered is sealed with the node's token and the request's number.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from headway.api.content import problems
from headway.core.access.actor import Actor
from headway.core.access.tokens import NODE, Signer, kind_and_name
from headway.core.errors import BadInput
from headway.storage.protocol import WrongContent

SCHEME = b"Headway "
HELLO = "/agent/hello"
CHALLENGE = "challenge"
STALE_TOKEN = "stale_token"  # In a request's state: its token is of an older key.
PIECES = "pieces"
MAC_BYTES = 32
PIECE_BYTES_MAX = 64 << 20
WINDOW = 4096  # So far may calls overtake each other.
LIVES_MOST = 50_000
NONE = "-"
WITHOUT_CONTENT = (204, 304)


class Heard:
    """Numbers that were heard, of each life of an agent; old lives are forgotten by taking another challenge."""

    def __init__(self) -> None:
        self.challenge = secrets.token_hex(16)
        self._lives: dict[tuple[str, str], tuple[int, int]] = {}

    def is_new(self, name: str, number: str) -> bool:
        """Whether this number comes for the first time; it is noted."""
        life, _, text = number.partition("-")
        if not (text.isdecimal() and text.isascii() and len(text) < 16 and len(life) <= 64):
            return False
        count = int(text)
        if len(self._lives) >= LIVES_MOST:
            self.challenge, self._lives = secrets.token_hex(16), {}
        highest, seen = self._lives.get((name, life), (0, 0))
        if count > highest:
            shift = count - highest
            seen = ((seen << shift) if shift < WINDOW else 0) & ((1 << WINDOW) - 1) | 1
            self._lives[name, life] = (count, seen)
            return True
        bit = 1 << (highest - count)
        if highest - count >= WINDOW or seen & bit:
            return False
        self._lives[name, life] = (highest, seen | bit)
        return True


class SealedCalls:
    """Finds out who makes a sealed call, at one server."""

    def __init__(self, signer: Callable[[], Signer]) -> None:
        self._signer_now = signer
        self._heard = Heard()
        self._tokens: dict[str, list[bytes]] = {}
        self._signer: Signer | None = None

    def open(self, scope: Scope, given: bytes) -> SealedCall | None:
        """The call, if it was made with a token that is good here; whether it is a good call is asked of it."""
        words = given[len(SCHEME) :].decode("latin-1").split(" ")
        if len(words) != 4:
            return None
        name, challenge, number, mark = words
        challenge = "" if challenge == NONE else challenge
        content, part = (_header(scope, each) for each in (b"headway-sha256", b"range"))
        target = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        if scope["query_string"]:
            target += "?" + scope["query_string"].decode("latin-1")
        said = "\n".join(("request", scope["method"], target, challenge, number, content, part))
        for place, token in enumerate(self._known(name)):
            if hmac.compare_digest(_mark(token, said).hex().encode(), mark.encode("latin-1")):
                kind, of = kind_and_name(name) or ("", "")
                actor = Actor("agent" if kind == NODE else "newcomer", of, node=of)
                call = SealedCall(actor, token, number, content, stale=place > 0)
                call.problem = self._problem(scope, name, challenge, number)
                return call
        return None

    def _problem(self, scope: Scope, name: str, challenge: str, number: str) -> str:
        if not challenge and (scope["method"], scope["path"]) == ("GET", HELLO):
            return ""  # It asks for the challenge, and changes nothing.
        if challenge != self._heard.challenge:
            return "this server has another challenge"
        return "" if self._heard.is_new(name, number) else "this call was heard before"

    @property
    def challenge(self) -> str:
        return self._heard.challenge

    def _known(self, name: str) -> list[bytes]:
        signer = self._signer_now()
        if self._signer is not signer or len(self._tokens) > LIVES_MOST:
            self._tokens, self._signer = {}, signer
        found = self._tokens.get(name)
        if found is None:
            found = [each.encode() for each in signer.tokens_of(name)]
            if found:
                self._tokens[name] = found
        return found


class SealedCall:
    """One call that was made with a good token: reads its content as it was marked, and seals the answer."""

    def __init__(self, actor: Actor, token: bytes, number: str, content: str, stale: bool) -> None:
        self.actor, self.stale, self.problem = actor, stale, ""
        self._token, self._number, self._content = token, number, content

    async def refuse(self, challenge: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Say that the call is not good, and with which challenge it would be."""
        answer = problems.problem(401, "not-allowed", f"{self.problem}; make the call anew", challenge=challenge)
        await answer(scope, receive, self.sealing(send))

    def reading(self, receive: Receive) -> Receive:
        """The request's content, of which nothing is handed on as whole that is not as it was marked."""
        if self._content == PIECES:
            return _Unpacked(self, receive).receive
        digest = hashlib.sha256()

        async def checked() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                digest.update(message.get("body", b""))
                if not message.get("more_body", False) and digest.hexdigest() != self._content:
                    raise WrongContent("the content of the call is not what was sealed", "make it anew")
            return message

        return checked

    def sealing(self, send: Send) -> Send:
        """Seal what is sent: whole, or, where it comes in pieces, each of them."""
        held: list[Message] = []
        count, way = 0, ""

        async def sealed(message: Message) -> None:
            nonlocal count, way
            if message["type"] == "http.response.start":
                held.append(message)
                if message["status"] in WITHOUT_CONTENT or _has_length(message):
                    return
                # It comes as it comes, perhaps after hours: whoever listens must know at once that it is answered.
                message = {"type": "http.response.body", "body": b"", "more_body": True}
            if message["type"] != "http.response.body":
                await send(message)
                return
            body, more = bytes(message.get("body", b"")), message.get("more_body", False)
            if held and not more:
                start = held.pop()
                mark = self.mark("answer", start["status"], hashlib.sha256(body).hexdigest())
                await send({**start, "headers": [*start["headers"], (b"headway-seal", mark.hex().encode())]})
                await send(message)
                return
            if held:
                start = held.pop()
                way = f"piece of answer {start['status']}"
                kept = [each for each in start["headers"] if each[0].lower() != b"content-length"]
                await send({**start, "headers": [*kept, (b"headway-sealed", PIECES.encode())]})
            data = b""
            for piece in [body] * bool(body) + [b""] * (not more):
                data += len(piece).to_bytes(4, "big") + self.piece(way, count, piece) + piece
                count += 1
            if data or not more:
                await send({**message, "body": data})

        return sealed

    def mark(self, *words: object) -> bytes:
        return _mark(self._token, "\n".join(map(str, (words[0], self._number, *words[1:]))))

    def piece(self, way: str, count: int, data: bytes) -> bytes:
        return self.mark(way, count, hashlib.sha256(data).hexdigest())


class _Unpacked:
    """A content that comes as marked pieces, for as long as it takes."""

    def __init__(self, call: SealedCall, receive: Receive) -> None:
        self._call, self._receive = call, receive
        self._held, self._count, self._ended = b"", 0, False

    async def receive(self) -> Message:
        while True:
            message: Any = await self._receive()
            if message["type"] != "http.request":
                return dict(message)
            self._held += message.get("body", b"")
            data, more = self._take(), message.get("more_body", False)
            if not more and not self._ended:
                raise BadInput("the content of the call ended before its last piece")
            if data or not more:
                return {"type": "http.request", "body": data, "more_body": more}

    def _take(self) -> bytes:
        whole = []
        while not self._ended and len(self._held) >= 4 + MAC_BYTES:
            end = 4 + MAC_BYTES + int.from_bytes(self._held[:4], "big")
            if end > PIECE_BYTES_MAX:
                raise BadInput("a piece of the call is larger than any piece is")
            if len(self._held) < end:
                break
            mark, piece = self._held[4 : 4 + MAC_BYTES], self._held[4 + MAC_BYTES : end]
            if not hmac.compare_digest(self._call.piece("piece of request", self._count, piece), mark):
                raise BadInput("a piece of the call is not what was sealed")
            self._held, self._count, self._ended = self._held[end:], self._count + 1, not piece
            whole.append(piece)
        return b"".join(whole)


def _has_length(start: Message) -> bool:
    return any(name.lower() == b"content-length" for name, _ in start["headers"])


def _header(scope: Scope, name: bytes) -> str:
    return str(next((value for key, value in scope["headers"] if key == name), b"").decode("latin-1"))


def _mark(token: bytes, said: str) -> bytes:
    return hmac.digest(token, said.encode("utf-8", "surrogatepass"), "sha256")
