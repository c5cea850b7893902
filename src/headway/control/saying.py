"""A log whose disk may be full: what cannot be written is dropped, and whoever said it goes on."""

from __future__ import annotations

import sys
from typing import TextIO

import structlog


class Unfailing:
    """A stream that takes every line, also where the one behind it does not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            pass  # It may be written with a later line, once there is room.


def log_without_failing() -> None:
    """From here on no line of the log can end the thread that says it."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(Unfailing(sys.stdout)))  # type: ignore[arg-type]
