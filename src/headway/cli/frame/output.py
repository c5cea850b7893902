"""What the command line says, in three voices: for people, for programs (JSON, YAML), and quiet (names alone).

Data goes to stdout, talk and errors to stderr. Colour only on a terminal, and never when NO_COLOR is set. Tables and
pages for people are made in screen/jobs.py.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from headway.cli.frame.watch import Watch

# Control characters (ESC and CSI among them), separators of lines, and marks that turn the direction of writing.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
PAINT_OR_UNSEEN = re.compile(rf"\x1b\[\d{{1,2}}m|{UNSEEN.pattern}")
FORMS = ("table", "wide", "json", "yaml", "name")
COLOURS = {
    "running": "36",
    "starting": "36",
    "succeeded": "32",
    "failed": "31",
    "cancelled": "33",
    "stopping": "33",
    "ok": "32",
    "warn": "33",
    "fail": "31",
    "up": "32",
    "silent": "33",
    "lost": "31",
}


class Output:
    def __init__(self, form: str = "table", quiet: bool = False, verbose: bool = False, colour: bool = True) -> None:
        self.form = form
        self.quiet = quiet
        self.verbose = verbose
        self.colour = colour
        self._watch: Watch | None = None

    @property
    def watch(self) -> Watch:
        """Says what is being waited for."""
        if self._watch is None:
            from headway.cli.frame.watch import Watch

            self._watch = Watch(self)
        return self._watch

    @property
    def machine(self) -> bool:
        """Whether a program reads it."""
        return self.form in ("json", "yaml")

    @property
    def wide(self) -> bool:
        """Whether a table has the columns that most people need not see."""
        return self.form == "wide"

    def show(self, value: Any, human: Callable[[], str], names: Callable[[], Iterable[str]]) -> None:
        """Show one result: the value itself to programs, names when quiet, and the page for people."""
        if self.form == "json":
            write(UNSEEN.sub(_as_json, json.dumps(value, indent=2, ensure_ascii=False, default=str)))
        elif self.form == "yaml":
            write(as_yaml(value).rstrip("\n"))
        elif self.form == "name" or self.quiet:
            for name in names():
                write(harmless(name) if on_terminal(sys.stdout) else name)
        else:
            page = human()
            if page:
                write(PAINT_OR_UNSEEN.sub(_unless_ours, page))

    def say(self, text: str) -> None:
        """Talk to the person at the terminal; nothing, when quiet, when names alone are wanted or a program reads."""
        if not self.quiet and not self.machine and self.form != "name":
            if self._watch is not None:
                self._watch.clear()
            print(harmless(text, lines=True), file=sys.stderr, flush=True)

    def error(self, error: HeadwayError, exit_code: int) -> None:
        if self.form == "json":
            told = {"kind": error.kind, "message": error.message, "hint": error.hint, "exit_code": exit_code}
            print(json.dumps({"error": told}), file=sys.stderr, flush=True)
            return
        coloured = self.paint("error:", "31", sys.stderr)
        print(f"{coloured} {harmless(error.message, lines=True)}", file=sys.stderr)
        if error.hint:
            print(f"{self.paint('hint:', '36', sys.stderr)} {harmless(error.hint, lines=True)}", file=sys.stderr)
        sys.stderr.flush()

    def paint(self, text: str, colour: str | None = None, stream: Any = None) -> str:
        """Colour a word (by default as its meaning wants) where colour is seen."""
        code = colour or COLOURS.get(text.strip())
        return f"\x1b[{code}m{text}\x1b[0m" if code and self.colour and on_terminal(stream or sys.stdout) else text

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Aligned columns; on a terminal the last one is cut to the width, elsewhere nothing is cut."""
        if not rows:
            return ""
        rows = [[harmless(cell) for cell in row] for row in rows]
        widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
        room = os.get_terminal_size().columns if on_terminal(sys.stdout) else 0
        lines = []
        for row in [heads, *rows]:
            used = sum(width + 2 for width in widths[:-1])
            last = row[-1]
            if room and len(last) > room - used:
                last = last[: max(room - used - 1, 8)] + "…"
            cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)] + [last]
            lines.append("  ".join(cell if row is heads else self.paint(cell) for cell in cells).rstrip())
        return "\n".join(lines)


def harmless(text: str, lines: bool = False) -> str:
    """The text with everything that a terminal would obey, or that would hide what it says, spelled out."""
    return UNSEEN.sub(lambda found: found[0] if lines and found[0] in "\n\t" else _spelled(found[0]), text)


def _unless_ours(found: re.Match[str]) -> str:
    """Of a page: its own line breaks and colours stay."""
    return found[0] if len(found[0]) > 1 or found[0] in "\n\t" else _spelled(found[0])


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _as_json(found: re.Match[str]) -> str:
    return found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}"


def on_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def write(text: str) -> None:
    """One piece of data on stdout. Text that the terminal's encoding lacks is shown escaped, never an error."""
    try:
        print(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def as_yaml(value: Any) -> str:
    from headway.cli.frame.yaml import dump

    return dump(value)
