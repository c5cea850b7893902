"""Thousands of keep-alive HTTP connections from one process: the least that a caller needs, so that it costs little."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

Heard = Callable[[int, Mapping[bytes, bytes], bytes], None]


class Wire(asyncio.Protocol):
    """One connection; it carries one request at a time. A status of 0 means that it was cut."""

    def __init__(self, closed: Callable[[Wire], None] = lambda wire: None) -> None:
        self._transport: asyncio.Transport | None = None
        self._closed = closed
        self._heard: Heard | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._closed(self)
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(0, {}, repr(error).encode())

    def send(self, request: bytes, heard: Heard) -> None:
        assert self._transport is not None
        self._heard = heard
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        length = int(headers.get(b"content-length", b"0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(int(first.split()[1]), headers, rest[:length])

    def close(self) -> None:
        self._heard = None
        if self._transport is not None:
            self._transport.abort()


async def open_wire(host: str, port: int, closed: Callable[[Wire], None] = lambda wire: None) -> Wire:
    _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(closed), host, port)
    return wire


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body
