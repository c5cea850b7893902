"""The address on this machine to which trainings post how far they are: open once a task is held, on loopback alone.

The same port is taken again by the next agent of the node, since running tasks know it. A post is answered when its
points are in the spool.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from _operator import _compare_digest as same_bytes  # What hmac has; but that brings OpenSSL into every agent.

from headway_agent.collect import points, status_posts
from headway_agent.collect.spool import Spool, first_rank
from headway_agent.collect.status_posts import BAD, OK, REFUSED, StatusPost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

PORT, TOKEN = "status.port", "status.token"
POST_S_MAX = 5.0
AT_ONCE_MAX = 32
URL = "KUBEFLOW_TRAINER_SERVER_URL"
TOKEN_FILE = "KUBEFLOW_TRAINER_SERVER_TOKEN"


class StatusServer:
    def __init__(self, node_path: str, directory_of: Callable[[str], str]) -> None:
        self._node_path, self._directory_of = node_path, directory_of
        self._lock = threading.Lock()
        self._known: dict[str, tuple[dict[str, float], int | None]] = {}
        self._listener: socket.socket | None = None
        self._token = ""
        self._at_once = threading.Semaphore(AT_ONCE_MAX)

    def env(self, task: str) -> dict[str, str]:
        """The variables by which a training finds the address; none where it could not be had."""
        if self._listener is None:
            self._open()
        if self._listener is None:
            return {}
        port = self._listener.getsockname()[1]
        return {URL: f"http://127.0.0.1:{port}/status/{task}", TOKEN_FILE: os.path.join(self._node_path, TOKEN)}

    def listen_again(self) -> None:
        """An agent that finds running tasks listens where they were told to post."""
        if self._listener is None and os.path.exists(os.path.join(self._node_path, PORT)):
            self._open()

    def close(self) -> None:
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def forget(self, task: str) -> None:
        with self._lock:
            self._known.pop(task, None)

    def _open(self) -> None:
        listener = socket.socket()
        try:
            self._token = self._kept(TOKEN) or self._keep(TOKEN, os.urandom(16).hex())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = self._kept(PORT)
            try:
                listener.bind(("127.0.0.1", int(port) if port.isdigit() else 0))
            except OSError:
                listener.bind(("127.0.0.1", 0))  # Somebody else has it: what runs now is read from its files.
            listener.listen(AT_ONCE_MAX)
            self._keep(PORT, str(listener.getsockname()[1]))
        except OSError:
            listener.close()
            return
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name="status", daemon=True).start()

    def _kept(self, name: str) -> str:
        try:
            with open(os.path.join(self._node_path, name)) as file:
                return file.read().strip()
        except OSError:
            return ""

    def _keep(self, name: str, text: str) -> str:
        path = os.path.join(self._node_path, name)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(text)
        return text

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            if not self._at_once.acquire(blocking=False):
                caller.close()
                continue
            threading.Thread(target=self._serve, args=(caller,), name="status post", daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        try:
            with caller:
                caller.settimeout(POST_S_MAX)
                post, whole = StatusPost(), False
                while not whole:
                    data = caller.recv(1 << 16)
                    if not data:
                        return
                    whole = post.feed(data)
                caller.sendall(status_posts.answer(post.status or self._take(post)))
        except OSError:
            pass  # It went away, or was too slow: it posts again.
        finally:
            self._at_once.release()

    def _take(self, post: StatusPost) -> str:
        if not same_bytes(post.token.encode(), self._token.encode()):
            return REFUSED
        directory = self._directory_of(post.task) if post.task.count("/") == 2 else ""
        if post.body is None or not directory or ".." in post.task or not os.path.isdir(directory):
            return BAD
        with self._lock:
            known, last_step = self._known.get(post.task, ({}, None))
            found, step = status_posts.read_status(post.body, time.time(), last_step)
            new = status_posts.fresh(found, known)
            Spool(directory, first_rank(directory)).append(points.lines_of(new, status_posts.KIND, 0))
            self._known[post.task] = (known, step)
        return OK
