"""What a connection may cost before anybody has signed in on it: bytes of headers, time, and places.

The parser and the answers are uvicorn's; here is what it leaves open. Whoever has shown a good token may take all the
time there is for a body (a shell may be silent for hours); a guest may not. When there are too many guests, the one
who has kept a place longest without a whole request goes: half requests keep nobody out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import string
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

SIGNED_IN = "signed_in"  # In a request's state: to be called once its caller is known.
PIPELINED_MOST = 16
IN_NAMES = b"!#$%&'*+-.^_`|~" + string.ascii_letters.encode() + string.digits.encode()
IN_VALUES = bytes(each for each in range(256) if each == 9 or 32 <= each != 127)
# Requests that are none are told so, and not logged: anybody could fill the log with them.
_log = logging.getLogger("headway.http")
_log.setLevel(logging.ERROR)


class ConnectionPhase(Enum):
    IDLE = "between two requests"
    HEAD = "reading headers"
    BODY = "reading a body"
    WHOLE = "being answered"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    header_bytes_max: int
    request_s_max: float
    guests_most: int
    guests_per_address_most: int


@dataclass
class Guests:
    """Connections on which nobody has signed in yet, all and by address; the oldest first."""

    limits: ConnectionLimits
    here: dict[Limited, None] = field(default_factory=dict)
    by_address: dict[str, dict[Limited, None]] = field(default_factory=dict)

    def enter(self, guest: Limited) -> bool:
        """Take a connection in. Where all places are taken by whole requests, it has to go."""
        near = self.by_address.get(guest.address, {})
        room = self._room(near, self.limits.guests_per_address_most) and self._room(self.here, self.limits.guests_most)
        if room:
            self.by_address.setdefault(guest.address, {})[guest] = None
            self.here[guest] = None
        return room

    def _room(self, among: dict[Limited, None], most: int) -> bool:
        if len(among) < most:
            return True
        waiting = next((each for each in among if each.phase is not ConnectionPhase.WHOLE), None)
        if waiting is not None:
            waiting.refuse(503, "too many connections on which nobody has signed in")
        return waiting is not None

    def leave(self, guest: Limited) -> None:
        if guest in self.here:
            del self.here[guest]
            near = self.by_address[guest.address]
            del near[guest]
            if not near:
                del self.by_address[guest.address]


class ConnectionRefused(Exception):
    """What came is not taken; raised through the parser, which then stops."""


class Limited(HttpToolsProtocol):
    """One connection. Used by its subclasses, which `limited` makes: they have the limits of one server."""

    limits: ConnectionLimits
    guests: Guests

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.logger = _log
        self.address = ""
        self.phase = ConnectionPhase.HEAD
        self.known = False
        self._since = self.loop.time()
        self._loose_bytes = 0  # Received since the last whole head, or the last piece of a body.
        self._why: tuple[int, str] | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = str(self.client[0]) if self.client else ""
        if not self.guests.enter(self):
            self.refuse(503, "too many connections on which nobody has signed in")

    def connection_lost(self, exc: Exception | None) -> None:
        self.guests.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.phase is ConnectionPhase.IDLE:
            self._enter(ConnectionPhase.HEAD)
        self._loose_bytes += len(data)
        super().data_received(data)
        if self._loose_bytes > self.limits.header_bytes_max and not self.transport.is_closing():
            self.refuse(431, f"headers of more than {self.limits.header_bytes_max} bytes")

    def signed_in(self) -> None:
        """The caller of a request is known: they may take their time, and hold no guest's place."""
        self.known = True
        self.guests.leave(self)

    def look(self, now: float) -> None:
        """Close the connection if its request should have been whole by now. Asked about once a second."""
        late = now - self._since > self.limits.request_s_max
        patient = self.phase is ConnectionPhase.BODY and self.known and not self.cycle.response_complete
        if late and self.phase in (ConnectionPhase.HEAD, ConnectionPhase.BODY) and not patient:
            self.refuse(408, f"the request was not whole within {self.limits.request_s_max:g} s")

    def refuse(self, status: int, why: str) -> None:
        """Say why, where nothing else is being said, and close."""
        self.guests.leave(self)
        cycle: Any = self.cycle  # None before the first request.
        answered = cycle is not None and (cycle.response_complete if self.phase is ConnectionPhase.BODY else False)
        speaking = cycle is not None and cycle.response_started and not cycle.response_complete
        if not self.transport.is_closing():
            if not answered and not speaking:
                self.transport.write(_document(status, why))
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        status, why = self._why or (400, "this is not a request by HTTP")
        self.refuse(status, why)

    # --- called by the parser ---

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._enter(ConnectionPhase.HEAD)
        self.known = False  # The next request may be somebody else's.
        self.scope["state"][SIGNED_IN] = self.signed_in

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is ConnectionPhase.HEAD:  # What comes after a body came too late to be checked with the rest.
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        names, values = (b"".join(each) for each in zip(*self.headers, strict=True)) if self.headers else (b"", b"")
        if names.translate(None, IN_NAMES) or values.translate(None, IN_VALUES):
            self._stop(400, "a header has characters that none may have")
        if len(self.url) + len(names) + len(values) > self.limits.header_bytes_max:
            self._stop(431, f"headers of more than {self.limits.header_bytes_max} bytes")
        if len(self.pipeline) >= PIPELINED_MOST:
            self._stop(400, f"more than {PIPELINED_MOST} requests before the first is answered")
        self._loose_bytes = 0
        self._enter(ConnectionPhase.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._loose_bytes = 0
        super().on_message_complete()
        cycle: Any = self.cycle  # None where it becomes a websocket.
        self._enter(ConnectionPhase.IDLE if cycle is None or cycle.response_complete else ConnectionPhase.WHOLE)

    def handle_websocket_upgrade(self) -> None:
        """Whoever shows no good token is turned away at once; all others are not guests any more."""
        self.guests.leave(self)
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        if self.phase is ConnectionPhase.WHOLE:
            self._enter(ConnectionPhase.IDLE)
        elif self.phase is ConnectionPhase.BODY:  # The rest of it is read and dropped, for a while.
            self._since = self.loop.time()
        super().on_response_complete()

    def _enter(self, phase: ConnectionPhase) -> None:
        self.phase, self._since = phase, self.loop.time()

    def _stop(self, status: int, why: str) -> NoReturn:
        self._why = (status, why)
        raise ConnectionRefused(why)


def _document(status: int, why: str) -> bytes:
    kind = "unavailable" if status == 503 else "bad-request"
    body = json.dumps({"type": kind, "title": kind.replace("-", " "), "status": status, "detail": why, "hint": ""})
    head = f"content-type: application/problem+json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return STATUS_LINE[status] + head.encode() + body.encode()


def limited(limits: ConnectionLimits) -> type[Limited]:
    """The class of one server's connections."""
    return type("Connection", (Limited,), {"limits": limits, "guests": Guests(limits)})
