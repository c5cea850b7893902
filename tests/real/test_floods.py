"""Strangers at a real server's door: what they send costs it neither memory nor places, and people go on."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack, suppress

import pytest

from tests.living import Living
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real
POURED = 300 * 2**20
HALVES = 400


def door(living: Living) -> tuple[str, int]:
    url = json.loads((living.home / "state/server.json").read_text())["url"]
    return "127.0.0.1", int(url.rpartition(":")[2])


def memory(living: Living) -> int:
    """What the server has in memory."""
    with open(f"/proc/{living.server}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(living: Living) -> int:
    return len(os.listdir(f"/proc/{living.server}/fd"))


def test_headers_and_half_requests_of_strangers_cost_next_to_nothing(living: Living) -> None:
    living.env["HEADWAY_REQUEST_S_MAX"] = "5"
    living.ok("server", "start")
    before, files, poured = memory(living), open_files(living), 0
    with socket.create_connection(door(living), timeout=PATIENCE_S) as line, suppress(ConnectionError):
        line.sendall(b"GET / HTTP/1.1\r\nX-Long: ")
        while poured < POURED:
            line.sendall(b"a" * 65536)
            poured += 65536
    assert poured < POURED, "all of it was taken"
    assert memory(living) - before < 30 * 2**20
    with ExitStack() as stack:
        for _ in range(HALVES):
            line = stack.enter_context(socket.create_connection(door(living), timeout=PATIENCE_S))
            line.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nX-Slow: ")
        living.ok("ps")
        assert open_files(living) - files < HALVES, "the oldest made room"
        # They are still held from here; the server has let go of them.
        wait_until(lambda: open_files(living) - files < 20, what="half requests to be given up")
    assert memory(living) - before < 30 * 2**20
