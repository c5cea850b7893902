"""One job in the hands of a program: what the server last said of it, and what can be done with it.

A JobHandle asks its Client (sdk.py) for everything; its twin for asyncio is in async_sdk.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from headway.client.sdk import Client


class SeenJob:
    """One job, as the server last described it; `seen` has all of that."""

    def __init__(self, seen: Mapping[str, Any], array: Mapping[str, Any] | None = None) -> None:
        self.seen = dict(seen)
        self.array = dict(array or {})  # Of an array's first job: the array's id and size.
        self.id = str(seen["id"])

    def __repr__(self) -> str:
        return f"<job {self.id} {self.name}: {self.state}>"

    @property
    def name(self) -> str:
        """Its name, for people; jobs may share one."""
        return str(self.seen.get("name") or "")

    @property
    def state(self) -> str:
        """`queued`, `starting`, `running`, `stopping`, and the ends `succeeded`, `failed`, `cancelled`."""
        return str(self.seen["state"])

    @property
    def sentence(self) -> str:
        """Why it is in that state, in one sentence."""
        return str(self.seen.get("sentence") or "")


class JobHandle(SeenJob):
    """One job, as the server last described it: `wait` and `refresh` look anew."""

    def __init__(self, client: Client, seen: Mapping[str, Any], array: Mapping[str, Any] | None = None) -> None:
        super().__init__(seen, array)
        self.client = client

    def refresh(self) -> Self:
        """Ask the server how it is now."""
        self.seen = self.client.detail(self.id)
        return self

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait for its end, or until the time is up; returns the state that it is in then."""
        self.seen, _ = self.client.wait(self.id, timeout_s)
        return self.state

    def logs(self, *, follow: bool = False, attempt: int | str | None = None) -> Iterator[str]:
        """The lines of its log, attempt after attempt; with `follow`, until the job ends."""
        from headway.client.story import Story

        story = Story(self.client, self.id, attempt=attempt)
        kept = b""
        for piece in story.follow() if follow else story.tell():
            lines = (kept + piece.data).split(b"\n")
            kept = lines.pop()
            yield from (line.decode("utf-8", "replace") for line in lines)
        if kept:
            yield kept.decode("utf-8", "replace")

    def stop(self, grace_s: float | None = None) -> None:
        """Ask it to end, and to save within its grace."""
        self.seen |= self.client.stop(self.id, grace_s)

    def retry(self) -> JobHandle:
        """Let it go now if it waits to be tried again; once it has ended, the same as a new job."""
        return JobHandle(self.client, self.client.retry(self.id))

    def preempt(self, grace_s: float | None = None) -> None:
        """Let it make room: it saves, and starts again from its newest checkpoint."""
        self.seen |= self.client.preempt(self.id, grace_s)

    def checkpoints(self) -> list[dict[str, Any]]:
        """The checkpoints that are kept of it, the newest first."""
        return self.client.checkpoints(self.id)

    def fork(self, step: int | None = None, changes: Mapping[str, Any] | None = None, **params: Any) -> JobHandle:
        """A new job that begins from a checkpoint of this one, with other parameters, and with changes."""
        return self.client.fork(self.id, step, params, changes=changes)

    def rerun(self, changes: Mapping[str, Any] | None = None, **params: Any) -> JobHandle:
        """The same job anew: the same code, packages, inputs, parameters and seed, but for what is said here."""
        return self.client.rerun(self.id, params=params, changes=changes)

    def artifacts(self) -> list[dict[str, Any]]:
        """The files that are kept of it, with attempt, path, size and hash."""
        return self.client.artifacts(self.id)

    def download(self, directory: str, *paths: str) -> list[str]:
        """Fetch artifacts (all, without paths) into a directory, checked by their hash; returns where they lie."""
        from headway.client.artifacts import choose, fetch

        return [fetch(self.client, self.id, each, directory) for each in choose(self.artifacts(), paths)]
