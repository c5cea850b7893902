"""The HTTP server around the application: how it begins, ticks and ends, and what its connections may cost."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from headway import __version__
from headway.api.web.connections import ConnectionLimits, Limited, limited
from headway.settings import Settings

TICK_S = 1.0
SOCKET_BYTES_MAX = 1 << 20  # Of one message.


class HttpServer(uvicorn.Server):
    """Ends by our own `end`: uvicorn's would raise the signal again and skip our farewell."""

    def __init__(
        self, config: uvicorn.Config, end: Callable[[], None], end_waiting: Callable[[], None], handshake_s_max: float
    ) -> None:
        super().__init__(config)
        self._handshake_s_max = handshake_s_max
        self._end = end
        self._end_waiting = end_waiting
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    def finish(self) -> None:
        """End soon; from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # It has ended already.
                self._loop.call_soon_threadsafe(self._ending.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets that are given. uvicorn's own lets a handshake of TLS take a minute."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise SystemExit(STARTUP_FAILURE)
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        patience: dict[str, Any] = {"ssl_handshake_timeout": self._handshake_s_max} if tls else {}
        self.servers = [
            await loop.create_server(self._connection, sock=each, ssl=tls, backlog=self.config.backlog, **patience)
            for each in sockets or ()
        ]
        self.started = True

    def _connection(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        made: asyncio.Protocol = kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=self._loop
        )
        return made

    async def main_loop(self) -> None:
        """Tick once a second and when it shall end; uvicorn's own ticks ten times a second, all day long."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            for connection in list(self.server_state.connections):
                if isinstance(connection, Limited):
                    connection.look(self._loop.time())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_S)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._end()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Done while the connections are told to close: a caller who is let go earlier would only call again.
        asyncio.get_running_loop().call_soon(self._end_waiting)
        await super().shutdown(sockets)


def limits_of(settings: Settings) -> ConnectionLimits:
    """What the settings say; guests in all may never take more than a quarter of the files that may be open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = settings.guests_most if files == resource.RLIM_INFINITY else min(settings.guests_most, max(files // 4, 16))
    return ConnectionLimits(settings.header_bytes_max, settings.request_s_max, most, settings.guests_per_address_most)


def http_server(
    app: Any, end: Callable[[], None], end_waiting: Callable[[], None], settings: Settings, sockets: bool = False
) -> HttpServer:
    """The server of an application; `sockets`: with websockets, which cost memory."""
    how: dict[str, Any] = {"log_level": "warning", "log_config": None, "access_log": False, "server_header": False}
    how["headers"] = [("Headway-Version", __version__)]  # A client of another version says so to its user.
    if settings.tls_cert_file:
        how |= {"ssl_certfile": settings.tls_cert_file, "ssl_keyfile": settings.tls_key_file}
    http = limited(limits_of(settings))
    how |= {"ws": "wsproto" if sockets else "none", "ws_max_size": SOCKET_BYTES_MAX}
    config = uvicorn.Config(app, http=http, lifespan="on", timeout_graceful_shutdown=1, **how)
    return HttpServer(config, end, end_waiting, settings.request_s_max)
