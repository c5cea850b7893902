"""A blocking client beside an event loop: each call on a thread of its own, with a connection of its own.

A call that is cancelled hangs up, so that its thread ends at once: nothing is waited for when a program ends. How many
run at a time is limited; calls that wait for a job to end have room of their own, and never keep the others from going.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from headway.client.sdk import Client

CALLS_MOST = 64
AHEAD_MOST = 1000  # How many items of a stream are read before they are asked for.

Value = TypeVar("Value")


class CallThreads:
    def __init__(self, first: Client) -> None:
        self._first = first
        self._idle: list[Client] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rooms: dict[bool, asyncio.Semaphore] = {}

    async def call(self, ask: Callable[[Client], Value], *, waits: bool = False) -> Value:
        """What the client answers; `waits` says that it may take long."""
        async with self._room(waits):
            client = self._idle.pop() if self._idle else self._first.another()
            loop = asyncio.get_running_loop()
            answered: asyncio.Future[Value] = loop.create_future()

            def work() -> None:
                try:
                    _tell(loop, _settle, answered, answered.set_result, ask(client))
                except BaseException as error:
                    _tell(loop, _settle, answered, answered.set_exception, error)

            _start(work)
            try:
                return await answered
            except asyncio.CancelledError:
                client.link.abandon()
                raise
            finally:
                if not client.link.abandoned:
                    self._idle.append(client)

    async def each(self, ask: Callable[[Client], Iterator[Value]]) -> AsyncGenerator[Value, None]:
        """What the client yields, as it comes."""
        client = self._first.another()
        stream = _Stream[Value](asyncio.get_running_loop())
        _start(lambda: stream.fill(ask, client))
        try:
            while True:
                found, over = await stream.take()
                for item in found:
                    yield item
                if over:
                    return
        finally:
            stream.leave()
            client.link.abandon()

    def _room(self, waits: bool) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # A program may have one loop after another.
            self._loop, self._rooms = loop, {}
        return self._rooms.setdefault(waits, asyncio.Semaphore(CALLS_MOST))

    def close(self) -> None:
        for client in [*self._idle, self._first]:
            client.close()
        self._idle.clear()


class _Stream(Generic[Value]):
    """Items on their way from a thread to an event loop, a limited number ahead."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = asyncio.Event()
        self._changed = threading.Condition()
        self._items: deque[Value] = deque()
        self._over = False
        self._left = False
        self._error: BaseException | None = None

    def fill(self, ask: Callable[[Client], Iterator[Value]], client: Client) -> None:
        """On the thread: read on until the end, or until nobody listens any more."""
        error: BaseException | None = None
        try:
            for item in ask(client):
                with self._changed:
                    self._changed.wait_for(lambda: self._left or len(self._items) < AHEAD_MOST)
                    if self._left:
                        break
                    self._items.append(item)
                self._wake()
        except BaseException as met:
            error = met
        with self._changed:
            self._over, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if not self._ready.is_set():
            _tell(self._loop, self._ready.set)

    async def take(self) -> tuple[list[Value], bool]:
        """In the loop: whatever has come, and whether that was all. What the thread met is raised after the last."""
        while True:
            self._ready.clear()
            with self._changed:
                found, over = list(self._items), self._over
                self._items.clear()
                self._changed.notify()
            if over and not found and self._error is not None:
                raise self._error
            if found or over:
                return found, over and self._error is None
            await self._ready.wait()

    def leave(self) -> None:
        with self._changed:
            self._left = True
            self._changed.notify()


def _start(work: Callable[[], None]) -> None:
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="headway-call", daemon=True).start()


def _tell(loop: asyncio.AbstractEventLoop, news: Callable[..., None], *words: Any) -> None:
    try:
        loop.call_soon_threadsafe(news, *words)
    except RuntimeError:
        pass  # The loop is closed: nobody is left to hear it.


def _settle(answered: asyncio.Future[Any], settle: Callable[[Any], None], value: Any) -> None:
    if not answered.done():  # Else it was cancelled.
        settle(value)
