"""What comes on standard input, for a job: given along where it was meant for it, and said where it is not.

A file (`< data.txt`) from its beginning was meant. A pipe may be that of whoever started us, as in a loop that reads
lines, so it is read only when asked for.
"""

from __future__ import annotations

import os
import stat
import sys

from headway.core.errors import BadInput
from headway.core.spec.program_words import STDIN_BYTES_MAX

LARGER = "bring it as an input: --input data=FILE, and read $HEADWAY_INPUT_DATA"


def given(asked: bool, of_the_file: bool) -> tuple[str, str]:
    """The text for the job, and what to say about standard input. `of_the_file`: a job file is read from there."""
    try:
        fd = sys.stdin.fileno()
        seen = os.fstat(fd)
    except (OSError, ValueError, AttributeError):
        return "", ""  # It is closed, or somebody's stand-in.
    if of_the_file:
        if asked:
            raise BadInput("standard input is the job file (-f -), and cannot be given to the job too")
        return "", ""
    if asked and os.isatty(fd):
        raise BadInput("standard input is a terminal: there is nothing to give to the job", "-i < FILE")
    if asked or _is_a_file_unread(fd, seen):
        return _text(_read(fd)), ""
    if not os.isatty(fd) and stat.S_ISFIFO(seen.st_mode) and _waits(fd):
        return "", "headway: what comes on standard input is not given to the job; -i gives it"
    return "", ""


def _is_a_file_unread(fd: int, seen: os.stat_result) -> bool:
    if not stat.S_ISREG(seen.st_mode) or not seen.st_size:
        return False
    return os.lseek(fd, 0, os.SEEK_CUR) == 0


def _waits(fd: int) -> bool:
    """Whether something can be read at once."""
    import array
    import fcntl
    import termios

    count = array.array("i", [0])
    try:
        fcntl.ioctl(fd, termios.FIONREAD, count)
    except OSError:
        return False
    return count[0] > 0


def _read(fd: int) -> bytes:
    found = b""
    while len(found) <= STDIN_BYTES_MAX:
        piece = os.read(fd, STDIN_BYTES_MAX + 1 - len(found))
        if not piece:
            return found
        found += piece
    raise BadInput(f"standard input has more than the {STDIN_BYTES_MAX >> 10} KiB that a job may be given", LARGER)


def _text(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise BadInput("what comes on standard input is not text", LARGER) from None
    if "\0" in text:
        raise BadInput("what comes on standard input is not text", LARGER)
    return text
