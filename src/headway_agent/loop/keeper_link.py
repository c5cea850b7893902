"""The agent's end of the keeper's socket: finds a keeper or starts one, speaks to it in batches, hears its lines."""

from __future__ import annotations

import json
import os
import socket
import sys

from headway_agent.keeper import spawn
from headway_agent.node.directory import NodeDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SEND_S_MAX = 30.0


class KeeperGone(Exception):
    pass


class KeeperLink:
    """Orders are collected during a turn of the agent's loop and sent as one message of each kind."""

    def __init__(self, node_dir: NodeDir, base: dict[str, str]) -> None:
        self.node_dir = node_dir
        self.base = base
        self.sock: socket.socket | None = None
        self.heard = b""
        self.child = 0  # A keeper that this agent has started.
        self.clear()

    def clear(self) -> None:
        self.lease: tuple[float, float] | None = None
        self.holds: list[dict[str, Any]] = []
        self.gos: list[list[Any]] = []
        self.stops: list[list[Any]] = []
        self.forgets: list[str] = []

    def connect(self) -> bool:
        """Try to reach the keeper; start one where there is none. False: try again in a moment."""
        directory = os.open(self.node_dir.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(f"/proc/self/fd/{directory}/keeper.sock")
        except OSError:
            sock.close()
            self._start()
            return False
        finally:
            os.close(directory)
        sock.settimeout(SEND_S_MAX)
        self.sock, self.heard = sock, b""
        self.clear()
        return True

    def _start(self) -> None:
        if self.child:
            pid, _ = os.waitpid(self.child, os.WNOHANG)
            if pid == 0:
                return  # It is on its way: first it ends what a dead one left behind.
        program = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), "keeper", "--node-dir", self.node_dir.path]
        log = self.node_dir.file("keeper.err")
        self.child = os.posix_spawn(
            sys.executable,
            program,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=spawn.SIGNALS_RESET,
        )

    def lost(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def hear(self) -> list[dict[str, Any]]:
        """The messages that have come in; KeeperGone when the keeper has closed its end."""
        assert self.sock is not None
        try:
            data = self.sock.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            raise KeeperGone
        *lines, self.heard = (self.heard + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def flush(self) -> None:
        """Send what was collected. The lease goes first: without it, nothing is started."""
        if self.sock is None:
            self.clear()  # Whatever was meant for a dead keeper is decided anew when the next one has said what it has.
            return
        messages: list[dict[str, Any]] = []
        if self.lease is not None:
            messages.append({"do": "lease", "deadline_s": self.lease[0], "granted_s": self.lease[1]})
        if self.holds:
            messages.append({"do": "hold", "base": self.base, "tasks": self.holds})
        for do, tasks in (("go", self.gos), ("stop", self.stops), ("forget", self.forgets)):
            if tasks:
                messages.append({"do": do, "tasks": tasks})
        self.clear()
        if messages:
            self.send(messages)

    def send(self, messages: list[dict[str, Any]]) -> None:
        if self.sock is None:
            return
        content = b"".join(json.dumps(message, separators=(",", ":")).encode() + b"\n" for message in messages)
        try:
            self.sock.sendall(content)
        except OSError:
            self.sock.close()
            self.sock = None
            raise KeeperGone from None
