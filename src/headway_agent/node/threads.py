"""Threads that do what may block (calls, packs, removals), one thing at a time each, and hand the results back.

They know nothing of the agent's state: a job goes in, its result comes out in the inbox, which wakes the main loop.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class Inbox:
    """Where results wait for the main loop, with a pipe that wakes it."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._queue: SimpleQueue[tuple[Callable[[Any], None], Any]] = SimpleQueue()

    def put(self, then: Callable[[Any], None], result: Any) -> None:
        self._queue.put((then, result))
        self.wake()

    def wake(self) -> None:
        try:
            os.write(self._write_end, b"x")
        except BlockingIOError:
            pass  # Full of wake-ups already.

    def take_all(self) -> None:
        """Hand every waiting result to whoever asked for it."""
        try:
            while len(os.read(self.read_end, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                then, result = self._queue.get_nowait()
            except Empty:
                return
            then(result)


class BackgroundThread:
    def __init__(self, name: str, inbox: Inbox) -> None:
        self._inbox = inbox
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None] | None]] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def ask(self, job: Callable[[], Any], then: Callable[[Any], None] | None = None) -> None:
        """Do the job on this thread; its result, or what it raised, is handed to `then` in the main loop."""
        self._jobs.put((job, then))

    def _work(self) -> None:
        while True:
            job, then = self._jobs.get()
            try:
                result = job()
            except Exception as error:
                result = error
            if then is not None:
                self._inbox.put(then, result)
