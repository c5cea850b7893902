"""The near end of a visit: this terminal. A port's near end is in tunnel.py."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
import tty as terminals
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headway.cli.frame.output import Output
from headway.core.errors import Conflict, Unavailable
from headway.features.visits.client import Visit
from headway_wire.frames import DATA, END, EXIT, SIGNAL, SIZE, STDERR, TROUBLE

if TYPE_CHECKING:
    from headway.client.sdk import Client

PIECE_BYTES = 1 << 16


def visit(client: Client, job: str, output: Output, ask: dict[str, Any], tty: bool) -> int:
    """Run a command there, with this terminal as its own; returns its exit code."""
    wanted = {name: value for name, value in ask.items() if value is not None}
    if tty:
        wanted |= {"tty": True, "term": os.environ.get("TERM", "xterm"), **terminal_size()}
    there = Visit(client.link, job, wanted)
    try:
        with _raw() if tty and sys.stdin.isatty() else _passing_on(there):
            if tty:
                signal.signal(signal.SIGWINCH, lambda *_: _tell_size(there))
            threading.Thread(target=_send_input, args=(there,), daemon=True).start()
            return _show(there)
    finally:
        there.close()


def _show(there: Visit) -> int:
    for kind, content in there.frames():
        if kind == EXIT:
            return int(content)
        if kind == TROUBLE:
            raise Conflict(content.decode("utf-8", "replace"))
        if kind in (DATA, STDERR):
            out = sys.stdout.buffer if kind == DATA else sys.stderr.buffer
            out.write(content)
            out.flush()
    raise Unavailable("the connection to the job broke off", "the job may have ended: headway why says")


def _send_input(there: Visit) -> None:
    handle = sys.stdin.fileno()
    while True:
        try:
            data = os.read(handle, PIECE_BYTES)
        except OSError:
            data = b""
        if not data:
            there.send(END)
            return
        there.send(DATA, data)


def _tell_size(there: Visit) -> None:
    size = terminal_size()
    if size:
        there.send(SIZE, f"{size['rows']} {size['columns']}".encode())


@contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the other side, Ctrl-C too."""
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    terminals.setraw(handle, termios.TCSADRAIN)  # What was typed ahead is not lost.
    try:
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


@contextmanager
def _passing_on(there: Visit) -> Iterator[None]:
    """Without a terminal of its own there, Ctrl-C here is a signal there."""
    before = signal.signal(signal.SIGINT, lambda number, _: there.send(SIGNAL, str(number).encode()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def terminal_size() -> dict[str, int]:
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return {}
    return {"rows": size.lines, "columns": size.columns} if size.lines and size.columns else {}
