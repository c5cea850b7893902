"""A server that says what a test wants it to say, and breaks off where a test wants it to.

For what the real server cannot be asked to do at the right moment: losing an answer, being busy, telling the same
numbers every time. Everything else is tested against the real one.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headway.core.spec.bundle import unpack
from tests.waiting import PATIENCE_S, wait_until

TOKEN = "a-token"


class FakeServer:
    """Holds jobs and logs; `faults` are taken one per request: "drop-before", "drop-after", "cut", "away", 503,
    "hold" (until `held` is set), "page 404" (not ours) and "page 502" (a proxy's)."""

    def __init__(self, port: int = 0) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.logs: dict[tuple[str, int, int, int, str], bytes] = {}
        self.ranges: dict[tuple[str, int, int, int, str], list[list[float]]] = {}  # As the index tells them.
        self.skips: dict[tuple[str, int], int] = {}  # (job, offset): bytes left out there
        self.keys: dict[str, str] = {}
        self.faults: list[Any] = []
        self.held = threading.Event()
        self.version = ""
        self.asked: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}  # sha256: content, of bundles
        self.bundles: dict[str, dict[str, Any]] = {}
        self.checkpoints: dict[str, list[dict[str, Any]]] = {}
        self.artifacts: dict[str, list[dict[str, Any]]] = {}
        self.contents: dict[str, bytes] = {}  # path: content, of artifacts
        self.bodies: list[Any] = []
        self.changed = threading.Condition()
        self._start(port)

    def _start(self, port: int) -> None:
        handler = type("Handler", (_Handler,), {"fake": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def restart(self) -> None:
        def begun() -> bool:
            try:
                self._start(self.port)
            except OSError:
                return False  # For a moment somebody else has the port.
            return True

        wait_until(begun, what="the port that it had before")

    def add(self, job: str, *, state: str = "running", attempt: int = 1, **more: Any) -> dict[str, Any]:
        now = time.time()
        ended = state in ("succeeded", "failed", "cancelled")
        self.jobs[job] = {
            "id": job,
            "seq": len(self.jobs) + 1,
            "name": "train",
            "state": state,
            "cause": None,
            "detail": "",
            "sentence": state if state == "succeeded" else f"{state}: …",
            "project": "default",
            "user": "local",
            "queue": "default",
            "pool": "",
            "priority": 0,
            "nodes": 1,
            "attempt": attempt,
            "exit_code": 0 if state == "succeeded" else None,
            "submitted_at": now - 7200,
            "started_at": now - 3600 if attempt else None,
            "ended_at": now - 1800 if ended else None,
            "tags": {},
            "spec": {"command": ["python", "train.py"], "nodes": 1, "ranks_per_node": 1, "streams": "merged"},
            "attempts": [
                {"number": number, "tasks": [{"node": f"local-{number}"}], "sentence": "", "exit_code": None}
                for number in range(1, attempt + 1)
            ],
            "retries": {"user": 0, "platform": 0, "capacity": 0},
            "hint": "",
            "retry_of": None,
            "log_bytes": 0,
            **more,
        }
        return self.jobs[job]

    def change(self, job: str, **more: Any) -> None:
        with self.changed:
            self.jobs[job].update(more)
            self.changed.notify_all()

    def write(
        self, job: str, data: bytes, *, attempt: int = 1, rank: int = 0, stream: str = "out", at: float | None = None
    ) -> None:
        with self.changed:
            key = (job, attempt, 0, rank, stream)
            before = self.logs.get(key, b"")
            self.logs[key] = before + data
            when = float(rank) if at is None else at
            self.ranges.setdefault(key, []).append([len(before), len(before) + len(data), when])
            self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path.removeprefix("/api/v1")
        body = content if path.startswith("/bundles/files") else json.loads(content or b"{}")
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.fake.asked.append(f"{self.command} {path}")
        self.fake.bodies.append(body)
        fault = self.fake.faults.pop(0) if self.fake.faults else None
        if fault == "drop-before":
            return self._drop()
        if fault == 503:
            return self._problem(503, "unavailable", "the disk is full")
        if fault == "away":
            return self._problem(503, "unavailable", "no server leads", carried_out=False)
        if fault in ("page 404", "page 502"):
            return self._page(int(fault.split()[1]))
        if fault == "hold":
            self.fake.held.wait(PATIENCE_S)
        if path != "/health" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._problem(401, "not-allowed", "no valid token")
        answer = self._answer(path, query, body)
        if fault == "drop-after":
            return self._drop()
        status, headers, content = answer
        if self.fake.version:
            headers = {**headers, "Headway-Version": self.fake.version}
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if fault == "cut":
            self.wfile.write(content[: len(content) // 2])
            return self._drop()
        try:
            self.wfile.write(content)
        except ConnectionError:
            self._drop()  # Whoever asked has hung up.

    def _drop(self) -> None:
        self.close_connection = True

    def _page(self, status: int) -> None:
        """As something else answers, or a proxy whose server is away."""
        self.send_response(status)
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b"<html></html>")

    def _problem(self, status: int, kind: str, detail: str, **more: Any) -> None:
        content = json.dumps({"type": kind, "title": kind, "status": status, "detail": detail, **more}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, path: str, query: dict[str, str], body: Any) -> tuple[int, dict[str, str], bytes]:
        fake = self.fake
        if path == "/jobs" and self.command == "POST":
            return _json({"job": self._submitted(body)}, 201)
        if path == "/jobs":
            wanted = query.get("state", "").split(",") if query.get("state") else None
            found = [job for job in fake.jobs.values() if wanted is None or job["state"] in wanted]
            return _json({"jobs": sorted(found, key=lambda job: -job["seq"]), "next": None})
        if path.startswith("/bundles/"):
            return self._bundle(path.removeprefix("/bundles/"), body)
        if path == "/nodes":
            return _json({"nodes": fake.nodes})
        if path == "/events/page":
            found = [event for event in fake.events if event["seq"] > int(query.get("after", 0))]
            return _json({"events": found, "last": len(fake.events)})
        if path == "/events":
            found = [event for event in fake.events if event["seq"] > int(self.headers["Last-Event-ID"])]
            return 200, {}, b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in found)
        if path == "/whoami":
            return _json({"name": "mel", "kind": "user", "accounts": True, "admin": False, "roles": {}})
        if path == "/health":
            return _json({"ok": True, "version": "0.1.0"})
        if path.startswith("/jobs/"):
            _, _, ref, *rest = path.split("/")
            if ref not in fake.jobs:
                problem = {"type": "not-found", "detail": f'no job "{ref}"', "hint": "the newest is …"}
                return _json(problem, 404)
            return self._of_job(ref, "/".join(rest), query)
        return _json({"type": "not-found", "detail": path}, 404)

    def _bundle(self, what: str, body: Any) -> tuple[int, dict[str, str], bytes]:
        if what == "missing":
            return _json({"missing": [each for each in body["files"] if each not in self.fake.files]})
        if what == "files":
            self.fake.files.update(unpack(body))
        elif what.startswith("files/"):
            digest = what.removeprefix("files/")
            if hashlib.sha256(body).hexdigest() != digest:
                return _json({"type": "bad-input", "detail": "another content"}, 400)
            self.fake.files[digest] = body
        else:
            self.fake.bundles[what] = body
        return 204, {}, b""

    def _submitted(self, body: Any) -> dict[str, Any]:
        fake = self.fake
        if body["key"] not in fake.keys:
            fake.keys[body["key"]] = f"job{len(fake.jobs) + 1}"
            fake.add(fake.keys[body["key"]], state="queued", attempt=0, spec=body["job"])
        return fake.jobs[fake.keys[body["key"]]]

    def _of_job(self, ref: str, what: str, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        fake, job = self.fake, self.fake.jobs[ref]
        if what == "wait":
            ended = ("succeeded", "failed", "cancelled")
            with fake.changed:
                fake.changed.wait_for(lambda: job["state"] in ended, float(query["timeout_s"]))
            return _json({"job": job, "ended": job["state"] in ended})
        if what == "why":
            return _json({"job": ref, "state": job["state"], "sentence": job["sentence"], "evidence": {}})
        if what in ("stop", "retry", "preempt", "fork", "rerun"):
            return _json({"job": job})
        if what == "checkpoints":
            return _json({"checkpoints": fake.checkpoints.get(ref, [])})
        if what.startswith("checkpoints/") and what.endswith("/files"):
            step = int(what.split("/")[1])
            paths = [path for each in fake.checkpoints.get(ref, []) if each["step"] == step for path in each["paths"]]
            return _json({"files": [_file(path, fake.contents.get(path, b"x")) for path in paths]})
        if what == "visits":
            return _json({"type": "not-allowed", "detail": "nobody visits here"}, 403)
        if what.startswith("diff/"):
            return _json({"code": {}, "params": {"lr": [0.1, 0.2]}, "results": {"exit_code": [0, 1]}})
        if what == "artifacts":
            return _json({"artifacts": fake.artifacts.get(ref, [])})
        if what == "artifacts/raw" or (what.startswith("checkpoints/") and what.endswith("/raw")):
            content = fake.contents[query["path"]]
            asked = self.headers.get("Range")
            if asked:
                return 206, {}, content[int(asked.removeprefix("bytes=").rstrip("-")) :]
            return 200, {}, content
        if what.endswith("/pin"):
            return _json({})
        if what == "logs":
            return _json({"attempts": self._index(ref, job)})
        if what == "logs/raw":
            return self._raw(ref, job, query)
        if self.command == "DELETE":
            del fake.jobs[ref]
            return 204, {}, b""
        return _json(job)

    def _index(self, ref: str, job: dict[str, Any]) -> list[dict[str, Any]]:
        attempts = []
        for number in range(1, job["attempt"] + 1):
            files = [
                {
                    "task": task,
                    "rank": rank,
                    "stream": stream,
                    "bytes": len(data),
                    "kept": [[0, len(data)]],
                    "ranges": self.fake.ranges[of, at, task, rank, stream],
                }
                for (of, at, task, rank, stream), data in self.fake.logs.items()
                if (of, at) == (ref, number)
            ]
            over = number < job["attempt"] or job["ended_at"] is not None
            attempts.append({"number": number, "state": "ended" if over else "running", "files": files})
        return attempts

    def _raw(self, ref: str, job: dict[str, Any], query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        key = (ref, int(query["attempt"]), int(query["task"]), int(query["rank"]), query["stream"])
        offset, limit = int(query["offset"]), int(query["limit"])
        skipped = self.fake.skips.get((ref, offset), 0)

        def over() -> bool:
            return job["attempt"] > key[1] or job["ended_at"] is not None

        with self.fake.changed:
            self.fake.changed.wait_for(
                lambda: len(self.fake.logs.get(key, b"")) > offset or over(), float(query["wait_s"])
            )
            data = self.fake.logs.get(key, b"")[offset + skipped :][:limit]
            done = over() and not data
        headers = {
            "Headway-Next-Offset": str(offset + skipped + len(data)),
            "Headway-Skipped": str(skipped),
            "Headway-Done": "true" if done else "false",
        }
        return 200, headers, data


def _file(path: str, content: bytes) -> dict[str, Any]:
    halves = [each for each in (content[: len(content) // 2], content[len(content) // 2 :]) if each]
    parts = [{"size": len(each), "sha256": hashlib.sha256(each).hexdigest()} for each in halves]
    return {"task": 0, "path": path, "size": len(content), "parts": parts}


def _json(value: Any, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()
