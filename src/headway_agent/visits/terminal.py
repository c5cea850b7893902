"""A command in a terminal of its own: started, read, written to, resized."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

# The leader of a new session that opens a terminal makes it its own: without that a shell has no Ctrl-C.
IN_TERMINAL = 'exec <"$0" >"$0" 2>&1 || exit 126; exec "$@"'


def start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, size: tuple[int, int]
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the command; returns it with our end of its terminal."""
    master, slave = os.openpty()
    try:
        resize(master, *size)
        process = subprocess.Popen(
            ["/bin/sh", "-c", IN_TERMINAL, os.ttyname(slave), *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    return process, master


def read(master: int, count: int) -> bytes:
    """The next output; none when the last process has closed the terminal."""
    try:
        return os.read(master, count)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise


def write(master: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(master, view) :]


def resize(master: int, rows: int, columns: int) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", _bounded(rows), _bounded(columns), 0, 0))


def _bounded(count: int) -> int:
    return max(1, min(count, 10_000))
