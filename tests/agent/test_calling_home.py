"""Where an agent calls: several addresses, a leader that others point to, a socket that leads to the server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import pytest

from headway_agent.server_link.http import Connection, ServerHome, Unreachable
from tests.agent.sealed_home import HELLO, proven, seal

ANSWER_S = 60


TOKEN = "hwn_bjE.secret"


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        good = proven(TOKEN, "POST", self.path, dict(self.headers))
        self._answer(json.dumps({"host": self.headers["Host"], "proven": good}).encode())

    def do_GET(self) -> None:
        self._answer(HELLO)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        for name, value in seal(TOKEN, dict(self.headers), 200, body).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def a_home(tmp_path: Path, urls: str, server_file: str = "") -> ServerHome:
    (tmp_path / "token").write_text(TOKEN + "\n")
    return ServerHome(urls, server_file, str(tmp_path / "token"))


def test_the_next_address_is_tried_when_one_is_silent(tmp_path: Path, url: str) -> None:
    with closing(Connection(a_home(tmp_path, f"http://127.0.0.1:9,{url}"))) as connection:
        with pytest.raises(Unreachable):
            connection.post("/agent/sync", {}, ANSWER_S)
        assert connection.post("/agent/sync", {}, ANSWER_S)[0] == 200
        assert connection.post("/agent/sync", {}, ANSWER_S)[0] == 200, "and kept"


def test_a_leader_that_was_pointed_to_goes_first_and_is_given_up_when_silent(tmp_path: Path, url: str) -> None:
    home = a_home(tmp_path, url)
    with closing(Connection(home)) as connection:
        assert connection.post("/agent/sync", {}, ANSWER_S)[0] == 200
        home.pointed_to("http://127.0.0.1:9")
        with pytest.raises(Unreachable):
            connection.post("/agent/sync", {}, ANSWER_S)
        assert connection.post("/agent/sync", {}, ANSWER_S)[0] == 200


def test_a_file_may_name_a_socket_that_leads_to_the_server(tmp_path: Path) -> None:
    # Longer than the path of a socket may be: it is opened by its directory.
    place = tmp_path / ("x" * 90)
    place.mkdir()
    short = Path("/proc/self/cwd")
    file = tmp_path / "server.json"
    file.write_text(json.dumps({"url": "http://lab.example:8400", "via": str(place / "home.sock")}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        server = ThreadingUnixStreamServer(str(short / "home.sock"), Answering)
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(Connection(a_home(tmp_path, "", str(file)))) as connection:
            status, said = connection.post("/agent/sync", {}, ANSWER_S)
        assert (status, said) == (200, {"host": "lab.example:8400", "proven": True})
        server.shutdown()
