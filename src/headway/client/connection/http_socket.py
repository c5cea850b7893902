"""HTTP/1.1 over one socket, as much as a Headway server speaks: requests with a body, and answers.

The standard library's client would be half of what a short command costs, most of it for parsing mail headers. Every
failure is an OSError; what is returned is whole (headway_wire/http_answer.py).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

from headway_wire.http_answer import AnswerReader, BrokenConnection

PIECE_BYTES = 4 << 20


class FileBody:
    """The body of a request that lies in a file, and is sent from there."""

    __slots__ = ("path", "sent", "size")

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.sent = 0  # How much of it has left, for whoever watches.


class Wire:
    def __init__(self, host: str, port: int, *, secure: bool, connect_s_max: float, ca_file: str = "") -> None:
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._socket = socket.create_connection((host, port), connect_s_max)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secure:
            import ssl

            trusted = ssl.create_default_context()
            if ca_file:
                trusted.load_verify_locations(ca_file)
            self._socket = trusted.wrap_socket(self._socket, server_hostname=host)
        self._answers = AnswerReader(self._socket.recv)

    def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | FileBody | None, answer_s_max: float
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; return status, headers (names in lower case) and the whole body."""
        status, found = self.begin(method, target, headers, body, answer_s_max)
        return status, found, b"".join(self.body(status, found))

    def begin(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | FileBody | None, answer_s_max: float
    ) -> tuple[int, dict[str, str]]:
        """Send a request and read the answer up to its body."""
        self._socket.settimeout(answer_s_max)
        size = body.size if isinstance(body, FileBody) else len(body or b"")
        length = {} if body is None else {"Content-Length": str(size)}
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.name}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **length}.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        if isinstance(body, FileBody):
            self._socket.sendall(head)
            with open(body.path, "rb") as file:
                body.sent = 0
                while body.sent < size:
                    gone = self._socket.sendfile(file, body.sent, min(PIECE_BYTES, size - body.sent))
                    if not gone:
                        raise BrokenConnection(f"{body.path} became shorter while it was sent")
                    body.sent += gone
        else:
            self._socket.sendall(head + (body or b""))
        return self._answers.head()

    def begin_pieces(self, method: str, target: str, headers: Mapping[str, str]) -> None:
        """Begin a request whose body is sent piece by piece, for as long as it takes."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.name}", "Transfer-Encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._socket.settimeout(None)
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def send_piece(self, data: bytes) -> None:
        """One more piece; none at all ends the body."""
        self._socket.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def wait_long(self) -> None:
        """Whatever is read from now on may take as long as it likes."""
        self._socket.settimeout(None)

    def hang_up(self) -> None:
        """End both directions at once, also under a thread that waits for more."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # Ended already.

    def body(self, status: int, headers: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the body piece by piece, as it comes."""
        return self._answers.body(status, headers)

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return self._answers.reusable

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()
