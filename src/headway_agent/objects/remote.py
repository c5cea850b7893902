"""Storage that is elsewhere: objects travel by signed addresses, which the server hands out in batches.

The address is the bucket's own, or one of the server's, where storage is a folder there; here both are the same. A node
holds no key to storage. How long an address is good is counted by this node's stopwatch, never by its time of day.
"""

from __future__ import annotations

import os
import re
import threading
import time

from headway_agent.node.directory import boottime_s
from headway_agent.objects.folder import Folder, Missing, NotJoined, StoreFailed, StoreRefused, is_copy
from headway_agent.objects.read import Stored
from headway_agent.server_link.http import Connection, ServerHome, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

    from headway_agent.objects.folder import Piece
    from headway_wire.reply import StorageTold

TRIES = 7
PAUSE_S_MIN, PAUSE_S_MAX = 0.2, 5.0
RETRY_AFTER_S_MAX = 30.0
OBJECT_S_MAX = 120.0  # Without a byte coming or going.
URLS_S_MAX = 30.0
JOIN_S_MAX = 900.0
AHEAD = 16  # Keys that are numbered get addresses for the next ones too.
LINKS_MAX = 4096
GOOD_PART = 0.8  # Of its time an address is used; then a new one is asked for.
MISSING = ("NoSuchKey", "BlobNotFound")  # What buckets say of an object that they do not have.
NUMBERED = re.compile(r"(.*[-.])(\d{1,9})")


class SignedLink:
    __slots__ = ("headers", "origin", "path", "until_s")

    def __init__(self, url: str, headers: dict[str, str], until_s: float) -> None:
        scheme, mark, rest = url.partition("://")
        self.origin, self.path = "", url  # At home, wherever that is by now.
        if mark:
            authority, _, path = rest.partition("/")
            self.origin, self.path = f"{scheme}://{authority}", f"/{path}"
        self.headers = headers
        self.until_s = until_s


class Links:
    """Addresses that were handed out, kept while they are good."""

    def __init__(self, home: ServerHome, node: str, mark: str = "") -> None:
        self._node, self._mark = node, mark
        self._lock = threading.Lock()
        self._connection = Connection(home)
        self._known: dict[tuple[str, str], SignedLink] = {}

    def find(self, method: str, key: str) -> SignedLink:
        """The address for a key. Raises StoreRefused where the server gives none, Unreachable where it is silent."""
        with self._lock:
            link = self._known.get((method, key))
            if link is None or boottime_s() >= link.until_s:
                self._ask(method, [key, *_following(key)])
                link = self._known.get((method, key))
        if link is None:
            raise StoreRefused(f"the server gives no address for {key}: it is not of a living attempt of this node")
        return link

    def expect(self, method: str, keys: Sequence[str]) -> None:
        """Many of these will be wanted: ask for all of them at once."""
        with self._lock:
            fresh = [key for key in keys if (method, key) not in self._known]
            try:
                for at in range(0, len(fresh), 500):
                    self._ask(method, fresh[at : at + 500])
            except (Unreachable, StoreFailed):
                pass  # Each will be asked for when it is wanted.

    def drop(self, method: str, key: str) -> None:
        with self._lock:
            self._known.pop((method, key), None)

    def _ask(self, method: str, keys: Sequence[str]) -> None:
        begin_s = boottime_s()
        body = {"node": self._node, "method": method, "keys": list(keys)}
        status, answer = self._connection.post("/agent/urls", body, URLS_S_MAX)
        if status == 401:
            self._connection.home.read_token()
        if status == 421 and isinstance(answer.get("leader"), str):
            self._connection.home.pointed_to(answer["leader"])
        if status >= 300 or "urls" not in answer:
            raise Unreachable(f"the server answered {status} when asked for addresses")
        if str(answer.get("storage", self._mark)) != self._mark:
            # What is stored there would be told of as stored here. The next sync says the same, and all begins anew.
            raise StoreFailed("the server's storage is elsewhere by now")
        if len(self._known) > LINKS_MAX:
            self._known.clear()
        until_s = begin_s + float(answer["good_for_s"]) * GOOD_PART
        headers = {str(name): str(value) for name, value in (answer.get("headers") or {}).items()}
        for key, url in answer["urls"].items():
            self._known[method, key] = SignedLink(url, headers, until_s)


def _following(key: str) -> list[str]:
    numbered = NUMBERED.fullmatch(key)
    if numbered is None:
        return []
    first = int(numbered.group(2))
    return [f"{numbered.group(1)}{number}" for number in range(first + 1, first + AHEAD)]


class RemoteObjects:
    """Objects as `folder.Folder` has them, but far away. Any number of threads may use it."""

    object_bytes_max = 16 << 20  # One is held in memory while it travels.
    chunk_bytes = 16 << 20  # Larger artifacts travel as chunks of this size, and are joined there.
    artifact_bytes_max = 4 << 30
    in_flight = 2
    nearby = False

    def __init__(
        self, home: ServerHome, node: str, mark: str = "", pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._home, self._pause, self.mark = home, pause, mark
        self.links = Links(home, node, mark)
        self._idle: dict[str, list[Connection]] = {}
        self._lock = threading.Lock()
        self.at_home = True  # Whether the last address was one of the server's.
        self._stored: dict[str, str] = {}  # Chunks that arrived, by their key: a cut upload goes on behind them.

    def draft(self) -> RemoteDraft:
        return RemoteDraft(self)

    def put(self, key: str, content: bytes | bytearray, sha256: str = "") -> None:
        self._ask("PUT", key, content, {}, sha256)

    def put_chunk(self, key: str, content: bytes | bytearray, sha256: str) -> None:
        """Store a chunk, unless it has arrived before."""
        if self._stored.get(key) != sha256:
            self.put(key, content, sha256)
            self._stored[key] = sha256

    def join(self, key: str, chunks: Sequence[str], size: int, sha256: str) -> None:
        """Let the server make one object of chunks."""
        body = {"node": self.links._node, "key": key, "parts": list(chunks), "size": size, "sha256": sha256}

        def join() -> tuple[int, bytes, float]:
            connection = self._take("")
            status, _ = connection.post("/agent/join", body, JOIN_S_MAX)
            wait_s = _retry_after_s(connection)
            self._give_back("", connection)
            if status in (400, 404):  # Something is wrong with the chunks: send all of them anew.
                for chunk in chunks:
                    self._stored.pop(chunk, None)
                raise NotJoined(f"{key}: the chunks could not be joined ({status})")
            if status == 403:
                raise StoreRefused(f"the server refused {key}")
            return status, b"", wait_s

        self._again(key, join)
        for chunk in chunks:
            self._stored.pop(chunk, None)

    def settle(self) -> None:
        pass  # Answered only when an object is durable.

    def expect(self, keys: Sequence[str]) -> None:
        self.links.expect("GET", keys)

    def read(self, key: str, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        status, content = self._ask("GET", key, b"", {"Range": f"bytes={start}-{end - 1}"})
        if status != 206:
            content = content[start:end]  # Who knows no ranges sends the whole.
        if len(content) != end - start:
            raise Missing(f"{key} has no {end - start} bytes from {start} on")
        return content

    def read_some(self, key: str, start: int, count: int) -> bytes:
        """Up to so many bytes; none at the object's end."""
        try:
            status, content = self._ask("GET", key, b"", {"Range": f"bytes={start}-{start + count - 1}"})
        except _BeyondEnd:
            return b""
        return content if status == 206 else content[start : start + count]

    def read_all(self, key: str) -> bytes:
        return self._ask("GET", key, b"", {})[1]

    # --- one call ---

    def _ask(
        self, method: str, key: str, content: bytes | bytearray, headers: dict[str, str], sha256: str = ""
    ) -> tuple[int, bytes]:
        return self._again(key, lambda: self._once(method, key, content, headers, sha256))

    def _once(
        self, method: str, key: str, content: bytes | bytearray, headers: dict[str, str], sha256: str
    ) -> tuple[int, bytes, float]:
        link = self.links.find(method, key)
        self.at_home = not link.origin
        sent = dict(headers, **link.headers)
        if method == "PUT":
            sent.update(_sums(content, sha256, self.at_home))
        connection = self._take(link.origin)
        status, answer = connection.request(method, link.path, content, OBJECT_S_MAX, headers=sent)
        wait_s, fields = _retry_after_s(connection), connection.fields
        self._give_back(link.origin, connection)
        if status == 416:
            raise _BeyondEnd(f"{key} does not go so far")
        if status == 404 and method == "GET" and (not link.origin or _said(answer) in MISSING):
            # Any other 404 (no such bucket, a gateway's own) says nothing of the object, and is tried again.
            raise Missing(f"storage has no object {key}")
        if status in (401, 403):
            self.links.drop(method, key)  # No longer good, whatever our clocks say.
        if status == 413:
            raise StoreRefused(f"{key} is too large for storage")
        if method == "GET" and status < 300 and not {"content-length", "transfer-encoding"} & set(fields):
            raise Unreachable("an answer without a length may be half of one")
        return status, answer, wait_s

    def _again(self, key: str, once: Callable[[], tuple[int, bytes, float]]) -> tuple[int, bytes]:
        """Try until it is done: with pauses that grow, are never the same, and are as long as storage asks for."""
        problem, wait_s = "", 0.0
        for number in range(TRIES):
            if number:
                pause_s = min(PAUSE_S_MAX, PAUSE_S_MIN * 2 ** (number - 1)) * (0.5 + os.urandom(1)[0] / 256)
                self._pause(max(pause_s, wait_s))
            try:
                status, answer, wait_s = once()
            except Unreachable as error:
                problem, wait_s = str(error), 0.0
                continue
            if status < 300:
                return status, answer
            problem = f"storage answered {status}" + (f" ({said})" if (said := _said(answer)) else "")
        raise StoreFailed(f"{key}: {problem}")

    def _take(self, origin: str) -> Connection:
        with self._lock:
            idle = self._idle.setdefault(origin, [])
            if idle:
                return idle.pop()
        return Connection(ServerHome(origin, "", "") if origin else self._home)  # Our token is not shown elsewhere.

    def _give_back(self, origin: str, connection: Connection) -> None:
        """Only those that brought a whole answer; others are left to be closed."""
        with self._lock:
            self._idle[origin].append(connection)


class _BeyondEnd(Missing):
    """Nothing begins there."""


class RemoteDraft:
    def __init__(self, remote: RemoteObjects) -> None:
        import hashlib

        self._remote = remote
        self._content = bytearray()
        self._digest = hashlib.sha256() if remote.at_home else None  # Hashed while others travel.

    def write(self, piece: Piece) -> None:
        self._content += piece
        if self._digest is not None:
            self._digest.update(piece)

    def finish(self, key: str) -> None:
        self._remote.put(key, self._content, self._digest.hexdigest() if self._digest is not None else "")
        self.drop()

    def drop(self) -> None:
        self._content = bytearray()


def _sums(content: bytes | bytearray, sha256: str, at_home: bool) -> dict[str, str]:
    """What lets the other side see that the bytes are ours: buckets know Content-MD5, the server our own header."""
    import hashlib

    if at_home:
        return {"Headway-Sha256": sha256 or hashlib.sha256(content).hexdigest()}
    try:
        import binascii

        return {"Content-MD5": binascii.b2a_base64(hashlib.md5(content).digest(), newline=False).decode()}
    except ValueError:
        return {}  # Not allowed on this machine.


def _retry_after_s(connection: Connection) -> float:
    said = connection.fields.get("retry-after", "")
    return min(RETRY_AFTER_S_MAX, float(said)) if said.isdigit() else 0.0


def _said(answer: bytes) -> str:
    """The few words by which storage names an error."""
    found = re.search(rb"<Code>(\w{1,60})</Code>", answer[:4096])
    return found.group(1).decode() if found else ""


class RemoteStorage:
    """Storage as this node reaches it: in its own folder on the server's host, else by signed addresses.

    Where that is, the server says with its first reply, and again when it is elsewhere. Each place is an object of its
    own, and all that is begun in one ends there: so whatever was stored is known to lie where its mark says.
    """

    def __init__(self, nearby: str, home: ServerHome, node: str) -> None:
        self._nearby, self._home, self._node = nearby, home, node
        self._place: Folder | RemoteObjects | None = None
        self.stored = Stored(self._known)

    def move(self, told: StorageTold) -> None:
        """Go where the server says that its storage is."""
        mark, copy = told.mark, told.copy
        folder = told.dir if mark else self._nearby  # An older server names neither.
        if folder and self._nearby and (not mark or is_copy(folder, mark, copy)):
            self._place = Folder(folder, mark, copy)
        else:
            self._place = RemoteObjects(self._home, self._node, mark)

    def objects(self) -> Folder | RemoteObjects | None:
        """None before the server has said where it is."""
        return self._place

    def _known(self) -> Folder | RemoteObjects:
        if self._place is None:
            raise OSError("the server has not said yet where storage is")
        return self._place

    def put(self, key: str, content: bytes) -> str:
        """Store a pack of output whole, and return the mark of the place in which it is."""
        place = self._known()
        try:
            place.put(key, content)
        except StoreFailed as problem:
            raise OSError(str(problem)) from None
        return place.mark
