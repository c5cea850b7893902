"""A proxy between a caller and an object store that misbehaves by a seeded plan: errors, waits, halves, resets."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence

FAULTS = ("500", "503", "half answer", "reset", "half request", "damaged request", "damaged answer", "slow")
SLOW_PIECE_BYTES, SLOW_PIECE_S = 16 << 10, 0.002


class FaultyProxy:
    """Each connection carries one request. `share` of them meet a fault while `on` is true."""

    def __init__(self, host: str, port: int, seed: int, share: float = 0.4) -> None:
        self._target, self._chance, self.share = (host, port), random.Random(seed), share
        self.on = True
        self.retry_after_s = 1
        self.faults: Sequence[str] = FAULTS
        self.on_put: Callable[[str], None] = lambda path: None  # Told of each PUT before it is passed on; may wait.
        self._closed = threading.Event()
        self.met: Counter[str] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            fault = self._chance.choice(self.faults) if self.on and self._chance.random() < self.share else ""
            threading.Thread(target=self._carry, args=(caller, fault), daemon=True).start()

    def _carry(self, caller: socket.socket, fault: str) -> None:
        try:
            with caller, socket.create_connection(self._target) as store:
                self._exchange(caller, store, fault)
        except OSError:
            pass  # One of them hung up; that is what is tested.

    def _exchange(self, caller: socket.socket, store: socket.socket, fault: str) -> None:
        head, body, length = _request(caller)
        if not head:
            return
        self.met[fault or "none"] += 1
        if head.startswith(b"PUT "):
            self.on_put(head.split(b" ", 2)[1].decode())
        if fault in ("500", "503"):
            _read(caller, length - len(body))
            wait = f"Retry-After: {self.retry_after_s}\r\n".encode() if fault == "503" else b""
            caller.sendall(
                f"HTTP/1.1 {fault} No\r\n".encode() + wait + b"Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return
        if (
            fault == "404"
        ):  # Not among FAULTS: who means an object that is missing, and who the bucket, is hard to tell.
            _read(caller, length - len(body))
            said = b"<Error><Code>NoSuchBucket</Code></Error>"
            caller.sendall(b"HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
            return
        if fault == "reset":
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        if fault == "half request":
            store.sendall(head + body[: len(body) // 2])
            return
        body += _read(caller, length - len(body))
        if fault == "damaged request" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        store.sendall(head + body)
        answer = b""
        while piece := store.recv(1 << 16):
            answer += piece
        if fault == "damaged answer" and not answer.endswith(b"\r\n\r\n"):
            answer = answer[:-1] + bytes([answer[-1] ^ 1])
        if fault == "slow":
            for at in range(0, len(answer), SLOW_PIECE_BYTES):
                caller.sendall(answer[at : at + SLOW_PIECE_BYTES])
                self._closed.wait(SLOW_PIECE_S)
            return
        caller.sendall(answer[: len(answer) * 2 // 3] if fault == "half answer" else answer)


def _request(caller: socket.socket) -> tuple[bytes, bytes, int]:
    """The head, changed so that the store closes after its answer; what came of the body; the body's length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = caller.recv(1 << 16)
        if not piece:
            return b"", b"", 0
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    found = [line.split(b":")[1] for line in lines if line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""]), body, int(found[0]) if found else 0


def _read(caller: socket.socket, count: int) -> bytes:
    pieces = []
    while count > 0:
        piece = caller.recv(min(count, 1 << 16))
        if not piece:
            raise ConnectionError("hung up")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
