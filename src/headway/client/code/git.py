"""What git knows of a project: which files belong to it, and the commit, branch and changes that they stand for.

Without a git on this machine, or where git refuses to look, the answer is None: the caller lists files by itself.
"""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

DIFF_BYTES_MAX = 1 << 20
ANSWER_S_MAX = 60.0


class GitFacts(NamedTuple):
    """Where the code stands; `dirty_diff` is what differs from the commit, cut at 1 MiB."""

    commit: str
    branch: str
    dirty_diff: str


def top_level(directory: str) -> str | None:
    """The nearest directory upwards that holds a `.git` (a directory, or a file in worktrees and submodules)."""
    place = os.path.abspath(directory)
    while True:
        if os.path.lexists(os.path.join(place, ".git")):
            return place
        parent = os.path.dirname(place)
        if parent == place:
            return None
        place = parent


def listing(root: str) -> list[str] | None:
    """Tracked and untracked files that no ignore rule leaves out, as paths from the root; submodules are entered."""
    said = _ask(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if said is None:
        return None
    found: list[str] = []
    for raw in dict.fromkeys(said.split(b"\0")):
        path = os.fsdecode(raw).rstrip("/")
        if not path:
            continue
        full = os.path.join(root, path)
        if os.path.isdir(full) and not os.path.islink(full):
            # A submodule, or a repository inside this one: git names it and lists nothing of it.
            inner = listing(full)
            found += [f"{path}/{each}" for each in inner or ()]
        else:
            found.append(path)
    return found + _unlisted(root, found)


def _unlisted(root: str, listed: list[str]) -> list[str]:
    """Pipes, sockets and devices beside the listed files, unless they are ignored: git passes over them in silence."""
    folders = {os.path.dirname(path) for path in listed} | {""}
    special = [f"{folder}/{name}" if folder else name for folder in folders for name in _special(root, folder)]
    return [path for path in special if path not in listed and _ask(root, "check-ignore", "-q", "--", path) is None]


def _special(root: str, folder: str) -> list[str]:
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            return [
                entry.name
                for entry in entries
                if not (entry.is_symlink() or entry.is_file(follow_symlinks=False) or entry.is_dir())
            ]
    except OSError:
        return []  # Listed, and removed: there is nothing in it.


def facts(root: str) -> GitFacts | None:
    """Commit, branch (empty when detached) and the changes since; None where there is no commit yet."""
    commit = _ask(root, "rev-parse", "--verify", "-q", "HEAD")
    if not commit:
        return None
    branch = _ask(root, "symbolic-ref", "--short", "-q", "HEAD") or b""
    changes = _ask(root, "diff", "--no-color", "--no-ext-diff", "HEAD") or b""
    return GitFacts(_text(commit), _text(branch), changes[:DIFF_BYTES_MAX].decode("utf-8", "replace"))


def _text(said: bytes) -> str:
    return said.decode("utf-8", "replace").strip()


def _ask(root: str, *words: str) -> bytes | None:
    # GIT_DIR and its like, set by a hook that calls us, would make git look at another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, timeout=ANSWER_S_MAX, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
