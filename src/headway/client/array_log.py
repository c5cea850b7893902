"""The logs of an array's jobs, read together: each line with the id of its job.

What is there is told in the order of time; of very many jobs, one after the other. Followed, each job is read on a
thread of its own while it runs, as many as run at once; whatever ended between two looks is told in the end.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from headway.client.log_lines import HELD_LINES_MAX, LogLine, merged
from headway.client.story import Story

MERGED_MOST = 100  # More than so many are told one after the other: to put them in order, all must be open.
READERS_MOST = 64
LOOK_EVERY_S = 1.0
PAGE = 200
ALL = 1_000_000
BEGUN = "starting,running,stopping,succeeded,failed,cancelled"
OPEN = ("queued", "starting", "running", "stopping")


def array_lines(client: Any, array: str, **narrow: Any) -> Iterator[LogLine]:
    """Everything that there is now."""
    jobs = sorted(client.jobs(limit=ALL, array=array, state=BEGUN), key=lambda job: job["seq"])
    stories = [Story(client, job["id"], **narrow).lines(name=job["id"]) for job in jobs]
    if narrow.get("merge", True) and len(stories) <= MERGED_MOST:
        yield from merged(stories)
    else:
        for lines in stories:
            yield from lines


class ArrayFollower:
    """Lines of an array as its jobs write them, until all have ended."""

    def __init__(self, client: Any, array: str, **narrow: Any) -> None:
        self._client, self._array, self._narrow = client, array, narrow
        self._heard: queue.Queue[LogLine | BaseException | None] = queue.Queue(HELD_LINES_MAX)
        self._begun: set[str] = set()
        self._reading = 0
        self.ended: dict[str, Any] | None = None  # Its counts, once all its jobs have ended.

    def lines(self) -> Iterator[LogLine]:
        look_at = 0.0
        while True:
            if time.monotonic() >= look_at:
                counts = self._client.house.array_counts(self._array)
                self._look()
                look_at = time.monotonic() + LOOK_EVERY_S
                if counts is None or not any(counts["states"].get(state) for state in OPEN):
                    break
            yield from self._next(look_at - time.monotonic())
        while self._reading:
            yield from self._next(LOOK_EVERY_S)
        self.ended = counts
        for job in sorted(self._client.jobs(limit=ALL, array=self._array, state=BEGUN), key=lambda job: job["seq"]):
            if job["id"] not in self._begun:
                yield from Story(self._client, job["id"], **self._narrow).lines(name=job["id"])

    def _look(self) -> None:
        """Begin to read those that have begun, as far as there are readers."""
        for job in self._client.jobs(limit=PAGE, array=self._array, state="starting,running,stopping"):
            if self._reading < READERS_MOST and job["id"] not in self._begun:
                self._begun.add(job["id"])
                self._reading += 1
                threading.Thread(target=self._read, args=(job["id"],), name="log-reader", daemon=True).start()

    def _read(self, job: str) -> None:
        try:
            client = self._client.another()
            try:
                for line in Story(client, job, **self._narrow).lines(follow=True, name=job):
                    self._heard.put(line)
            finally:
                client.close()
            self._heard.put(None)
        except BaseException as error:
            self._heard.put(error)

    def _next(self, within_s: float) -> Iterator[LogLine]:
        try:
            got = self._heard.get(timeout=max(0.0, within_s))
        except queue.Empty:
            return
        if isinstance(got, BaseException):
            raise got
        if got is None:
            self._reading -= 1
        else:
            yield got
