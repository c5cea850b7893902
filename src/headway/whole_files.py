"""Small files that are replaced as a whole: a reader sees the old content or the new one, and nobody else reads either.

On nodes the agent does the same with headway_agent/node/directory.py, for it may not lean on this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable

Path = str | os.PathLike[str]


def write_whole(path: Path, content: bytes | str) -> None:
    """Replace a file. After a power cut it may be the old one, or empty: for what can be written again."""
    _write(path, content, lambda handle: None, os.replace)


def write_durably(path: Path, content: bytes | str) -> None:
    """Replace a file so that a power cut leaves the old content or the new one."""
    _write(path, content, os.fsync, os.replace)


def write_first(path: Path, content: bytes | str) -> bool:
    """Make a file that is not there, durably; False where somebody else was quicker, whose content stays."""
    try:
        _write(path, content, os.fsync, os.link)  # Unlike a rename, a link leaves what somebody else has just made.
    except FileExistsError:
        return False
    return True


def _write(path: Path, content: bytes | str, sync: Callable[[int], None], place: Callable[[str, Path], None]) -> None:
    draft = f"{os.fspath(path)}.{os.getpid()}.new"
    try:
        with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            sync(file.fileno())
        place(draft, path)
    finally:
        if os.path.lexists(draft):
            os.unlink(draft)  # Half a file would only take the room that is missing.
