"""Lines of logs on their way to a reader: with times, with the names of jobs and ranks, each rank in its colour."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from headway.cli.frame.output import Output, on_terminal
from headway.cli.screen.terminal_filter import PLAIN, Tame
from headway.client.log_lines import AFTER, GAP, HIT, MARK, FoundLine, LogLine, found, name_of

RANK_COLOURS = ("36", "33", "35", "32", "34", "96", "93", "95", "92", "94")
RANK_NAME = re.compile(rb"^\[rank (\d+)\]", re.MULTILINE)
DIM, MATCHED = "2", "1;31"
UNKNOWN_TIME = "-"
TIME_WIDTH = len("2026-11-18T14:30:00+00:00")


class LineView:
    """How lines are shown: which, and what stands before them. On a terminal only what it may be shown, unless raw."""

    def __init__(
        self,
        output: Output,
        raw: bool = False,
        times: bool = False,
        pattern: re.Pattern[bytes] | None = None,
        context: int = 0,
        tail: int | None = None,
    ) -> None:
        self._output, self._raw, self._times = output, raw, times
        self._pattern, self._context, self._tail = pattern, context, tail
        self._names: dict[tuple[str, int | None], int] = {}

    def tell(self, lines: Iterable[LogLine]) -> int:
        """Show all of them, in the output's voice; returns how many there were."""
        found = self._found(lines, self._tail)
        if self._output.machine:
            values = list(as_values(found))
            self._output.show({"lines": values}, lambda: "", list)
            return len(values)
        return self._show(found)

    def follow(self, lines: Iterable[LogLine]) -> int:
        """Show them as they come."""
        return self._show(self._found(lines, None))

    def _found(self, lines: Iterable[LogLine], tail: int | None) -> Iterator[FoundLine]:
        if self._pattern is None:
            return (FoundLine(MARK if line.remark else AFTER, line) for line in lines)
        return found(lines, self._pattern, self._context, tail)

    def _show(self, lines: Iterable[FoundLine]) -> int:
        count = 0
        for each in lines:
            if each.kind == GAP:
                self._write(sys.stdout, b"--\n")
            elif each.line is not None:
                self._line(each.line, each.kind == HIT)
                count += not each.line.remark
        return count

    def _line(self, line: LogLine, hit: bool = False) -> None:
        stream = sys.stdout if line.stream == "out" and not self._output.machine else sys.stderr
        seen = on_terminal(stream)
        text = line.text
        if hit and self._pattern and seen and self._output.colour:
            text = self._pattern.sub(lambda found: _painted(found[0], MATCHED) if found[0] else b"", text)
        if seen and not self._raw:
            tame = Tame(self._output.colour, stream.encoding or "utf-8")  # One each: what is cut paints no other line.
            text = tame.feed(text) + tame.rest()
        elif seen:
            text += PLAIN.encode()
        self._write(stream, self._head(line, seen and self._output.colour) + text + b"\n")

    def _head(self, line: LogLine, colour: bool) -> bytes:
        when = f"{show_time(line.at):<{TIME_WIDTH}} ".encode() if self._times else b""
        name = f"[{line.job}] ".encode() * bool(line.job) + name_of(line.rank)
        if not colour:
            return when + name
        number = self._names.setdefault((line.job, line.rank), line.rank or len(self._names))
        return _painted(when, DIM) + _painted(name, RANK_COLOURS[number % len(RANK_COLOURS)])

    def _write(self, stream: Any, data: bytes) -> None:
        stream.buffer.write(data)
        stream.buffer.flush()


def show_time(at: float | None) -> str:
    """RFC 3339 to the second: nobody knows more."""
    if at is None:
        return UNKNOWN_TIME
    told = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at))
    return f"{told[:-2]}:{told[-2:]}"


def as_values(lines: Iterable[FoundLine]) -> Iterator[dict[str, Any]]:
    """For programs."""
    for each in lines:
        if (line := each.line) is not None and not line.remark:
            text = line.text.decode("utf-8", "replace")
            value = {"at": line.at, "rank": line.rank, "stream": line.stream, "text": text, "match": each.kind == HIT}
            yield {**value, **({"job": line.job} if line.job else {})}


def paint_ranks(data: bytes) -> bytes:
    """Whole lines that have their rank before them: its name in the rank's colour."""
    return RANK_NAME.sub(lambda found: _painted(found[0], RANK_COLOURS[int(found[1]) % len(RANK_COLOURS)]), data)


def _painted(text: bytes, colour: str) -> bytes:
    return f"\x1b[{colour}m".encode() + text + PLAIN.encode() if text else b""
