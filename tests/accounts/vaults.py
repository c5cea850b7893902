"""A Vault as far as the server asks one: it answers every path, and notes which."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

HELD = {"token": "hf_12345678", "password": "letmein-now"}


@contextmanager
def a_vault() -> Iterator[tuple[dict[str, str], list[str]]]:
    """The variables that lead a server to it, and the paths that it is asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = json.dumps({"data": {"data": HELD}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield {"VAULT_ADDR": f"http://127.0.0.1:{server.server_address[1]}", "VAULT_TOKEN": "hvs.root"}, asked
    finally:
        server.shutdown()
        server.server_close()
