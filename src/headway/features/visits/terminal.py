"""The near end of a visit: this terminal, or this machine's loopback port."""

from __future__ import annotations

import os
import signal
import socket
import sys
import termios
import threading
import time
import tty as terminals
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headway.cli.frame import exits
from headway.cli.frame.output import Output
from headway.core.errors import Conflict, HeadwayError, NotFound, OperatorError, Unavailable
from headway.features.visits.client import Visit
from headway_wire.frames import DATA, END, EXIT, SIGNAL, SIZE, STDERR, TROUBLE

if TYPE_CHECKING:
    from headway.client.sdk import Client

PIECE_BYTES = 1 << 16
LOOK_AGAIN_S = 5.0


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


# --- a port ---------------------------------------------------------------------------------------------------------


def tunnel_port(client: Client, job: str, output: Output, local: int, there: int) -> int:
    """Listen on this side until Ctrl-C or the job's end; each connection is a visit of its own."""
    found = client.detail(job)
    if found["state"] not in ("running", "stopping"):
        raise Conflict(f"job {found['id']} does not run", f"headway why {found['id']} says where it is")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", local))
    except OSError as error:
        listener.close()
        hint = f"choose another one on this side, such as {local + 10_000 if local < 50_000 else 8080}:{there}"
        raise OperatorError(f"cannot listen on port {local}: {(error.strerror or '').lower()}", hint) from None
    listener.listen(64)
    output.say(f"headway: port {there} of job {found['id']} is at http://127.0.0.1:{local} (Ctrl-C ends it)")
    ended: list[dict[str, Any]] = []
    threading.Thread(target=_watch, args=(client, found["id"], listener, ended), daemon=True).start()
    try:
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_carry, args=(client, found["id"], output, near, there), daemon=True).start()
    except KeyboardInterrupt:
        return exits.OK
    except OSError:
        if not ended:
            raise
        output.say(f"headway: job {found['id']} has ended, and the tunnel with it: {ended[0]['sentence']}")
        return exits.for_job(ended[0], False)
    finally:
        listener.close()


def _watch(client: Client, job: str, listener: socket.socket, ended: list[dict[str, Any]]) -> None:
    """Stop listening when the job has ended: nothing will answer there any more."""
    while not ended:
        try:
            ended.append(client.wait(job)[0])
        except NotFound as forgotten:
            ended.append({"state": "cancelled", "sentence": forgotten.message})
        except HeadwayError:
            time.sleep(LOOK_AGAIN_S)  # The server is away; the job goes on.
    listener.shutdown(socket.SHUT_RDWR)


def _carry(client: Client, job: str, output: Output, near: socket.socket, port: int) -> None:
    try:
        far = Visit(client.link.another(), job, {"kind": "port", "port": port})
    except HeadwayError as error:
        output.say(f"headway: {error.message}")
        near.close()
        return
    threading.Thread(target=_from_near, args=(near, far), daemon=True).start()
    try:
        for kind, content in far.frames():
            if kind == DATA:
                near.sendall(content)
            elif kind == TROUBLE:
                output.say(f"headway: {content.decode('utf-8', 'replace')}")
                break
            elif kind == END:
                break
    except (OSError, HeadwayError):
        pass  # One of the two has gone: so has the connection.
    finally:
        near.close()
        far.close()


def _from_near(near: socket.socket, far: Visit) -> None:
    try:
        while data := near.recv(PIECE_BYTES):
            far.send(DATA, data)
    except OSError:
        pass
    far.send(END)


def terminal_size() -> dict[str, int]:
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return {}
    return {"rows": size.lines, "columns": size.columns} if size.lines and size.columns else {}
