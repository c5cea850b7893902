"""A small real server for an agent to call home to, and a node to do it: what the real tests stand on.

The server keeps just enough of the protocol: duties by task, everything that was reported, which bytes are indexed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headway_wire.digests import digest_of
from tests.agent.sealed_home import HELLO, proven, seal
from tests.waiting import PATIENCE_S, wait_until

TOKEN = "hwn_bjE.a-test-token"


class Server:
    """Answers syncs. A task is set going by itself once claimed, unless `hold_go` says otherwise."""

    def __init__(self, storage: Path) -> None:
        self.storage = storage
        self.lock = threading.Condition()
        self.duties: dict[str, dict[str, Any]] = {}
        self.reports: dict[str, dict[str, Any]] = {}
        self.seen: list[tuple[str, str]] = []
        self.index: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self.sent: dict[str, str] = {}
        self.bodies: list[dict[str, Any]] = []
        self.hold_go = False
        self.lease_left_s = 3600.0
        self.leader_epoch = 1
        self.program: bytes = b""
        self.version = ""
        self.refuse_status = 0
        self.follow: list[str] = []
        self.objects: dict[str, bytes] = {}
        self.checkpoints: list[dict[str, Any]] = []
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.bad: list[dict[str, Any]] = []
        self.steps: dict[str, int] = {}
        self.troubles: list[dict[str, str]] = []
        self.got: list[str] = []
        self.serve_storage = False  # GET gives what lies in the storage folder; else the program.
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        # Killed agents hang up; that is what is tested.
        self.http.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def give(self, task: str, *argv: str, **more: Any) -> str:
        with self.lock:
            self.duties[task] = {"task": task, "do": "claim", "argv": list(argv), "ranks": 1, "grace_s": 5.0, **more}
            self.lock.notify_all()
        return task

    def tell(self, task: str, do: str, **more: Any) -> None:
        with self.lock:
            self.duties[task] = {"task": task, "do": do, **more}
            self.lock.notify_all()

    def forget(self, task: str) -> None:
        with self.lock:
            self.duties.pop(task, None)
            self.lock.notify_all()

    def phase(self, task: str) -> str:
        return str(self.reports.get(task, {}).get("phase", ""))

    def outcome(self, task: str) -> dict[str, Any]:
        said = lambda: f"{self.reports.get(task)}, duties {self.duties}, troubles {self.troubles}"  # noqa: E731
        wait_until(lambda: self.phase(task) == "ended", every_s=0.01, what=f"{task} to end", story=said)
        outcome: dict[str, Any] = self.reports[task]["outcome"]
        return outcome

    def output(self, task: str, slot: str = "0/out") -> bytes:
        """The output as the index and the packs give it."""
        parts = []
        for piece in self.index.get(task, {}).get(slot, []):
            pack = self.objects.get(piece["key"])
            if pack is None:
                pack = (self.storage / piece["key"]).read_bytes()
            parts.append(pack[piece["key_offset"] : piece["key_offset"] + piece["end"] - piece["start"]])
        return b"".join(parts)

    # --- the protocol ---

    def sync(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.lock:
            if self.refuse_status:
                return self.refuse_status, {}
            self.bodies.append(body)
            self._take_in(body)
            want = lambda: {key: duty["do"] for key, duty in self.duties.items()}  # noqa: E731
            known = body["duties_digest"] == digest_of(self.sent)
            if body["wait_s"] and known:
                self.lock.wait_for(lambda: want() != self.sent, body["wait_s"])
            before = dict(self.sent) if known else {}  # Relative to what was last sent, on whichever line.
            self.sent = want()
            changed = [duty for key, duty in self.duties.items() if before.get(key) != duty["do"]]
            return 200, {
                "leader_epoch": self.leader_epoch,
                "lease_left_s": self.lease_left_s,
                "full": not known,
                "duties": changed,
                "gone": [key for key in before if key not in self.sent],
                "duties_digest": digest_of(self.sent),
                "safe": {task: self._safe(task) for task in self.index},
                "resend": False,
                "agent_version": self.version or body["agent_version"],
                "follow": self.follow,
                "checkpoints_safe": _steps(body.get("checkpoints", ())),
                "artifacts_safe": [[each["task"], each["path"]] for each in body.get("artifacts", ())],
            }

    def _take_in(self, body: dict[str, Any]) -> None:
        self.checkpoints += body.get("checkpoints", [])
        self.artifacts.update({each["path"]: each for each in body.get("artifacts", [])})
        self.bad += body.get("bad_checkpoints", [])
        self.steps.update(body.get("steps", {}))
        self.troubles = body.get("troubles", self.troubles)
        for piece in body["logs"]:
            slot = f"{piece['rank']}/{piece['stream']}"
            pieces = self.index.setdefault(piece["task"], {}).setdefault(slot, [])
            if piece["start"] == (pieces[-1]["end"] if pieces else 0):
                pieces.append(piece)
        for report in body["reports"]:
            task = report["task"]
            self.reports[task] = report
            self.seen.append((task, report["phase"]))
            if report["phase"] == "claimed" and task in self.duties and not self.hold_go:
                self.duties[task] = {"task": task, "do": "go", "peers": [[report["address"], report["port"]]]}
            if report["phase"] == "ended":
                self.duties.pop(task, None)

    def _safe(self, task: str) -> dict[str, int]:
        return {slot: pieces[-1]["end"] for slot, pieces in self.index[task].items() if pieces}


def _steps(checkpoints: Iterable[dict[str, Any]]) -> dict[str, list[int]]:
    safe: dict[str, list[int]] = {}
    for each in checkpoints:
        safe.setdefault(each["task"], []).append(each["step"])
    return safe


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            for name, value in seal(TOKEN, dict(self.headers), status, content).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            body = json.loads(self._body() or b"{}")
            if not proven(TOKEN, "POST", self.path, dict(self.headers)):
                self._answer(401, b"{}")
            elif self.path == "/agent/urls":
                urls = {key: f"/agent/objects/{quote(key)}" for key in body["keys"]}
                self._answer(200, json.dumps({"good_for_s": 60, "urls": urls, "headers": {}}).encode())
            else:
                status, reply = server.sync(body)
                self._answer(status, json.dumps(reply).encode())

        def do_PUT(self) -> None:
            body = self._body()
            if len(body) == int(self.headers.get("Content-Length", 0)):  # Else its sender died on the way.
                server.objects[self.path.removeprefix("/agent/objects/")] = body
                self._answer(201, b"")

        def do_GET(self) -> None:
            if self.path == "/agent/hello":
                self._answer(200, HELLO)
                return
            found = server.objects.get(self.path.removeprefix("/agent/objects/"))
            if found is not None:
                self._answer(200, found)
                return
            if not server.serve_storage:
                self._answer(200, server.program)
                return
            server.got.append(self.path)
            try:
                content = (server.storage / self.path.removeprefix("/agent/objects/")).read_bytes()
            except OSError:
                self._answer(404, b"")
                return
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            self._answer(206 if first < len(content) else 416, content[first : last + 1])

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


class Node:
    """A node's directory with a real agent in it."""

    def __init__(self, path: Path, server: Server, program: Path, storage: Path | None) -> None:
        self.path, self.server, self.program, self.storage = path, server, program, storage
        self.agent: subprocess.Popen[bytes] | None = None
        path.mkdir(mode=0o700, exist_ok=True)

    def command(self, *more: str) -> list[str]:
        words = [sys.executable, "-I", "-S", str(self.program), "agent", "--node-dir", str(self.path), "--node", "n1"]
        words += ["--pool", "local", "--server-url", self.server.url, "--token-file", str(self.path / "token")]
        words += ["--storage-dir", str(self.storage)] if self.storage else []
        return [*words, "--ship-follow-every-s", "0.05", *more]

    def start(self, *more: str) -> None:
        (self.path / "token").write_text(TOKEN)
        self.agent = subprocess.Popen(self.command(*more), env={**os.environ, "PATH": "/usr/bin:/bin"})

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.send_signal(signal.SIGKILL)
        self.agent.wait()

    def pid(self, name: str) -> int:
        try:
            return int(json.loads((self.path / name).read_text())["pid"])
        except (OSError, ValueError):
            return 0

    def release(self) -> None:
        words = [sys.executable, "-I", "-S", str(self.program), "release", "--node-dir", str(self.path)]
        subprocess.run(words, check=True, timeout=PATIENCE_S)
        if self.agent is not None:
            self.agent.wait(timeout=PATIENCE_S)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


@contextmanager
def a_node(home: Path, program: Path, direct: bool = True) -> Iterator[Node]:
    storage = home / "storage"
    storage.mkdir(exist_ok=True)
    server = Server(storage)
    node = Node(home / "node", server, program, storage if direct else None)
    try:
        yield node
    finally:
        node.release()
        server.http.shutdown()
        server.http.server_close()
