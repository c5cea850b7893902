"""What a node and its server say to each other proves who said it, once; who changes or repeats it does so in vain."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.api.web.sealed_calls import WINDOW, Heard
from headway_agent.objects.folder import StoreFailed
from headway_agent.objects.remote import RemoteObjects
from headway_agent.server_link.http import Connection, ServerHome, Unreachable
from tests.api.serving import Serving


class Relay:
    """Passes on what it hears between an agent and a server, notes it, and may change it on the way."""

    def __init__(self, port: int) -> None:
        self.port_behind = port
        self.asked: list[bytes] = []
        self.answered: list[bytes] = []
        self.change_asked: Callable[[bytes], bytes] = bytes
        self.change_answered: Callable[[bytes], bytes] = bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            behind = socket.create_connection(("127.0.0.1", self.port_behind))
            for one, other, noted, way in (
                (caller, behind, self.asked, "change_asked"),
                (behind, caller, self.answered, "change_answered"),
            ):
                threading.Thread(target=self._pass, args=(one, other, noted, way), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, noted: list[bytes], way: str) -> None:
        try:
            while data := one.recv(1 << 20):
                noted.append(data)
                other.sendall(getattr(self, way)(data))
        except OSError:
            pass
        for each in (one, other):
            each.close()

    def end(self) -> None:
        self._listener.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "storage") as server:
        server.join("n1")
        yield server


@pytest.fixture
def relay(server: Serving) -> Iterator[Relay]:
    made = Relay(server.port)
    yield made
    made.end()


def a_home(server: Serving, relay: Relay, tmp_path: Path) -> ServerHome:
    (tmp_path / "token").write_text(server.services.signer.token_for("n1"))
    return ServerHome(relay.url, "", str(tmp_path / "token"))


def a_sync(seq: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "protocol": 1,
        "node": "n1",
        "pool": "local",
        "boot_id": "b",
        "agent_epoch": 1,
        "seq": seq,
        "wait_s": 0,
        **more,
    }


def said_again(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: link.recv(1 << 20), b""))


def test_a_call_is_answered_and_the_token_does_not_travel(server: Serving, relay: Relay, tmp_path: Path) -> None:
    connection = Connection(a_home(server, relay, tmp_path))
    status, reply = connection.post("/agent/sync", a_sync(), 60)
    assert (status, reply["leader_epoch"]) == (200, 1)
    status, refused = connection.post("/agent/sync", {**a_sync(2), "node": "n2"}, 60)
    assert (status, refused["type"]) == (403, "not-allowed")
    seal = connection.home.token.partition(".")[2].encode()
    assert seal not in b"".join(relay.asked + relay.answered)
    connection.close()


def test_a_repeated_call_does_nothing(server: Serving, relay: Relay, tmp_path: Path) -> None:
    connection = Connection(a_home(server, relay, tmp_path))
    assert connection.post("/agent/sync", a_sync(troubles=[{"what": "logs", "detail": "first"}]), 60)[0] == 200
    heard = b"".join(relay.asked)
    answer = said_again(server.port, heard[heard.index(b"POST /agent/sync") :])
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"was heard before" in answer
    assert b"duties" not in answer
    connection.close()


def test_a_repeated_answer_is_not_believed(server: Serving, relay: Relay, tmp_path: Path) -> None:
    connection = Connection(a_home(server, relay, tmp_path))
    assert connection.post("/agent/sync", a_sync(), 60)[0] == 200
    whole = b"".join(relay.answered)
    again = b"HTTP/1.1 200" + whole.rpartition(b"HTTP/1.1 200")[2]
    relay.change_answered = lambda data: again if data.startswith(b"HTTP/") else b""
    with pytest.raises(Unreachable, match="not sealed"):
        connection.post("/agent/sync", a_sync(2), 60)
    relay.change_answered = bytes
    assert connection.post("/agent/sync", a_sync(3), 60)[0] == 200, "and it goes on when the server is heard again"
    connection.close()


@pytest.mark.parametrize("part", [b'"leader_epoch":', b"HTTP/1.1 200"])
def test_a_changed_answer_is_not_believed(server: Serving, relay: Relay, tmp_path: Path, part: bytes) -> None:
    connection = Connection(a_home(server, relay, tmp_path))
    assert connection.post("/agent/sync", a_sync(), 60)[0] == 200
    other = b'"leader_epocH":' if b"leader" in part else b"HTTP/1.1 409"
    relay.change_answered = lambda data: data.replace(part, other)
    with pytest.raises(Unreachable, match="not sealed"):
        connection.post("/agent/sync", a_sync(2), 60)
    connection.close()


def test_a_changed_call_is_refused(server: Serving, relay: Relay, tmp_path: Path) -> None:
    connection = Connection(a_home(server, relay, tmp_path))
    assert connection.post("/agent/sync", a_sync(), 60)[0] == 200
    relay.change_asked = lambda data: data.replace(b'"boot_id":"b"', b'"boot_id":"c"')
    status, said = connection.post("/agent/sync", a_sync(2), 60)
    assert status >= 400
    assert "not what was sealed" in said["detail"]
    relay.change_asked = lambda data: data.replace(b"POST /agent/sync", b"POST /agent/urls")
    with pytest.raises(Unreachable):
        connection.post("/agent/sync", a_sync(3), 60)
    connection.close()


def test_objects_that_come_through_the_server_are_sealed_too(server: Serving, relay: Relay, tmp_path: Path) -> None:
    job = server.submit()
    server.start(f"{job}/1/0")
    remote = RemoteObjects(a_home(server, relay, tmp_path), "n1", pause=lambda _: None)
    key, content = f"jobs/{job}/1/parts/0-1", bytes(range(256)) * 40_000
    remote.put(key, content)
    assert remote.read_all(key) == content
    assert remote.read(key, 1000, 9_000_000) == content[1000:9_000_000]
    marked = content[5_000_000:5_000_064]
    relay.change_answered = lambda data: data.replace(marked, b"x" * 64)
    with pytest.raises(StoreFailed, match="not sealed"):
        remote.read_all(key)


def test_a_server_that_was_started_anew_behind_a_proxy_is_found_again(
    server: Serving, relay: Relay, tmp_path: Path
) -> None:
    connection = Connection(a_home(server, relay, tmp_path))
    assert connection.post("/agent/sync", a_sync(), 60)[0] == 200
    connection.challenge = "of-another-life"
    assert connection.post("/agent/sync", a_sync(2), 60)[0] == 200
    connection.close()


def test_a_number_is_good_once_also_where_calls_overtake_each_other() -> None:
    heard = Heard()
    assert all(heard.is_new("n1", f"life-{each}") for each in (1, 3, 2, 900, 899))
    assert not any(heard.is_new("n1", f"life-{each}") for each in (1, 2, 3, 899, 900))
    assert heard.is_new("n1", "other-1")
    assert heard.is_new("n2", "life-1")
    assert heard.is_new("n1", f"life-{900 + 2 * WINDOW}")
    assert not heard.is_new("n1", "life-4"), "too old to be known"
    assert not any(heard.is_new("n1", each) for each in ("life", "life-", "life--1", "life-x", "life-" + "9" * 20))
