"""How far a copy is: a bar with numbers on a terminal, a line now and then elsewhere; nothing if it is soon over."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headway.cli.frame.output import Output, on_terminal
from headway.core.units import show_size

BAR_WIDTH = 24


class Transfer:
    """Bytes that have gone, of how many (0: nobody knows), and files."""

    def __init__(self, doing: str, size: int = 0, files: int = 0) -> None:
        self.doing, self.size, self.files = doing, size, files
        self.gone = self.files_done = 0
        self._began_at = time.monotonic()
        self._drawn = on_terminal(sys.stderr)

    def add(self, count: int) -> None:
        self.gone += count

    def set(self, gone: int, size: int) -> None:
        self.gone, self.size = gone, size

    def file_done(self) -> None:
        self.files_done += 1

    def sentence(self) -> str:
        gone = min(self.gone, self.size) if self.size else self.gone
        bar = ""
        if self._drawn and self.size:
            bar = f"{'█' * int(gone / self.size * BAR_WIDTH):░<{BAR_WIDTH}} "
        of = f" of {show_size(self.size)}" if self.size else ""
        files = f" ({self.files_done:,} of {self.files:,} files)" if self.files > 1 else ""
        pace = gone / max(time.monotonic() - self._began_at, 0.001)
        return f"{bar}{self.doing} {show_size(gone)}{of}{files}, {show_size(int(pace))}/s"


@contextmanager
def shown(output: Output, transfer: Transfer) -> Iterator[Transfer]:
    from headway.client.connection.http import WHOLE

    with output.watch.over(transfer.sentence, weight=WHOLE):
        yield transfer
