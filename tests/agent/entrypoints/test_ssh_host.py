"""What an agent's program on a host finds out for the server."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from headway_agent.entrypoints.ssh_host import probe


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok": true, "version": "1"}')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_one_of_several_servers_that_answers_is_enough(url: str) -> None:
    silent = "http://127.0.0.1:1"
    assert probe(url, "")["answers"]
    assert probe(f"{url},{silent}", "")["answers"]
    assert probe(f"{silent}, {url}", "")["answers"]
    assert not probe(f"{silent},{silent}", "")["answers"]
