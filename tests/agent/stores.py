"""What a task asks to be prepared with: bundles in a folder, wheels, a place that counts what is fetched."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headway_agent.objects.folder import Folder
from headway_agent.objects.read import Stored
from headway_agent.prepare.steps import Site, Work
from headway_wire.claim import Claim


def a_bundle(storage: Path, files: Mapping[str, str | bytes], links: Mapping[str, str] = {}, mode: int = 0o644) -> str:
    """Put a bundle into storage as a client would, and return its digest."""
    entries: list[dict[str, Any]] = [{"path": path, "link": link, "mode": 0o777} for path, link in links.items()]
    (storage / "bundles/files").mkdir(parents=True, exist_ok=True)
    for path, said in files.items():
        content = said.encode() if isinstance(said, str) else said
        name = hashlib.sha256(content).hexdigest()
        (storage / "bundles/files" / name).write_bytes(content)
        entries.append({"path": path, "sha256": name, "size": len(content), "mode": mode})
    return a_manifest(storage, sorted(entries, key=lambda entry: str(entry["path"])))


def a_manifest(storage: Path, entries: list[dict[str, Any]]) -> str:
    said = json.dumps(entries, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(said.encode()).hexdigest()
    (storage / "bundles").mkdir(parents=True, exist_ok=True)
    (storage / f"bundles/{digest}.json").write_text(json.dumps({"files": entries}))
    return digest


def a_work(home: Path, task: str = "job1/1/0", environ: Mapping[str, str] = {}, **progress: Any) -> Work:
    """A task about to be prepared on a node whose storage is a folder."""
    directory = home / "node/tasks" / task.replace("/", "-")
    directory.mkdir(parents=True, exist_ok=True)
    (home / "storage").mkdir(exist_ok=True)
    site = Site(str(home / "cache"), Stored(lambda: Folder(str(home / "storage"))), dict(environ))
    return Work(Claim.read({"task": task, "argv": ["true"], "progress": progress}), str(directory), site)


def a_wheel(folder: Path, name: str, version: str = "1.0", needs: tuple[str, ...] = ()) -> None:
    """A package of one module that knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{name}.py": f'VERSION = "{version}"\n\n\ndef main():\n    print("{name}", VERSION)\n',
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-tool = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


class Site80:
    """A web server with a few files, that counts how often each was fetched."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.heard: list[list[str]] = []  # The names of the headers of each request.
        self.cut_short = 0  # So many answers break off in the middle.
        self.busy = False  # It answers that it has no time.
        self.before: Callable[[str], object] = lambda path: None  # Called with a path before it is answered.
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def _head(self) -> bytes | None:
                content = site.files.get(self.path)
                self.send_response(503 if site.busy else 404 if content is None else 200)
                content = None if site.busy else content
                self.send_header("Content-Length", str(len(content or b"")))
                self.send_header("ETag", f'"{hashlib.sha256(content or b"").hexdigest()[:16]}"')
                self.end_headers()
                return content

            def do_HEAD(self) -> None:
                self._head()

            def do_GET(self) -> None:
                site.fetched.append(self.path)
                site.heard.append(list(self.headers))
                site.before(self.path)
                content = self._head() or b""
                if site.cut_short:
                    site.cut_short -= 1
                    content = content[: len(content) // 2]
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
