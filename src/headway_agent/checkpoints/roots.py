"""The two roots of a task's paths: its checkpoint directory, and its working directory by a prefix. Pure."""

from __future__ import annotations

PREFIX = ".headway-workdir/"  # Of paths in trees and manifests that lie in the working directory.
WORKDIR = "workdir"  # The place, as `checkpoints` and `output` are.


def inner(path: str) -> str:
    """The path in its own root."""
    return path[len(PREFIX) :] if path.startswith(PREFIX) else path


def entry_of(path: str) -> tuple[str, str]:
    """The entry at the top of its root, and the rest of the path below it."""
    root = PREFIX if path.startswith(PREFIX) else ""
    entry, _, rest = path[len(root) :].partition("/")
    return root + entry, rest
