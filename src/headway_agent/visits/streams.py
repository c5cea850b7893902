"""Two endless HTTP bodies: one that is sent piece by piece, one that is read as it comes.

server_link/http.py has whole requests and answers; a visit needs both directions open at once, so it has a connection
for each.
"""

from __future__ import annotations

from headway_agent.server_link.http import Connection, ServerHome, Unreachable
from headway_agent.server_link.seals import NO_CONTENT, PIECES, Pieces, SealedCall, packed

OPEN_S_MAX = 30.0


class Sending:
    """A POST whose body goes out as chunks. `close` ends it; a broken connection raises OSError at the next piece."""

    def __init__(self, home: ServerHome, path: str) -> None:
        self._connection = Connection(home)
        try:
            self._call = _begin(self._connection, "POST", path, "Transfer-Encoding: chunked\r\n", PIECES)
        except (OSError, ValueError) as error:
            self._connection.close()
            raise Unreachable(str(error)) from None
        self._count = 0
        self._connection.sock.settimeout(None)

    def send(self, data: bytes) -> None:
        if data:
            self._send(data)

    def _send(self, data: bytes) -> None:
        piece = packed(self._call, "piece of request", self._count, data)
        self._count += 1
        self._connection.sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))

    def close(self) -> None:
        """End the body, and wait until the other side has taken all of it."""
        try:
            self._send(b"")
            self._connection.sock.sendall(b"0\r\n\r\n")
            self._connection.sock.settimeout(OPEN_S_MAX)
            self._connection._answer()
        except (OSError, ValueError, IndexError, AttributeError):
            pass  # Whoever listened has gone.
        self._connection.close()


class Receiving:
    """A GET whose body is read as it comes."""

    def __init__(self, home: ServerHome, path: str) -> None:
        self._connection = Connection(home)
        try:
            call = _begin(self._connection, "GET", path, "", NO_CONTENT)
            status, said = self._connection.answers.head()
        except (OSError, ValueError, IndexError) as error:
            self._connection.close()
            raise Unreachable(str(error)) from None
        chunked = said.get("transfer-encoding", "").lower() == "chunked"
        if status != 200 or not chunked or said.get("headway-sealed") != PIECES:
            self._connection.close()
            raise Unreachable(f"the server answered {status}")
        self._connection.sock.settimeout(None)
        self._ended = False
        self._pieces = Pieces(call, "piece of answer 200")

    def read(self) -> bytes:
        """The next bytes; none at the end, or when the connection broke."""
        try:
            while not self._ended:
                chunk = self._connection.answers.chunk()
                if not chunk:
                    self._ended = True
                    break
                data = b"".join(self._pieces.take(chunk))
                if data:
                    return data
            return b""
        except (OSError, ValueError, IndexError, AttributeError):
            self._ended = True
            return b""

    def close(self) -> None:
        """Wake the reader too: closing alone would leave it waiting."""
        sock = self._connection.sock
        if sock is not None:
            try:
                sock.shutdown(2)
            except OSError:
                pass  # Gone already.
        self._connection.close()


def _begin(connection: Connection, method: str, path: str, more: str, content: str) -> SealedCall:
    prefix = connection._connect()
    connection.sock.settimeout(OPEN_S_MAX)
    call = connection.home.call(connection.challenge)
    if call is None:
        raise ValueError("there is no token to show")
    proven = "".join(f"{name}: {value}\r\n" for name, value in call.headers(method, path, content).items())
    head = (
        f"{method} {prefix}{path} HTTP/1.1\r\nHost: {connection.authority}\r\n"
        f"{proven}Content-Type: application/octet-stream\r\n{more}\r\n"
    )
    connection.sock.sendall(head.encode("latin-1"))
    return call
