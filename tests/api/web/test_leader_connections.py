"""Requests that a follower passes on: over connections that are kept, and never twice where that could do harm."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import TOKEN, Follower, Serving
from tests.impostors import Impostor
from tests.waiting import wait_until

THREADS = 4


class Counted(Serving):
    """A leader that counts the connections that are made to it."""

    connections = 0

    def _listen(self) -> None:
        super()._listen()
        made = self._server._connection

        def count() -> Any:
            self.connections += 1
            return made()

        self._server._connection = count  # type: ignore[method-assign]

    def hang_up(self) -> None:
        """Close every connection, as a server does with those that are idle."""
        assert self._server._loop is not None
        for each in list(self._server.server_state.connections):
            self._server._loop.call_soon_threadsafe(each.transport.close)
        wait_until(lambda: not self._server.server_state.connections, what="the connections to be closed")


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Counted]:
    with Counted(tmp_path) as serving:
        yield serving


@pytest.fixture
def follower(leader: Counted) -> Iterator[Follower]:
    with Follower(leader) as serving:
        yield serving


def test_one_connection_carries_one_request_after_another(leader: Counted, follower: Follower) -> None:
    jobs = [follower.submit() for _ in range(10)]
    assert {follower.ok("GET", f"/jobs/{job}")["state"] for job in jobs} == {"queued"}
    assert follower.ask("GET", "/api/v1/jobs/nothing").status == 404
    assert follower.ask("POST", "/api/v1/jobs", {"job": {"command": 7}}).status == 422
    assert follower.ask("HEAD", "/api/v1/jobs").status in (200, 405)
    assert len(follower.ok("GET", "/jobs")["jobs"]) == len(jobs)
    # A pause of the machine may outlast the time for which one is kept.
    assert leader.connections <= 3


def test_many_at_once_need_no_more_connections_than_they_are(leader: Counted, follower: Follower) -> None:
    with ThreadPoolExecutor(THREADS) as callers:
        jobs = list(callers.map(lambda _: follower.submit(), range(20 * THREADS)))
    assert len(set(jobs)) == 20 * THREADS
    assert {job["id"] for job in leader.ok("GET", "/jobs?limit=1000")["jobs"]} == set(jobs)
    assert leader.connections <= 4 * THREADS


def test_a_connection_that_the_leader_has_closed_is_not_used_again(leader: Counted, follower: Follower) -> None:
    for _ in range(3):
        before = follower.submit()
        leader.hang_up()
        assert follower.ok("GET", f"/jobs/{before}")["id"] == before
        leader.hang_up()
    assert len(follower.ok("GET", "/jobs")["jobs"]) == 3


def test_a_caller_who_goes_away_takes_his_connection_with_him(leader: Counted, follower: Follower) -> None:
    job = follower.submit()
    leader.hang_up()
    asked = f"GET /api/v1/jobs/{job}/wait?timeout_s=5 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", follower.port)) as caller:
        caller.sendall(asked.encode())
        wait_until(lambda: bool(leader._server.server_state.tasks), what="the leader to be asked")
    wait_until(lambda: not leader._server.server_state.connections, what="the leader to hear that nobody waits")
    assert follower.ok("GET", f"/jobs/{job}")["id"] == job


class Scripted:
    """A leader that answers one request on each connection, and hangs up on the next one, unanswered."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as said:
            for number in range(2):
                head = said.readline().decode().split()
                if not head:
                    return
                headers = {}
                while line := said.readline().strip():
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                said.read(int(headers.get("content-length") or 0))
                self.heard.append(f"{head[0]} {head[1]}")
                if number == 0:
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
                    )

    def end(self) -> None:
        self._listener.close()


@contextmanager
def scripted(follower: Follower) -> Iterator[Scripted]:
    leader = Scripted()
    standing = follower.services.standing
    standing.leader = leader.url
    try:
        yield leader
    finally:
        leader.end()


def test_a_question_is_asked_again_and_a_change_is_not(follower: Follower) -> None:
    with scripted(follower) as leader:
        assert [follower.ask("GET", "/api/v1/nodes").status for _ in range(2)] == [200, 200]
        assert leader.heard == ["GET /api/v1/nodes"] * 3
    with scripted(follower) as leader:
        assert follower.ask("GET", "/api/v1/nodes").status == 200
        answer = follower.ask("POST", "/api/v1/tokens", {"user": "mel"})
        assert (answer.status, leader.heard.count("POST /api/v1/tokens")) == (503, 1)
        assert "whether the request was carried out is not known" in answer.json["detail"]


def test_nobodys_token_is_passed_to_whoever_took_the_leaders_port(leader: Counted, follower: Follower) -> None:
    standing = follower.services.standing
    standing.proofs = lambda url, nonce: leader.services.signer.proofs(url, nonce)
    leader.services.about["advertised"] = leader.url
    assert follower.ok("GET", f"/jobs/{follower.submit()}")["state"] == "queued"
    impostor = Impostor()
    try:
        standing.change(False, impostor.url)
        refused = follower.ask("POST", "/api/v1/jobs", {"job": {"command": ["true"]}})
        assert refused.status == 503
        assert {path.partition("?")[0] for path in impostor.paths} == {"/api/v1/health"}
        assert TOKEN not in impostor.everything
        # Nor can he pass on what the true leader proves: it names the address.
        leader.services.about["advertised"] = impostor.url + "/elsewhere"
        leader.hang_up()
        standing.change(False, leader.url)
        assert follower.ask("POST", "/api/v1/jobs", {"job": {"command": ["true"]}}).status == 503
    finally:
        impostor.end()
