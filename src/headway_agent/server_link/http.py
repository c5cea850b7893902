"""HTTP/1.1 as far as an agent needs it: one request at a time on a connection that is kept.

Written by hand because http.client brings 5 MB of other modules. TLS is loaded only for an https address.
"""

from __future__ import annotations

import json
import os
import socket

from headway_agent.node.directory import NEXT_TOKEN, ORDERED, write_durably, write_whole
from headway_agent.server_link.addresses import ServerAddresses
from headway_agent.server_link.seals import NO_CONTENT, PIECES, Numbers, Pieces, Seal, SealedCall, Unproven, sha256
from headway_wire.http_answer import AnswerReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

HELLO = "/agent/hello"
CONNECT_S_MAX = 10.0
TOGETHER_BYTES_MAX = 64 << 10
MISDIRECTED = 421  # This server does not lead; it may say who does.
SERVERS_MAX = 16


class Unreachable(Exception):
    """No complete answer came. Whether the server took the request in is not known."""


class ServerHome:
    """Where the server is and what we show it; both are read again, since a server may come back elsewhere.

    There may be several addresses, with commas between them: the next is tried when one is silent. A leader that a
    server pointed to is tried first. `via` is a socket that leads to the server where its address does not.
    """

    def __init__(self, urls: str, server_file: str, token_file: str, told_file: str = "") -> None:
        self._server_file, self._token_file, self._told_file = server_file, token_file, told_file
        # In a node's own directory it is handed over: the ranks there run as the same user, and could read it.
        self._takes_token = bool(told_file) and os.path.dirname(token_file) == os.path.dirname(told_file)
        self._servers = ServerAddresses(urls.split(","))
        self.via = ""
        self.token = ""
        self._seal: Seal | None = None
        self._numbers = Numbers()
        self.read_token()
        if told_file and not server_file:
            self._remember()

    def call(self, challenge: str = "") -> SealedCall | None:
        """One more call to the server, which both sides prove; none where there is no token, as for a bucket."""
        seal = self._seal
        if seal is None or seal.token != self.token:
            seal = self._seal = Seal(self.token) if self.token else None
        return SealedCall(seal, self._numbers.next(), challenge) if seal is not None else None

    def patience_s(self, alone_s: float, several_s: float) -> float:
        """How long to wait: less where another server takes the place of a silent one within seconds."""
        return several_s if self._servers.several else alone_s

    def told(self, urls: Sequence[str]) -> None:
        """The leader says where all servers are; kept, for an agent that is started again."""
        known = self._servers.urls
        fresh = [str(url) for url in urls if "://" in str(url)]
        if self._server_file or not fresh or set(fresh) <= set(known):
            return
        self._servers.urls = (fresh + [url for url in known if url not in fresh])[:SERVERS_MAX]
        try:
            write_whole(self._told_file, self._servers.urls)
        except OSError:
            pass  # What was given at the start leads there as well.

    def _remember(self) -> None:
        try:
            with open(self._told_file) as file:
                told = [str(url) for url in json.load(file)]
        except (OSError, ValueError, TypeError):
            return
        self._servers.urls += [url for url in told if url and url not in self._servers.urls]

    def url(self) -> str:
        if self._takes_token:
            self.read_token()  # Somebody may have handed over another one; no file of it stays.
        if self._server_file:
            try:
                with open(self._server_file) as file:
                    said = json.load(file)
                self._servers.urls = [url for url in str(said["url"]).split(",") if url]
                self.via = str(said.get("via", ""))
            except (OSError, ValueError, KeyError, TypeError):
                pass  # Being rewritten, or not there yet: the last known address is the best guess.
        return self._servers.now()

    def silent(self, url: str) -> None:
        """This address did not answer: try the next one."""
        self.url()
        self._servers.silent(url)

    def pointed_to(self, leader: str) -> None:
        """A server that does not lead says who does; one that does not know it is passed over."""
        self.url()
        self._servers.pointed_to("" if self.via else leader)

    def read_token(self) -> None:
        """Read the token, and leave no file with it where ranks could find one."""
        try:
            with open(self._token_file) as file:
                self.token = file.read().strip() or self.token
            if self._takes_token:
                os.unlink(self._token_file)
        except OSError:
            pass  # Kept as it was; a wrong one is answered with 401 and read again.

    def given_token(self, token: Any) -> None:
        """The server's keys were rotated: this is ours from now on."""
        if not isinstance(token, str) or not token or token == self.token:
            return
        self.token = token
        if os.environ.get(ORDERED):  # Whoever started us would start the next agent with the old one.
            write_durably(os.path.join(os.path.dirname(self._token_file), NEXT_TOKEN), token.encode())

    def hand_on_token(self) -> None:
        """Put the token back, for whoever goes on in our place at once."""
        if self._takes_token and self.token:
            write_durably(self._token_file, self.token.encode())


def open_socket(via: str, host: str, port: int, limit_s: float = CONNECT_S_MAX) -> Any:
    """Connect to the server: to its address, or to the socket through which it can be reached."""
    if not via:
        sock = socket.create_connection((host, port), limit_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    folder, _, name = via.rpartition("/")
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(limit_s)
        sock.connect(f"/proc/self/fd/{directory}/{name}")  # The path itself may be too long for a socket.
    except OSError:
        sock.close()
        raise
    finally:
        os.close(directory)
    return sock


class Connection:
    def __init__(self, home: ServerHome) -> None:
        self.home = home
        self.sock: Any = None
        self.answers = AnswerReader(self._receive)
        self.url = ""
        self.fields: dict[str, str] = {}  # The head of the last answer.
        self.challenge = ""  # What the server wants to see in each call.

    def post(self, path: str, body: Any, timeout_s: float) -> tuple[int, Any]:
        content = json.dumps(body, separators=(",", ":")).encode()
        status, answer = self.request("POST", path, content, timeout_s, "application/json")
        try:
            return status, json.loads(answer) if answer else {}
        except ValueError:
            return status, {}

    def request(
        self,
        method: str,
        path: str,
        body: bytes | bytearray,
        timeout_s: float,
        kind: str = "application/octet-stream",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send one request and return status and content, or raise Unreachable. The leader is found where need be."""
        for _ in range(2):
            status, content = self._request(method, path, body, timeout_s, kind, headers or {})
            if status != MISDIRECTED:
                return status, content
            try:
                leader = str(json.loads(content).get("leader") or "")
            except (ValueError, AttributeError):
                leader = ""
            self.home.pointed_to(leader)
            if not leader:
                break
        raise Unreachable("no server leads at the moment, or none that can be reached")

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | bytearray,
        timeout_s: float,
        kind: str,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        kept = self.sock is not None
        try:
            return self._exchange(method, path, body, timeout_s, kind, headers)
        except (OSError, ValueError, IndexError) as error:
            self.close()
            if not kept or isinstance(error, socket.timeout):
                self.home.silent(self.url)
                raise Unreachable(str(error) or type(error).__name__) from None
        # A kept connection that the server has closed meanwhile; everything we send can be said twice.
        try:
            return self._exchange(method, path, body, timeout_s, kind, headers)
        except (OSError, ValueError, IndexError) as error:
            self.close()
            self.home.silent(self.url)
            raise Unreachable(str(error) or type(error).__name__) from None

    def close(self) -> None:
        sock, self.sock, self.answers = self.sock, None, AnswerReader(self._receive)
        if sock is not None:
            sock.close()

    def _receive(self, most: int) -> bytes:
        data: bytes = self.sock.recv(most)
        return data

    def _connect(self) -> str:
        url = self.home.url()
        if url != self.url:
            self.close()  # What is kept leads to another server.
            self.url = url
        scheme, _, rest = url.partition("://")
        authority, _, prefix = rest.partition("/")
        host, _, port = authority.rpartition(":") if ":" in authority.rpartition("]")[2] else (authority, "", "")
        host = (host or authority).strip("[]")
        self.authority = authority
        way = "/" + prefix.strip("/") if prefix.strip("/") else ""
        if self.sock is None:
            sock: Any = open_socket(self.home.via, host, int(port or (443 if scheme == "https" else 80)))
            if scheme == "https":
                from headway_agent.server_link.tls import trusting

                sock = trusting().wrap_socket(sock, server_hostname=host)
            self.sock = sock
            self._greet(way)
        return way

    def _greet(self, prefix: str) -> None:
        """Let whoever answers prove to be the server, before it is told anything."""
        call = self.home.call()
        if call is None:
            return
        self.sock.settimeout(CONNECT_S_MAX)
        self._send(call, "GET", prefix, HELLO, b"", {})
        try:
            status, content = self._answer(call)
            self.challenge = str(json.loads(content).get("challenge") or "")
        except Unproven as problem:
            self.home.read_token()  # It may have been replaced meanwhile.
            raise Unproven(f"{self.url} does not prove to be the server of this node: {problem}") from None
        if status != 200:
            raise Unproven(f"{self.url} answered {status}")

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | bytearray,
        timeout_s: float,
        kind: str,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        for _ in range(2):
            prefix = self._connect()
            self.sock.settimeout(timeout_s)
            call = self.home.call(self.challenge)
            self._send(call, method, prefix, path, body, dict({"Content-Type": kind}, **headers))
            status, content = self._answer(call)
            if status != 401 or call is None or not self._challenged(content):
                break
        return status, content

    def _challenged(self, content: bytes) -> bool:
        """Whether the server, which has proven itself, wants another challenge: it was started anew behind a proxy."""
        try:
            wanted = str(json.loads(content).get("challenge") or "")
        except (ValueError, AttributeError):
            return False
        changed = bool(wanted) and wanted != self.challenge
        self.challenge = wanted or self.challenge
        return changed

    def _send(
        self,
        call: SealedCall | None,
        method: str,
        prefix: str,
        path: str,
        body: bytes | bytearray,
        headers: dict[str, str],
    ) -> None:
        if call is not None:
            content = headers.get("Headway-Sha256") or (sha256(body).hexdigest() if body else NO_CONTENT)
            headers = dict(headers, **call.headers(method, path, content, headers.get("Range", "")))
        head = f"{method} {prefix}{path} HTTP/1.1\r\nHost: {self.authority}\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        if len(body) < TOGETHER_BYTES_MAX:
            self.sock.sendall(head.encode("latin-1") + body)
        else:
            self.sock.sendall(head.encode("latin-1"))
            self.sock.sendall(body)  # Not copied once more.

    def _answer(self, call: SealedCall | None = None) -> tuple[int, bytes]:
        """The answer: with a call, only one that the server has sealed for it."""
        status, self.fields = self.answers.head()
        body, fields = b"".join(self.answers.body(status, self.fields)), self.fields
        if not self.answers.reusable:
            self.close()
        if call is not None and fields.get("headway-sealed") == PIECES:
            pieces = Pieces(call, f"piece of answer {status}")
            body = b"".join(pieces.take(body))
            if not pieces.ended:
                raise ConnectionError("the answer ended before its last piece")
        elif call is not None:
            call.check(status, body, fields.get("headway-seal", ""))
        return status, body
