"""Many followers of one running job's log: what they cost the server in threads, memory and CPU for each new line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.house import House
from bench.idle import cpu_s, memory_mb
from bench.wires import Wire, open_wire, request

FOLLOWERS = 200
LINE_EVERY_S = 0.5
LOOK_S = 10.0
SETTLE_S = 2.0
READY_S_MAX = 60.0
WAIT_S = 20
WRITES = [
    "/bin/sh",
    "-c",
    f"while :; do echo a line of an ordinary log, of ordinary length; sleep {LINE_EVERY_S}; done",
]


@dataclass(frozen=True)
class Found:
    threads_alone: int
    threads: int
    kb_each: float
    lines: float
    cpu_ms_per_line: float
    cpu_ms_per_line_alone: float


class Follower:
    """Asks for what comes after what it has, again and again, as `headway logs -f` does."""

    def __init__(self, path: str, token: str, wire: Wire) -> None:
        self._path, self._token, self._wire = path, token, wire
        self.data = b""
        self.failed = ""

    def ask(self) -> None:
        path = f"{self._path}&offset={len(self.data)}&wait_s={WAIT_S}"
        self._wire.send(request("GET", path, self._token), self._heard)

    def _heard(self, status: int, headers: Mapping[bytes, bytes], answer: bytes) -> None:
        if status != 200:
            self.failed = f"{status} {answer[:200]!r}"
            return
        self.data += answer
        self.ask()

    def close(self) -> None:
        self._wire.close()


def measure(mine: House, followers: int = FOLLOWERS) -> Found:
    line = mine.connect()
    job = line.ask("POST", "/jobs", {"job": {"command": WRITES, "resources": {"cpus": 0.1}}})["job"]["id"]
    try:
        return asyncio.run(_measure(mine, job, followers))
    finally:
        mine.run("cancel", job)


async def _measure(mine: House, job: str, followers: int) -> Found:
    url, token = urlsplit(mine.read("server.json")["url"]), (mine.state / "token").read_text().strip()
    path = f"/api/v1/jobs/{job}/logs/raw?attempt=1"
    crowd: list[Follower] = []

    async def add(count: int) -> None:
        for _ in range(count):
            crowd.append(Follower(path, token, await open_wire(url.hostname or "", url.port or 0)))
            crowd[-1].ask()
        await _until(lambda: all(each.data for each in crowd), crowd)
        await asyncio.sleep(SETTLE_S)

    pid = mine.server_pid
    await _until_runs(mine, job)
    await add(1)
    alone_ms, _ = await _per_line_ms(pid, crowd)
    threads_alone, (rss_alone, _) = _threads(pid), memory_mb(pid)
    await add(followers - 1)
    each_ms, lines = await _per_line_ms(pid, crowd)
    threads, (rss, _) = _threads(pid), memory_mb(pid)
    longest = max((each.data for each in crowd), key=len)
    for each in crowd:
        if each.failed or not longest.startswith(each.data) or len(each.data) < len(longest) / 2:
            raise RuntimeError(f"a follower read something else, or nothing: {each.failed or each.data[-200:]!r}")
        each.close()
    return Found(threads_alone, threads, 1000 * (rss - rss_alone) / max(1, followers - 1), lines, each_ms, alone_ms)


async def _per_line_ms(pid: int, crowd: list[Follower]) -> tuple[float, float]:
    """The server's CPU for each new line that all of them got, and how many there were."""
    before, cpu = sum(len(each.data) for each in crowd), cpu_s(pid)
    await asyncio.sleep(LOOK_S)
    length = crowd[0].data.index(b"\n") + 1
    lines = (sum(len(each.data) for each in crowd) - before) / length / len(crowd)
    return 1000 * (cpu_s(pid) - cpu) / max(1.0, lines), lines


async def _until_runs(mine: House, job: str) -> None:
    line = mine.connect()
    give_up_at = time.monotonic() + READY_S_MAX
    while line.ask("GET", f"/jobs/{job}")["state"] != "running":
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"{job} does not run")
        await asyncio.sleep(0.1)
    line.close()


async def _until(condition: Callable[[], bool], crowd: list[Follower]) -> None:
    give_up_at = time.monotonic() + READY_S_MAX
    while not condition():
        if time.monotonic() > give_up_at or any(each.failed for each in crowd):
            raise RuntimeError(f"followers read nothing: {next((each.failed for each in crowd if each.failed), '')}")
        await asyncio.sleep(0.1)


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
