"""HTTP as it comes over the wire: whole answers or an error, whatever the other side does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from headway.client.connection.http_socket import Wire
from headway_wire.http_answer import BrokenConnection

Ask = Callable[[bytes], tuple[int, dict[str, str], bytes]]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Ask a server that sends exactly these bytes and closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    wires: list[Wire] = []

    def asked(answer: bytes) -> tuple[int, dict[str, str], bytes]:
        def serve() -> None:
            other, _ = listener.accept()
            with other:
                other.recv(65536)
                other.sendall(answer)

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        wires.append(Wire(*listener.getsockname(), secure=False, connect_s_max=60.0))
        try:
            return wires[-1].ask("GET", "/x", {"A": "b"}, None, 60.0)
        finally:
            server.join(timeout=60)

    yield asked
    for wire in wires:
        wire.close()
    listener.close()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"content-length:3\r\n\r\nabcdef", b"abc"),
        (OK + b"Content-Length: 0\r\n\r\n", b""),
        (OK + b"\r\nuntil the end", b"until the end"),
        (CHUNKED + b"3\r\nabc\r\na;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", b"abc0123456789"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx", b"x"),
    ],
)  # fmt: skip
def test_a_whole_answer_is_read(ask: Ask, answer: bytes, body: bytes) -> None:
    assert ask(answer)[2] == body


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 O",
        OK + b"Content-Length: 3\r\n",
        OK + b"Content-Length: 4\r\n\r\nabc",
        OK + b"Content-Length: -4\r\n\r\nabc",
        OK + b"Content-Length: four\r\n\r\nabc",
        CHUNKED + b"3\r\nab",
        CHUNKED + b"3\r\nabc\r\n",
        CHUNKED + b"zz\r\nabc\r\n",
        OK + b"A: b\r\n" * 300 + b"\r\n",
        OK + b"A" * 100_000,
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
    ],
)
def test_half_an_answer_is_an_error(ask: Ask, answer: bytes) -> None:
    with pytest.raises(BrokenConnection):
        ask(answer)


def test_headers_are_found_by_their_lower_case_names(ask: Ask) -> None:
    status, headers, _ = ask(b"HTTP/1.1 404 Not Found\r\nHeadway-Next-Offset:  12 \r\nContent-Length: 0\r\n\r\n")
    assert (status, headers["headway-next-offset"]) == (404, "12")
