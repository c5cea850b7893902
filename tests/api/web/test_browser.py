"""What a page in a browser meets: files, a session in a cookie, forged changes that change nothing, and sockets."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, Request, TextMessage

from headway.api.web.feature_routes import FeatureRoutes, Socket, StaticFiles
from headway.control.state.feature import Feature, Features
from headway.core.access.actor import Right
from headway.features.catalog import load
from tests.api.serving import TOKEN, Serving
from tests.waiting import PATIENCE_S


async def echo(services: Any, opened: WebSocket) -> None:
    await opened.accept()
    try:
        while True:
            await opened.send_text(f"{opened.scope['state']['actor'].name}: {await opened.receive_text()}")
    except WebSocketDisconnect:
        pass


class Page(Feature):
    name = "page"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def web(self) -> FeatureRoutes:
        return FeatureRoutes(
            lambda services: APIRouter(),
            {},
            static=[StaticFiles("/ui", self.folder)],
            sockets=[Socket("/ui-socket", Right.KNOWN, echo), Socket("/nobodys", Right.AGENT, echo)],
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>Headway</h1>")
    (folder / "assets/app-1a2b3c4d.js").write_text("let a = 1")
    (tmp_path / "secret.txt").write_text("nobody's business")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    with Serving(tmp_path / "storage", features=Features([*load().every, Page(folder)])) as serving:
        yield serving


def call(server: Serving, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """A call as a browser makes it: without our header."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, None, headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_files_are_there_for_anybody_and_nothing_beside_them_is(server: Serving) -> None:
    status, headers, body = call(server, "GET", "/ui")
    assert (status, body, headers["content-type"]) == (200, b"<h1>Headway</h1>", "text/html; charset=utf-8")
    assert headers["cache-control"] == "no-cache"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert call(server, "GET", "/ui", **{"If-None-Match": headers["etag"]})[0] == 304
    status, headers, body = call(server, "GET", "/ui/assets/app-1a2b3c4d.js")
    assert (status, body) == (200, b"let a = 1")
    assert "immutable" in headers["cache-control"]
    assert call(server, "GET", "/ui/jobs/abc")[2] == b"<h1>Headway</h1>", "an address that only the page knows"
    for path in ("/ui/no.js", "/ui/../secret.txt", "/ui/%2e%2e/secret.txt", "/ui/out.txt", "/ui//etc/passwd.txt"):
        status, _, body = call(server, "GET", path)
        assert status in (401, 404), path
        assert b"business" not in body
    assert call(server, "GET", "/api/v1/jobs")[0] == 401


def test_a_session_in_a_cookie_reads_and_changes_only_with_its_word(server: Serving) -> None:
    status, headers, body = call(server, "POST", "/api/v1/session", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    kept = headers["set-cookie"]
    assert all(word in kept for word in ("HttpOnly", "SameSite=strict", "Path=/"))
    cookie, csrf = kept.split(";")[0], json.loads(body)["csrf"]
    assert TOKEN not in body.decode()
    assert call(server, "GET", "/api/v1/jobs", Cookie=cookie)[0] == 200
    assert json.loads(call(server, "GET", "/api/v1/session", Cookie=cookie)[2])["csrf"] == csrf
    for forged in ({}, {"X-Headway-Csrf": "0" * 32}):
        status, _, body = call(server, "POST", "/api/v1/plan", Cookie=cookie, **forged)
        assert status == 403
        assert "X-Headway-Csrf" in json.loads(body)["detail"]
    assert call(server, "DELETE", "/api/v1/session", Cookie=cookie, **{"X-Headway-Csrf": csrf})[0] == 204
    assert call(server, "GET", "/api/v1/jobs", Cookie="headway_session=wrong")[0] == 401
    assert call(server, "GET", "/api/v1/jobs", Cookie='headway_session="; x')[0] == 401


class Opened:
    """A websocket, as a browser opens it."""

    def __init__(self, server: Serving, path: str, headers: dict[str, str]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        self.wire = WSConnection(ConnectionType.CLIENT)
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.socket.sendall(self.wire.send(Request(host=f"127.0.0.1:{server.port}", target=path, extra_headers=extra)))

    def hear(self) -> Any:
        while True:
            for event in self.wire.events():
                return event
            self.wire.receive_data(self.socket.recv(65536) or None)

    def say(self, text: str) -> str:
        self.socket.sendall(self.wire.send(TextMessage(data=text)))
        return str(self.hear().data)

    def close(self) -> None:
        self.socket.sendall(self.wire.send(CloseConnection(code=1000)))
        self.socket.close()


def test_a_socket_is_opened_by_pages_of_this_server_and_by_whoever_has_a_token(server: Serving) -> None:
    cookie, here = f"headway_session={TOKEN}", f"http://127.0.0.1:{server.port}"
    for good in ({"Authorization": f"Bearer {TOKEN}"}, {"Cookie": cookie, "Origin": here}):
        opened = Opened(server, "/ui-socket", good)
        assert isinstance(opened.hear(), AcceptConnection)
        assert opened.say("hello").endswith(": hello")
        opened.close()
    strange = {"Cookie": cookie, "Origin": "http://elsewhere.example"}
    for bad in ({}, {"Cookie": cookie}, strange, {"Authorization": "Bearer no"}):
        opened = Opened(server, "/ui-socket", bad)
        assert isinstance(opened.hear(), RejectConnection), bad
        opened.socket.close()
    assert server.ok("GET", "/jobs") is not None, "the server lives"
