"""A Headway of its own for one measurement: a fresh home, a real embedded server, and nothing left of it afterwards."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ANSWER_S_MAX = 120
NOTHING_LEFT_S_MAX = 60


class House:
    """Where the server of this measurement is, and how to speak to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        self.env["HEADWAY_HOME"] = str(home)
        self.state = home / "state"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "headway.cli.main", *words]

    def run(self, *words: str) -> str:
        done = subprocess.run(self.command(*words), env=self.env, capture_output=True, text=True, check=True)
        return done.stdout

    def read(self, name: str) -> Any:
        return json.loads((self.state / name).read_text())

    @property
    def server_pid(self) -> int:
        return int(self.read("server.json")["pid"])

    @property
    def node_dirs(self) -> list[Path]:
        return sorted(path for path in (self.state / "nodes").glob("*-*") if path.is_dir())

    def connect(self) -> Line:
        where = urlsplit(self.read("server.json")["url"])
        return Line(where.hostname or "", where.port or 0, (self.state / "token").read_text().strip())


class Line:
    """One keep-alive connection to the API."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S_MAX)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        raw = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, f"/api/v1{path}", raw, self._headers)
            answer = self._connection.getresponse()
        except http.client.RemoteDisconnected:
            if method != "GET":
                raise
            self._connection.close()  # It was idle for too long: the server has let it go.
            self._connection.request(method, f"/api/v1{path}", raw, self._headers)
            answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {said.decode(errors='replace')[:500]}")
        return json.loads(said) if said else None

    def stream(self, path: str) -> http.client.HTTPResponse:
        self._connection.request("GET", f"/api/v1{path}", headers=self._headers)
        return self._connection.getresponse()

    def close(self) -> None:
        with suppress(OSError):
            if self._connection.sock is not None:
                # Or whoever reads a stream on another thread would keep us waiting for its next line.
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()


@contextmanager
def house(**settings: str) -> Iterator[House]:
    """A started server with a node that has called home; all of it is ended and removed afterwards."""
    home = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    mine = House(home)
    mine.env.update({f"HEADWAY_{name.upper()}": value for name, value in settings.items()})
    try:
        mine.run("server", "start")
        # The first job waits for the node and its keeper; what follows meets a warm machine.
        mine.run("run", "--", "/bin/true")
        yield mine
    finally:
        _end(mine)
        shutil.rmtree(home, ignore_errors=True)


def _end(mine: House) -> None:
    mine.run("server", "stop")
    for node_dir in mine.node_dirs:
        release = [sys.executable, "-I", "-S", str(node_dir / "agent.pyz"), "release", "--node-dir", str(node_dir)]
        subprocess.run(release, check=True, timeout=NOTHING_LEFT_S_MAX)
