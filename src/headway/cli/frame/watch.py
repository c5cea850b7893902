"""What is being waited for: silent for a second, then a line, or on a terminal a mark that turns until it is over.

A thread of its own draws, since whatever takes long (a name that is looked up, a server that is stopped) holds up the
one that asks. What is waited for lies in a stack: of what lasts, the weightiest is said, and the innermost of those.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headway.cli.frame.output import Output, harmless, on_terminal
from headway.client.connection.http import PLAIN
from headway.core.units import show_duration

SAY_AFTER_S = 1.0
SAY_AGAIN_S = 15.0  # Where lines stay, one that has changed is said again so often at the most.
TURN_EVERY_S = 0.1
SLACK_S = 0.25  # What is nearly due is told at once with what is: it began a moment later, within it.
MARKS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_MARKS = "|/-\\"

Sentence = Callable[[], str]


class Wait:
    """One thing that is waited for: how it is said, since when, and from when on it is worth saying."""

    __slots__ = ("began_at", "due_at", "said", "said_at", "sentence", "weight")

    def __init__(self, sentence: Sentence, began_at: float, due_at: float, weight: int) -> None:
        self.sentence = sentence
        self.began_at = began_at
        self.due_at = due_at
        self.weight = weight
        self.said = ""
        self.said_at = 0.0


class Watch:
    """Says what a command waits for. Used by one thread; a second one draws."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._drawn = False
        self._stack: list[Wait] = []
        self._told: set[str] = set()  # Lines that were printed: one server that is slow again and again is told once.
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._silent = output.quiet or output.machine
        self._turning = on_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._marks = MARKS if "utf" in (getattr(sys.stderr, "encoding", "") or "").lower() else PLAIN_MARKS

    def begin(self, sentence: str | Sentence, after_s: float | None = SAY_AFTER_S, weight: int = PLAIN) -> None:
        """From now on this is waited for; worth a word after so long, or (None) when what it is a part of is."""
        now = time.monotonic()
        with self._lock:
            if after_s is None:
                due_at = self._stack[-1].due_at if self._stack else now + SAY_AFTER_S
            else:
                due_at = now + after_s
            self._stack.append(Wait(sentence if callable(sentence) else lambda: sentence, now, due_at, weight))
        if self._thread is None and not self._silent:
            self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
            self._thread.start()
        self._wake.set()

    def end(self) -> None:
        """What began last is over."""
        with self._lock:
            if self._stack:
                self._stack.pop()
            self._erase()

    @contextmanager
    def over(
        self, sentence: str | Sentence, after_s: float | None = SAY_AFTER_S, weight: int = PLAIN
    ) -> Iterator[None]:
        self.begin(sentence, after_s, weight)
        try:
            yield
        finally:
            self.end()

    def clear(self) -> None:
        """Make room for a line of somebody else's."""
        if self._drawn:
            with self._lock:
                self._erase()

    def _watch(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                due = [each for each in self._stack if each.due_at <= now]
                next_at = min((each.due_at for each in self._stack if each.due_at > now), default=None)
                if due:
                    soon = [each for each in reversed(self._stack) if each.due_at <= now + SLACK_S]
                    said = max(soon, key=lambda each: each.weight)
                    (self._draw if self._turning else self._print)(said, now)
            if due:
                self._wake.wait(TURN_EVERY_S if self._turning else SAY_AFTER_S)
            else:
                self._wake.wait(None if next_at is None else next_at - now)
            self._wake.clear()

    def _draw(self, wait: Wait, now: float) -> None:
        mark = self._marks[int(now / TURN_EVERY_S) % len(self._marks)]
        lasted_s = int(now - wait.began_at)
        lasted = f"{lasted_s} s" if lasted_s < 60 else show_duration(float(lasted_s))
        width = columns()
        said = harmless(wait.sentence())[: width - len(lasted) - 4]
        self._write(f"\r\x1b[K{mark} {said} {lasted}")
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = False
            self._write("\r\x1b[K")

    def _print(self, wait: Wait, now: float) -> None:
        said = harmless(wait.sentence())
        # Numbers that count change with every look; they are worth a new line now and then.
        if said == wait.said or (shape(said) == shape(wait.said) and now - wait.said_at < SAY_AGAIN_S):
            return
        if said not in self._told:
            self._told.add(said)
            self._write(f"headway: {said}\n")
        wait.said, wait.said_at = said, now

    def _write(self, text: str) -> None:
        """Past the stream's own buffer: a thread that holds its lock when the interpreter ends would take that down."""
        try:
            os.write(sys.stderr.fileno(), text.encode(sys.stderr.encoding or "utf-8", "backslashreplace"))
        except (OSError, ValueError, AttributeError):
            pass  # Nobody reads it any more; that is no reason to end.


def shape(sentence: str) -> str:
    return "".join(letter for letter in sentence if letter.isalpha())


def columns() -> int:
    """How wide a line on stderr may be."""
    try:
        return (os.get_terminal_size(2).columns or 80) - 1
    except OSError:
        return 79
