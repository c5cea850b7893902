"""What a connection may cost before anybody has signed in; and a follower takes and refuses what the leader does."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from headway.api.web.connections import ConnectionLimits, ConnectionPhase, Guests
from tests.api.serving import TOKEN, Follower, Serving
from tests.waiting import PATIENCE_S, wait_until

LIMITS = {"header_bytes_max": 16 * 2**10, "request_s_max": 0.5, "guests_most": 40, "guests_per_address_most": 8,
          "oidc_issuer": "https://127.0.0.1:9", "oidc_client_id": "x", "accounts": "on"}  # fmt: skip
SIGNED = f"Authorization: Bearer {TOKEN}"


def asked(what: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"{what} HTTP/1.1", "Host: x", *headers, "", ""]).encode("latin-1") + body


@pytest.fixture(scope="module")
def leader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("narrow"), **LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def follower(leader: Serving) -> Iterator[Serving]:
    with Follower(leader) as server:
        yield server


@pytest.fixture(params=["leader", "follower"])
def server(request: pytest.FixtureRequest) -> Serving:
    found: Serving = request.getfixturevalue(request.param)
    return found


@contextmanager
def line_to(server: Serving) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as line:
        yield line


def heard(line: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    said = b""
    with suppress(ConnectionError):
        while piece := line.recv(65536):
            said += piece
    return said


def status_of(said: bytes) -> int:
    return int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0


def pour(line: socket.socket, piece: bytes, most: int) -> int:
    """Send the same again and again; returns how much could be sent before it was refused."""
    sent = 0
    with suppress(ConnectionError):
        while sent < most:
            line.sendall(piece)
            sent += len(piece)
    return sent


def test_headers_without_end_are_refused_early(server: Serving) -> None:
    request = b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\n"
    for begins, piece in (
        (request + b"X-Long: ", b"a" * 65536),
        (request, b"X-Short: a\r\n" * 5000),
        (b"GET /" + b"a" * 65536, b"a" * 65536),
        # Behind a body, where nobody expects headers.
        (
            b"POST /api/v1/login/oidc HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X-T: a\r\n" * 8000,
        ),
    ):
        with line_to(server) as line:
            line.sendall(begins)
            sent = pour(line, piece, 32 * 2**20)
            assert sent < 32 * 2**20, "all of it was taken"
    with line_to(server) as line:
        line.sendall(request + b"X: " + b"a" * 20_000 + b"\r\n\r\n")
        assert status_of(said := heard(line)) == 431
        assert json.loads(said.partition(b"\r\n\r\n")[2])["detail"] == "headers of more than 16384 bytes"


def test_half_requests_are_given_up(server: Serving) -> None:
    halves = [
        b"",
        b"\r\n",
        b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\n",
        asked("POST /api/v1/login/oidc", "Content-Length: 9", body=b"{"),
        asked("POST /api/v1/jobs", "Content-Length: 999", body=b"{"),  # Refused before it is whole, and then closed.
        asked("PUT /agent/objects/logs/n1/x?signature=no&expires=1", "Content-Length: 999", body=b"ab"),
    ]
    for half in halves:
        with line_to(server) as line:
            line.sendall(half)
            said = heard(line)  # Until it is closed.
            assert status_of(said) in (408, 401, 403, 421), (half, said)
            assert said.count(b"HTTP/1.1") == 1


def test_many_half_requests_keep_nobody_out(server: Serving) -> None:
    with ExitStack() as stack:
        lines = []
        for _ in range(30):
            lines.append(stack.enter_context(line_to(server)))
            lines[-1].sendall(b"GET /api/v1/health HTTP/1.1\r\nX-Slow: ")
        assert server.ask("GET", "/api/v1/health").status == 200
        assert server.ask("GET", "/api/v1/jobs").status == 200
        first = heard(lines[0])
        assert status_of(first) == 503, first


def test_whoever_has_signed_in_may_take_his_time(leader: Serving) -> None:
    with line_to(leader) as line:
        body = json.dumps({"job": {"command": ["true"], "hold": True}}).encode()
        head = asked("POST /api/v1/jobs", SIGNED, "Connection: close", f"Content-Length: {len(body)}")
        line.sendall(head + body[:5])
        guest = socket.create_connection(("127.0.0.1", leader.port), timeout=PATIENCE_S)
        guest.sendall(b"GET /api/v1/jobs HTTP/1.1\r\n")
        assert status_of(heard(guest)) == 408  # He was there later, and is gone.
        guest.close()
        line.sendall(body[5:])
        assert status_of(heard(line)) == 201


def test_a_flood_of_pipelined_requests_is_refused(server: Serving) -> None:
    with line_to(server) as line:
        with suppress(ConnectionError):
            line.sendall(asked("GET /api/v1/events", SIGNED) * 200)
        heard(line)  # Without the limit the first answer, a stream, would never end.


JOBS, LENGTH, PIECES = "GET /api/v1/jobs", "Content-Length: 2", "Transfer-Encoding: chunked"
BLANK = "Authorization: Bearer "
ODD = {
    "a body with a question": asked(JOBS, SIGNED, LENGTH, body=b"{}"),
    "a body in pieces with a question": asked(JOBS, SIGNED, PIECES, body=b"2\r\n{}\r\n0\r\n\r\n"),
    "a blank behind a token": asked("GET /api/v1/login", BLANK),
    "a blank behind a token, with a body": asked("POST /api/v1/login/oidc", BLANK, LENGTH, body=b"{}"),
    "a control character": asked(JOBS, SIGNED, "X-Odd: a\x01b"),
    "other letters": asked(JOBS, SIGNED, "X-Odd: \xff\xfe"),
    "an odd name": asked(JOBS, SIGNED, "X(Odd): 1"),
    "a header without a value": asked(JOBS, SIGNED, "X-Odd:"),
    "two lengths": asked("POST /api/v1/jobs", SIGNED, LENGTH, "Content-Length: 3", body=b"{}"),
    "a length and pieces": asked("POST /api/v1/jobs", SIGNED, LENGTH, PIECES, body=b"0\r\n\r\n"),
    "no host": f"{JOBS} HTTP/1.1\r\n{SIGNED}\r\n\r\n".encode(),
    "an old version": f"{JOBS} HTTP/1.0\r\n{SIGNED}\r\n\r\n".encode(),
    "other letters in the question": asked(f"{JOBS}?name=\xc3\xa4", SIGNED),
    "a whole address": asked("GET http://x/api/v1/jobs", SIGNED),
    "an expectation": asked(JOBS, SIGNED, "Expect: the-moon"),
    "an upgrade": asked(JOBS, SIGNED, "Connection: upgrade", "Upgrade: websocket"),
    "headers of one hop": asked(JOBS, SIGNED, "Connection: x-odd", "X-Odd: 1", "TE: gzip"),
    "another method": asked("BREW /api/v1/jobs", SIGNED),
    "a question about nothing": asked("OPTIONS *", SIGNED),
}


@pytest.mark.parametrize("request_", ODD.values(), ids=ODD)
def test_a_follower_answers_as_the_leader_does(leader: Serving, follower: Serving, request_: bytes) -> None:
    said = []
    for each in (leader, follower):
        with line_to(each) as line:
            line.sendall(request_)
            said.append(status_of(line.recv(65536)))
    assert said[0] == said[1], said
    assert said[0] not in (0, 500)


class Sitting:
    """A guest's connection, as far as its place goes."""

    def __init__(self, guests: Guests, address: str, phase: ConnectionPhase = ConnectionPhase.HEAD) -> None:
        self.guests, self.address, self.phase, self.refused = guests, address, phase, False

    def refuse(self, status: int, why: str) -> None:
        self.refused = True
        self.guests.leave(self)  # type: ignore[arg-type]


def seated(most: int, per_address: int) -> tuple[Guests, Callable[..., tuple[Sitting, bool]]]:
    guests = Guests(ConnectionLimits(1, 1.0, most, per_address))

    def sit(address: str, phase: ConnectionPhase = ConnectionPhase.HEAD) -> tuple[Sitting, bool]:
        made: Any = Sitting(guests, address, phase)
        return made, guests.enter(made)

    return guests, sit


def test_the_oldest_half_request_of_an_address_makes_room_for_the_next() -> None:
    guests, sit = seated(10, 2)
    (first, _), (second, _), (other, _) = sit("a", ConnectionPhase.WHOLE), sit("a"), sit("b")
    third, taken = sit("a")
    assert taken
    assert [each.refused for each in (first, second, other, third)] == [False, True, False, False]
    guests.leave(first)  # type: ignore[arg-type]
    guests.leave(third)  # type: ignore[arg-type]
    assert list(guests.by_address) == ["b"]


def test_whole_requests_are_not_sent_away_for_others() -> None:
    _, sit = seated(2, 2)
    kept = [sit(each, ConnectionPhase.WHOLE)[0] for each in ("a", "b")]
    assert not sit("c")[1]
    assert not any(each.refused for each in kept)


def test_places_are_given_back() -> None:
    guests, sit = seated(3, 1)
    for _ in range(5):
        made, taken = sit("a")
        assert taken
        guests.leave(made)  # type: ignore[arg-type]
        guests.leave(made)  # type: ignore[arg-type]
    assert not guests.here
    assert not guests.by_address


def test_connections_that_are_gone_hold_no_place(leader: Serving) -> None:
    guests = leader._server.config.http_protocol_class.guests  # type: ignore[union-attr]
    for _ in range(3):
        assert leader.ask("GET", "/api/v1/health").status == 200
    wait_until(lambda: not guests.here, what="all places to be free")
