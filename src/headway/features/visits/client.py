"""A visit to the place where a job runs: a command, a shell or a port, over two streams of frames.

The frames are those of headway_wire/frames.py: a letter, a length of four bytes, a content.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from headway.client.connection.http import Answer, ServerLink, error_from
from headway.core.errors import Unavailable
from headway_wire import frames as wire

OPEN_S_MAX = 60.0


class Visit:
    """Both streams of one visit. `frames` in one thread, `send` in another."""

    def __init__(self, link: ServerLink, job: str, ask: Mapping[str, Any]) -> None:
        # Not repeated by itself: a command that was started must not be started twice.
        made = link.call("POST", f"/jobs/{quote(job, safe='')}/visits", dict(ask), once=True).json()["visit"]
        self.job, self.node = str(made["job"]), str(made["node"])
        path = f"/visits/{made['id']}"
        self._out, base, headers = link.dial()
        self._in, _, _ = link.dial()
        self._in.begin_pieces("POST", f"{base}{path}/in", {**headers, "Content-Type": "application/octet-stream"})
        status, self._found = self._out.begin("GET", f"{base}{path}/out", headers, None, OPEN_S_MAX)
        self._status = status
        if status >= 400:
            raise error_from(Answer(status, self._found, b"".join(self._out.body(status, self._found))), "the server")
        self._out.wait_long()
        self._lock = threading.Lock()

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a frame; a connection that is gone says so through `frames`."""
        with self._lock:
            try:
                self._in.send_piece(wire.frame(kind, content))
            except OSError:
                pass

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """What comes from the node, until it ends. A stream that broke off raises Unavailable."""
        pieces = self._out.body(self._status, self._found)
        try:
            yield from wire.frames(lambda: next(pieces, b""))
        except OSError:
            raise Unavailable("the connection to the job broke off", "the job itself goes on; try again") from None

    def close(self) -> None:
        self._in.hang_up()
        self._out.hang_up()
        self._in.close()
        self._out.close()
