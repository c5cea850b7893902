"""Giving the node back: agent, keeper, guard and ranks are ended, and nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import time

from headway_agent.keeper import sweep
from headway_agent.keeper import table as keeper_table
from headway_agent.node import processes
from headway_agent.node.directory import NodeDir

AGENT_S_MAX = 5.0
KEEPER_S_MAX = 20.0
PAUSE_S = 0.01


def main(node_path: str) -> int:
    node_dir = NodeDir(node_path)
    if not os.path.isdir(node_dir.path):
        return 0
    _end(node_dir, "agent.pid", signal.SIGTERM, AGENT_S_MAX)
    _end(node_dir, "agent.pid", signal.SIGKILL, AGENT_S_MAX)
    _ask_keeper(node_dir)
    _wait(node_dir, "keeper.pid", KEEPER_S_MAX)
    _end(node_dir, "keeper.pid", signal.SIGKILL, AGENT_S_MAX)
    _end_unlisted(node_dir)
    table = keeper_table.replay(sweep.journal_lines(node_dir))
    ranks = [rank for task in table.tasks.values() if task.lost for rank in task.ranks]
    sweep.sweep(node_dir, node_dir.counter("keeper.epoch"), ranks)
    return 0


def _ask_keeper(node_dir: NodeDir) -> None:
    directory = os.open(node_dir.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(f"/proc/self/fd/{directory}/keeper.sock")
            sock.sendall(json.dumps({"do": "end"}).encode() + b"\n")
            sock.settimeout(KEEPER_S_MAX)
            while sock.recv(1 << 16):
                pass
    except OSError:
        pass  # No keeper listens; what is left of one is swept.
    finally:
        os.close(directory)


def _end_unlisted(node_dir: NodeDir) -> None:
    """End what no pid file names: a keeper that had just been started. A guard whose keeper is dead ends by itself."""
    give_up_at = time.monotonic() + AGENT_S_MAX
    while True:
        here = _processes_of(node_dir)
        if not here:
            return
        late = time.monotonic() > give_up_at
        for pid, words in here:
            if late or b"sweep" not in words:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # It has ended meanwhile.
        if late:
            return
        time.sleep(PAUSE_S)


def _processes_of(node_dir: NodeDir) -> list[tuple[int, list[bytes]]]:
    """Agents, keepers, guards and sweeps of this node, by their command lines."""
    path = os.fsencode(node_dir.path)
    found = []
    for seen in processes.scan():
        try:
            with open(f"/proc/{seen.pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        named = b"--node-dir" in words and path in words
        if named and b"release" not in words and seen.pid != os.getpid():
            found.append((seen.pid, words))
    return found


def _end(node_dir: NodeDir, pid_file: str, number: int, limit_s: float) -> None:
    pid = node_dir.read_pid(pid_file)
    if pid:
        try:
            os.kill(pid, number)
        except OSError:
            return
        _wait(node_dir, pid_file, limit_s)


def _wait(node_dir: NodeDir, pid_file: str, limit_s: float) -> None:
    give_up_at = time.monotonic() + limit_s
    while node_dir.read_pid(pid_file) and time.monotonic() < give_up_at:
        time.sleep(PAUSE_S)
