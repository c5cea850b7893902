"""What the operating system refused, in our voice: a place that cannot be read or written, a directory that is gone."""

from __future__ import annotations

import errno
import os

from headway.core.errors import HeadwayError, OperatorError

# What the machine or its owner can repair. Anything else is an error of ours, and told as one.
OF_THE_MACHINE = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENFILE,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
    errno.ESTALE,
}


def from_system(error: OSError) -> HeadwayError | None:
    """The error as a sentence; None where it says nothing about the machine."""
    if isinstance(error, FileNotFoundError) and not here():
        return OperatorError("the directory that this command runs in is gone", "cd to one that exists")
    if error.errno not in OF_THE_MACHINE:
        return None
    said = (error.strerror or str(error)).lower()
    place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    return OperatorError(f"{place}: {said}" if place else said, _hint(place, error.errno))


def here() -> str:
    """The directory that this command runs in; empty when it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _hint(place: str, code: int | None) -> str:
    if code in (errno.ENOSPC, errno.EDQUOT):
        return "make room there, or set HEADWAY_HOME to another place"
    from headway import settings

    home = settings.home_from(os.environ)
    ours = (home.config, home.data, home.state, home.cache)
    if place and any(place.startswith(str(each)) for each in ours):
        return "set HEADWAY_HOME to a directory of yours; headway doctor looks at more"
    return ""
