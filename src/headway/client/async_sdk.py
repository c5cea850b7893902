"""The SDK for asyncio: AsyncClient and AsyncJobHandle have the methods of Client and JobHandle, to be awaited.

What they do is done by those two, on threads (call_threads.py); nothing is decided here. A test holds the pairs
together: a method that one has, with its parameters, the other has too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from headway.client.call_threads import CALLS_MOST, CallThreads
from headway.client.job_handle import JobHandle, SeenJob
from headway.client.sdk import LONG_POLL_S, Client, Described, JobFilter, warn_of

if TYPE_CHECKING:
    from headway.client.code.bundle import ReadBundle, SentBundle
    from headway.client.code.prepared_job import PreparedJob
    from headway.client.story import Chunk

SHORT_POLL_S = 1.0

Value = TypeVar("Value")
SomeJob = TypeVar("SomeJob", bound="AsyncJobHandle")


class AsyncClient:
    """A way to a server for asyncio: `async with headway.AsyncClient() as client: job = await client.submit(…)`.

    It may be used by any number of tasks at once. What is cancelled is not waited for any longer; whether the server
    has carried it out by then is not known.
    """

    def __init__(self, env: Mapping[str, str] | None = None, *, patience_s: float | None = None) -> None:
        self.blocking = Client(env, patience_s=patience_s)
        self._threads = CallThreads(self.blocking)
        self._waiting = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; the next call would open another."""
        self._threads.close()

    async def call(self, ask: Callable[[Client], Value]) -> Value:
        """What a blocking Client answers, asked on a thread: `await client.call(lambda blocking: blocking.nodes())`."""
        return await self._threads.call(ask)

    def each(self, ask: Callable[[Client], Iterator[Value]]) -> AsyncGenerator[Value, None]:
        """What a blocking Client yields, read on a thread."""
        return self._threads.each(ask)

    @property
    def house(self) -> Awaited:
        """Queues, pools, licences, arrays and the outlook; every method is awaited."""
        return Awaited(self, "house")

    @property
    def selected(self) -> Awaited:
        """Many jobs at once, chosen by what they are."""
        return Awaited(self, "selected")

    @property
    def accounts(self) -> Awaited:
        """Users, projects, tokens, and the audit log; every method is awaited."""
        return Awaited(self, "accounts")

    @property
    def secrets(self) -> Awaited:
        """Set and listed by name; no call brings a value back. Every method is awaited."""
        return Awaited(self, "secrets")

    @property
    def schedules(self) -> Awaited:
        """Jobs that are submitted again and again; every method is awaited."""
        return Awaited(self, "schedules")

    @property
    def metrics(self) -> Awaited:
        """What jobs have logged: series, points and parameters; every method is awaited."""
        return Awaited(self, "metrics")

    async def submit(
        self, job: Described, *args: str | PathLike[str], key: str | None = None, force: bool = False, **wishes: Any
    ) -> AsyncJobHandle:
        """Submit a job and return at once: a script with its arguments, a command as a list, or a description (a dict).

        The wishes are a job file's keys, and `cpus`, `memory` and `gpus`; they win over the dict. `bundle=True` sends
        the project along, `bundle=False` runs in place; `environment="auto"` makes the packages. The key makes it safe
        to repeat: one key, one job. `force=True` submits what nothing here can run yet.
        """
        prepared = await self.describe(job, *args, **wishes)
        warn_of(prepared.notes)
        return await self.submit_prepared(prepared, key, force)

    async def describe(self, job: Described, *args: str | PathLike[str], **wishes: Any) -> PreparedJob:
        """What `submit` would send: the description, complete and checked, and the bundle that goes before it."""
        return await self.call(lambda it: it.describe(job, *args, **wishes))

    async def submit_prepared(
        self, prepared: PreparedJob, key: str | None = None, force: bool = False
    ) -> AsyncJobHandle:
        """Submit what `describe` has made: its bundle first, then the job."""
        return await self._handle(lambda it: it.submit_prepared(prepared, key, force))

    async def submit_raw(self, raw: Mapping[str, Any], key: str | None = None, force: bool = False) -> AsyncJobHandle:
        """Submit a description just as the server shall read it: no directory, interpreter or variable is added."""
        return await self._handle(lambda it: it.submit_raw(raw, key, force))

    async def submit_many(
        self, raws: Sequence[Mapping[str, Any]], key: str | None = None, force: bool = False
    ) -> list[str]:
        """Submit many jobs in one request, all or none; returns their ids in order."""
        return await self.call(lambda it: it.submit_many(raws, key, force))

    async def send_bundle(
        self, bundle: ReadBundle, on_progress: Callable[[SentBundle], None] = lambda sent: None
    ) -> SentBundle:
        """Bring the server those files of a bundle that it does not know; `on_progress` is called on a thread."""
        return await self.call(lambda it: it.send_bundle(bundle, on_progress))

    async def jobs(self, *, limit: int = 50, **only: Unpack[JobFilter]) -> list[dict[str, Any]]:
        """The newest jobs first, as summaries; narrowed by state, project, user, queue, name, tag, older_than or array.

        `state` may be several, with commas; `name` a pattern (`fit-*`); `tag` a `K` or `K=V`, or a list of them;
        `older_than` a time such as `7d`. With `grouped=True` an array is one of them, with `states` and `count`.
        """
        return await self.call(lambda it: it.jobs(limit=limit, **only))

    async def job(self, ref: str) -> AsyncJobHandle:
        """The job of this id, unique beginning of an id, or name (the newest)."""
        return await self._handle(lambda it: it.job(ref))

    async def detail(self, ref: str) -> dict[str, Any]:
        """All that is known of a job: its summary, description, attempts and places."""
        return await self.call(lambda it: it.detail(ref))

    async def why(self, ref: str) -> dict[str, Any]:
        """Why a job is in the state that it is in: a sentence, and the evidence for it."""
        return await self.call(lambda it: it.why(ref))

    async def stop(self, ref: str, grace_s: float | None = None, drop_files: bool = False) -> dict[str, Any]:
        """Ask a job to end. One that has ended, and whose files are being saved, only with `drop_files`."""
        return await self.call(lambda it: it.stop(ref, grace_s, drop_files))

    async def retry(self, ref: str) -> dict[str, Any]:
        """Let a backing-off job go now; of an ended job, make a new one."""
        return await self.call(lambda it: it.retry(ref))

    async def preempt(self, ref: str, grace_s: float | None = None) -> dict[str, Any]:
        """Let a job make room: it is told, may save within its grace, and starts again from its newest checkpoint."""
        return await self.call(lambda it: it.preempt(ref, grace_s))

    async def checkpoints(self, ref: str) -> list[dict[str, Any]]:
        """The checkpoints that are kept of a job, the newest first."""
        return await self.call(lambda it: it.checkpoints(ref))

    async def checkpoint_files(self, ref: str, step: int, parts: bool = False) -> list[dict[str, Any]]:
        """What a checkpoint consists of: the first files of each task; with `parts`, all of them, with their hashes."""
        return await self.call(lambda it: it.checkpoint_files(ref, step, parts))

    def checkpoint_pieces(
        self, ref: str, step: int, file: Mapping[str, Any], start: int = 0
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """The bytes of one file of a checkpoint from an offset on, each piece with its place."""
        return self.each(lambda it: it.checkpoint_pieces(ref, step, file, start))

    async def pin(self, ref: str, step: int, pinned: bool = True) -> None:
        """Keep a checkpoint whatever the retention says, or no longer."""
        await self.call(lambda it: it.pin(ref, step, pinned))

    async def fork(
        self,
        ref: str,
        step: int | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> AsyncJobHandle:
        """Submit a new job that begins from a checkpoint of another (the newest, without a step)."""
        return await self._handle(lambda it: it.fork(ref, step, params, key, changes))

    async def rerun(
        self,
        ref: str,
        key: str | None = None,
        params: Mapping[str, Any] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> AsyncJobHandle:
        """Submit the same job anew: the same code, packages, inputs, parameters and seed, but for changes."""
        return await self._handle(lambda it: it.rerun(ref, key, params, changes))

    async def diff(self, one: str, other: str) -> dict[str, Any]:
        """What differs between two jobs: code, packages, parameters, results."""
        return await self.call(lambda it: it.diff(one, other))

    async def artifacts(self, ref: str) -> list[dict[str, Any]]:
        """The files that are kept of a job, with attempt, path, size and hash."""
        return await self.call(lambda it: it.artifacts(ref))

    def artifact_pieces(
        self, ref: str, artifact: Mapping[str, Any], start: int = 0
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """The bytes of an artifact from an offset on, each piece with its place."""
        return self.each(lambda it: it.artifact_pieces(ref, artifact, start))

    async def forget(self, ref: str) -> None:
        """Delete the record of an ended job, and its logs."""
        await self.call(lambda it: it.forget(ref))

    async def wait(self, ref: str, timeout_s: float | None = None) -> tuple[dict[str, Any], bool]:
        """Wait until the job has ended, or the time is up; returns its detail and whether it has ended."""
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        self._waiting += 1
        try:
            while True:
                # Where more wait than there is room for, they take turns.
                turn_s = LONG_POLL_S if self._waiting <= CALLS_MOST else SHORT_POLL_S
                left_s = turn_s if give_up_at is None else min(turn_s, max(0.0, give_up_at - time.monotonic()))
                seen, ended = await self._threads.call(methodcaller("wait", ref, left_s), waits=True)
                if ended or (give_up_at is not None and time.monotonic() >= give_up_at):
                    return seen, ended
        finally:
            self._waiting -= 1

    async def as_completed(
        self, jobs: Iterable[SomeJob], timeout_s: float | None = None
    ) -> AsyncGenerator[SomeJob, None]:
        """Yield jobs as they end; TimeoutError when the time is up and some have not."""
        left = {asyncio.ensure_future(each.wait()): each for each in dict.fromkeys(jobs)}
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while left:
                left_s = None if give_up_at is None else max(0.0, give_up_at - time.monotonic())
                done, _ = await asyncio.wait(left, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    raise TimeoutError(f"{len(left)} of the jobs have not ended within {timeout_s:g} s")
                for each in done:
                    job = left.pop(each)
                    each.result()
                    yield job
        finally:
            for each in left:
                each.cancel()

    async def logs_index(self, ref: str, fresh: bool = False, times: bool = False) -> list[dict[str, Any]]:
        """What output there is; a fresh one has what a running job wrote until now, if its nodes answer at once.

        With `times`, the ranges of each file are as small as it is known when they were written.
        """
        return await self.call(lambda it: it.logs_index(ref, fresh, times))

    async def logs_raw(
        self,
        ref: str,
        attempt: int,
        offset: int,
        *,
        task: int = 0,
        rank: int = 0,
        stream: str = "out",
        limit: int = 1 << 20,
        wait_s: float = 0.0,
    ) -> Chunk:
        """Bytes of one log file from an offset on; with `wait_s`, as soon as there are any."""
        return await self._threads.call(
            lambda it: it.logs_raw(
                ref, attempt, offset, task=task, rank=rank, stream=stream, limit=limit, wait_s=wait_s
            ),
            waits=wait_s > 0,
        )

    async def past_events(self, job: str = "", most: int = 500) -> list[dict[str, Any]]:
        """The newest events, oldest first: of one job, by its id, or of all."""
        return await self.call(lambda it: it.past_events(job, most))

    def events(self, after: int = 0, job: str = "") -> AsyncGenerator[dict[str, Any], None]:
        """Every event after a sequence number, for ever; survives a server that goes and comes back."""
        return self.each(lambda it: it.events(after, job))

    async def nodes(self) -> list[dict[str, Any]]:
        """The nodes, with what each has, and what of it is free."""
        return await self.call(lambda it: it.nodes())

    async def server(self) -> dict[str, Any]:
        """What the server says of itself: its version, engines, and who leads."""
        return await self.call(lambda it: it.server())

    async def _handle(self, ask: Callable[[Client], JobHandle]) -> AsyncJobHandle:
        made = await self.call(ask)
        return AsyncJobHandle(self, made.seen, made.array)


class AsyncJobHandle(SeenJob):
    """One job, as the server last described it: `wait` and `refresh` look anew."""

    def __init__(self, client: AsyncClient, seen: Mapping[str, Any], array: Mapping[str, Any] | None = None) -> None:
        super().__init__(seen, array)
        self.client = client

    async def refresh(self) -> Self:
        """Ask the server how it is now."""
        self.seen = await self.client.detail(self.id)
        return self

    async def wait(self, timeout_s: float | None = None) -> str:
        """Wait for its end, or until the time is up; returns the state that it is in then."""
        self.seen, _ = await self.client.wait(self.id, timeout_s)
        return self.state

    def logs(self, *, follow: bool = False, attempt: int | str | None = None) -> AsyncGenerator[str, None]:
        """The lines of its log, attempt after attempt; with `follow`, until the job ends."""
        return self.client.each(lambda it: self._as_of(it).logs(follow=follow, attempt=attempt))

    async def stop(self, grace_s: float | None = None) -> None:
        """Ask it to end, and to save within its grace."""
        await self._do(lambda it: it.stop(grace_s))

    async def retry(self) -> AsyncJobHandle:
        """Let it go now if it waits to be tried again; once it has ended, the same as a new job."""
        return AsyncJobHandle(self.client, await self.client.retry(self.id))

    async def preempt(self, grace_s: float | None = None) -> None:
        """Let it make room: it saves, and starts again from its newest checkpoint."""
        await self._do(lambda it: it.preempt(grace_s))

    async def checkpoints(self) -> list[dict[str, Any]]:
        """The checkpoints that are kept of it, the newest first."""
        return await self.client.checkpoints(self.id)

    async def fork(
        self, step: int | None = None, changes: Mapping[str, Any] | None = None, **params: Any
    ) -> AsyncJobHandle:
        """A new job that begins from a checkpoint of this one, with other parameters, and with changes."""
        return await self.client.fork(self.id, step, params, changes=changes)

    async def rerun(self, changes: Mapping[str, Any] | None = None, **params: Any) -> AsyncJobHandle:
        """The same job anew: the same code, packages, inputs, parameters and seed, but for what is said here."""
        return await self.client.rerun(self.id, params=params, changes=changes)

    async def artifacts(self) -> list[dict[str, Any]]:
        """The files that are kept of it, with attempt, path, size and hash."""
        return await self.client.artifacts(self.id)

    async def download(self, directory: str, *paths: str) -> list[str]:
        """Fetch artifacts (all, without paths) into a directory, checked by their hash; returns where they lie."""
        return await self._do(lambda it: it.download(directory, *paths))

    def _as_of(self, client: Client) -> JobHandle:
        return JobHandle(client, self.seen, self.array)

    async def _do(self, act: Callable[[JobHandle], Value]) -> Value:
        """What the blocking twin does; what it has seen by that is kept."""

        def acted(client: Client) -> tuple[Value, dict[str, Any]]:
            twin = self._as_of(client)
            return act(twin), twin.seen

        value, self.seen = await self.client.call(acted)
        return value


class Awaited:
    """A part of a client, whose methods are called on a thread: `await client.house.queues()`."""

    def __init__(self, client: AsyncClient, part: str) -> None:
        self._client = client
        self._part = part

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not callable(getattr(getattr(self._client.blocking, self._part), name)):
            raise AttributeError(name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._client.call(lambda it: getattr(getattr(it, self._part), name)(*args, **kwargs))

        return call
