"""Somebody else's server on the port of ours."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Impostor:
    """Another user's server on the port of ours: answers everything with work to do, and notes what it hears."""

    def __init__(self, port: int = 0, prize: Path = Path("/nowhere"), seal: str = "") -> None:
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        duty = {"task": "stolen00/1/0", "do": "claim", "argv": ["touch", str(prize)], "ranks": 1, "grace_s": 1.0}
        reply = {
            "leader_epoch": 9_999_999_999,
            "lease_left_s": 1e6,
            "full": True,
            "gone": [],
            "duties_digest": "0" * 16,
        }
        reply |= {"duties": [duty], "safe": {}, "resend": False, "agent_version": "", "follow": [], "challenge": "mine"}
        impostor = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                impostor.heard.append((self.path, dict(self.headers), body))
                content = json.dumps({**reply, "url": "", "token": "mine", "ok": True, "version": "0.1.0"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                if seal:
                    self.send_header("Headway-Seal", seal)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

            def log_message(self, format: str, *words: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def paths(self) -> set[str]:
        return {path for path, _, _ in self.heard}

    @property
    def everything(self) -> str:
        return "\n".join(f"{path} {headers} {body!r}" for path, headers, body in self.heard)

    def end(self) -> None:
        self._http.shutdown()
        self._http.server_close()
