"""Connections from a server that follows to the one that leads, kept from one request to the next.

A fresh one costs a handshake, with TLS far more than the request itself. One that is kept is watched: what the leader
closes is never used again, and none is kept for so long that the leader would close it under a request.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

import h11

CONNECT_S_MAX = 3.0
KEPT_S_MAX = 2.5  # The leader closes what is idle for 5 s (uvicorn's timeout_keep_alive).
KEPT_MOST = 64
PROVE_S_MAX = 5.0
PIECE_BYTES = 64 << 10


@dataclass(eq=False)
class LeaderWire:
    """One connection, between two requests or in the middle of one."""

    url: str
    parts: SplitResult
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))
    used: bool = False  # A request was answered on it before this one.

    def close(self) -> None:
        self.writer.close()

    def ready_again(self) -> bool:
        """Whether both sides have said all of the last request, and the leader did not ask to close."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        self.used = True
        return True


class LeaderWires:
    """Used in the event loop alone."""

    def __init__(self, proofs: Callable[[str, str], list[str]] = lambda _url, _nonce: []) -> None:
        self._proofs = proofs
        self._kept: dict[LeaderWire, asyncio.Task[None]] = {}
        self._trust: tuple[object, ssl.SSLContext] | None = None

    async def take(self, url: str, fresh: bool = False) -> LeaderWire:
        """A connection to this server: one that was kept, the last used first, or a new one."""
        while not fresh and (wire := next((each for each in reversed(self._kept) if each.url == url), None)):
            watch = self._kept.pop(wire)
            watch.cancel()
            await asyncio.wait([watch])
            if watch.cancelled() and not wire.writer.is_closing():
                return wire
            wire.close()
        parts = urlsplit(url)
        secure = self._trusting() if parts.scheme == "https" else None
        opened = asyncio.open_connection(parts.hostname, parts.port or (443 if secure else 80), ssl=secure)
        wire = LeaderWire(url, parts, *await asyncio.wait_for(opened, CONNECT_S_MAX))
        if secure is None:
            try:
                await asyncio.wait_for(self._prove(wire), PROVE_S_MAX)
            except BaseException:
                wire.close()
                raise
        return wire

    async def _prove(self, wire: LeaderWire) -> None:
        """Whoever has the port of a leader that died is passed nobody's token. (A certificate proves as much.)"""
        nonce = secrets.token_hex(16)
        good = self._proofs(wire.url, nonce)
        if not good:
            return
        target = f"{wire.parts.path.rstrip('/')}/api/v1/health?nonce={nonce}"
        asked = h11.Request(method="GET", target=target, headers=[("host", wire.parts.netloc)])
        wire.writer.write((wire.http.send(asked) or b"") + (wire.http.send(h11.EndOfMessage()) or b""))
        body = b""
        while not isinstance(event := wire.http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                wire.http.receive_data(await wire.reader.read(PIECE_BYTES))
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.ConnectionClosed) or len(body) > PIECE_BYTES:
                raise ConnectionResetError("the leader closed the connection")
        try:
            shown = str(json.loads(body).get("proof_to_servers") or "")
        except (ValueError, AttributeError):
            shown = ""
        if not any(hmac.compare_digest(each.encode(), shown.encode()) for each in good):
            raise ConnectionRefusedError(f"{wire.url} does not prove to be a server of this database")
        wire.http.start_next_cycle()

    def give_back(self, wire: LeaderWire) -> None:
        """Keep a connection for the next request, or close it where none can follow."""
        if len(self._kept) < KEPT_MOST and wire.ready_again():
            self._kept[wire] = asyncio.ensure_future(self._watch(wire))
        else:
            wire.close()

    async def _watch(self, wire: LeaderWire) -> None:
        """While nobody has asked anything, anything that comes is the end of it."""
        try:
            await asyncio.wait_for(wire.reader.read(1), KEPT_S_MAX)
        except (OSError, TimeoutError):
            pass
        finally:
            if self._kept.pop(wire, None) is not None:  # Nobody has taken it.
                wire.close()

    def _trusting(self) -> ssl.SSLContext:
        """Whom this server believes; made again when the file with our own authority has changed."""
        path = os.environ.get("HEADWAY_AGENT_CA_FILE", "")  # Set by wiring from `ca_file`, for agents and for this.
        seen = (path, os.stat(path).st_mtime_ns) if path else None
        if self._trust is None or self._trust[0] != seen:
            context = ssl.create_default_context()
            if path:
                context.load_verify_locations(path)
            self._trust = (seen, context)
        return self._trust[1]
