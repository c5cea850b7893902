"""Many no-op jobs, from the first byte of the request until the client has seen the last one end.

Each is a job of its own: durable before it is answered, with an attempt, a log and an exit code. The ends are seen
where any client would see them, on the event stream.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.house import House

ALL_ENDED_S_MAX = 600.0
ENDS = (b"event: JobSucceeded", b"event: JobFailed", b"event: JobCancelled")


@dataclass(frozen=True)
class Flood:
    """What was submitted, and how long it took from the first request to the last seen end."""

    jobs: int
    accepted_s: float
    wall_s: float


class Watcher:
    """Reads the event stream on a thread of its own, and counts the jobs that ended."""

    def __init__(self, house: House) -> None:
        self._line = house.connect()
        after = self._line.ask("GET", "/events/page?limit=1")["last"]
        self._response = self._line.stream(f"/events?after={after}")
        self.ended: dict[str, str] = {}
        self.failed: list[str] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, name="watcher", daemon=True).start()

    def _read(self) -> None:
        kind = b""
        try:
            for line in self._response:
                if line.startswith(b"event: "):
                    kind = line.strip()
                elif kind in ENDS and line.startswith(b"data: "):
                    with self._changed:
                        self.ended[json.loads(line[6:])["job"]] = kind[7:].decode()
                        self._changed.notify_all()
        except (OSError, ValueError, AttributeError) as error:
            # http.client has no better word than AttributeError for a response that was closed while it was read.
            self.failed.append(repr(error))

    def wait_for(self, ids: list[str]) -> None:
        """Wait until all these have ended, and insist that each succeeded."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.ended) >= len(ids), ALL_ENDED_S_MAX):
                raise RuntimeError(f"{len(self.ended)} of {len(ids)} jobs were seen to end; {self.failed}")
        wrong = [job for job in ids if self.ended.get(job) != "JobSucceeded"]
        if wrong:
            raise RuntimeError(f"{len(wrong)} jobs did not succeed, the first is {wrong[0]}")

    def close(self) -> None:
        self._line.close()


def no_op(cpus: float | None, command: list[str]) -> dict[str, Any]:
    return {"command": command, **({} if cpus is None else {"resources": {"cpus": cpus}})}


def in_one_batch(house: House, count: int, cpus: float | None, command: list[str]) -> Flood:
    """All jobs in one request."""

    def submit() -> list[str]:
        line = house.connect()
        made = line.ask("POST", "/jobs/batch", {"jobs": [no_op(cpus, command)] * count})
        line.close()
        return list(made["ids"])

    return _flood(house, count, submit)


def one_by_one(house: House, count: int, cpus: float | None, command: list[str], connections: int) -> Flood:
    """A request for each job, on so many keep-alive connections."""

    def submit() -> list[str]:
        shares: list[list[str]] = [[] for _ in range(connections)]

        def send(share: list[str], many: int) -> None:
            line = house.connect()
            for _ in range(many):
                share.append(line.ask("POST", "/jobs", {"job": no_op(cpus, command)})["job"]["id"])
            line.close()

        amounts = [count // connections + (each < count % connections) for each in range(connections)]
        threads = [threading.Thread(target=send, args=pair) for pair in zip(shares, amounts, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [job for share in shares for job in share]

    return _flood(house, count, submit)


def _flood(house: House, count: int, submit: Callable[[], list[str]]) -> Flood:
    watcher = Watcher(house)
    begin = time.perf_counter()
    ids = submit()
    accepted_s = time.perf_counter() - begin
    if len(set(ids)) != count:
        raise RuntimeError(f"{len(set(ids))} jobs were made of {count}")
    watcher.wait_for(ids)
    wall_s = time.perf_counter() - begin
    watcher.close()
    return Flood(count, accepted_s, wall_s)
