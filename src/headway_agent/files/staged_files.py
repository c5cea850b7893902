"""Putting a closed file by before the job writes to it again: whether anybody still writes, and a link or a copy of it.

A link costs nothing and outlives the removal of the file, a copy outlives its being overwritten too. Where the file
system can share blocks, the copy is as cheap as the link.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.checkpoints.rounds import Signature

FICLONE = 0x40049409
COPY_BYTES_MAX = 64 << 20  # Of one call, so that a copy that nobody wants any more ends soon.
NAME_CHARS_MAX = 60
LINK, COPY = "link", "copy"
_numbers = itertools.count(1)


def has_writer(fd: int) -> bool | None:
    """Whether anybody has this file open for writing; None where the file system cannot tell.

    The kernel grants a lease for reading only where nobody writes. It is given back at once: who opens the file for
    writing meanwhile waits so long.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # Who wants to write is told by a signal; this one is ignored.
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    return False


def is_written(path: str) -> bool:
    """Whether somebody has it open for writing; where nobody can tell, somebody may."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        return has_writer(fd) is not False
    finally:
        os.close(fd)


def put_by(file: str, fd: int, into: str, how: str) -> str:
    """Make a link or a copy of an open file in a directory, and return its path. Raises OSError where it cannot."""
    os.makedirs(into, mode=0o700, exist_ok=True)
    name = os.path.basename(file)[-NAME_CHARS_MAX:]  # Its ending may tell its format.
    place = os.path.join(into, f"{os.getpid()}-{next(_numbers)}-{name}")
    if how == LINK:
        try:
            os.link(file, place, follow_symlinks=False)
            return place
        except OSError:
            pass  # Another file system, or one without links.
    target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _copy(fd, target)
    except BaseException:
        os.unlink(place)
        raise
    finally:
        os.close(target)
    return place


def _copy(source: int, target: int) -> None:
    try:
        fcntl.ioctl(target, FICLONE, source)
        return
    except OSError:
        pass
    position, size = 0, os.fstat(source).st_size
    while position < size:
        count = os.sendfile(target, source, position, min(COPY_BYTES_MAX, size - position))
        if not count:
            return  # It became shorter: whoever asked for it compares.
        position += count


def drop(place: str) -> None:
    try:
        os.unlink(place)
    except OSError:
        pass


def signature_at(place: str) -> Signature:
    found = os.lstat(place)
    return (found.st_size, found.st_mtime_ns, found.st_ino)
