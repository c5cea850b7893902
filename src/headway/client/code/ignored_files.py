"""Which files of a directory belong to a project: as git lists them, or by the same rules where there is no git.

`.headwayignore` leaves out more, in the syntax of `.gitignore`. What is in the files is bundle.py's business.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headway.client.code import git
from headway.core.errors import BadInput

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

OURS = ".headwayignore"
MARKS = ("pyproject.toml", "headway.toml")
# What nobody wants to send from a directory that has no git to say so. A directory with pyvenv.cfg is one of these too.
NEVER = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", "node_modules", ".tox", ".nox", ".ipynb_checkpoints"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".DS_Store", ".headway-set-aside"}
)


def project_root(directory: str) -> str | None:
    """The top of the git repository, else the nearest directory with a pyproject.toml or headway.toml; else None."""
    top = git.top_level(directory)
    if top is not None:
        return top
    place = os.path.abspath(directory)
    while True:
        if any(os.path.isfile(os.path.join(place, mark)) for mark in MARKS):
            return place
        parent = os.path.dirname(place)
        if parent == place:
            return None
        place = parent


def listing(root: str) -> list[str]:
    """The paths of the project, from its root, sorted."""
    found = git.listing(root) if os.path.lexists(os.path.join(root, ".git")) else None
    if found is None:
        return sorted(_walk(root, "", []))
    return sorted(_beyond_git(root, found))


def _beyond_git(root: str, paths: list[str]) -> Iterator[str]:
    """What is left of git's list once `.headwayignore` files, wherever they lie, have been heard."""
    rules = [
        (os.path.dirname(path), _read(os.path.join(root, path)))
        for path in sorted(paths)
        if os.path.basename(path) == OURS
    ]
    if not rules and os.path.isfile(os.path.join(root, OURS)):
        rules = [("", _read(os.path.join(root, OURS)))]  # It may be ignored by git itself.
    if not rules:
        yield from paths
        return
    left_out: dict[str, bool] = {"": False}

    def without(folder: str) -> bool:
        if folder not in left_out:
            left_out[folder] = without(os.path.dirname(folder)) or _ignored(rules, folder + "/")
        return left_out[folder]

    yield from (path for path in paths if not without(os.path.dirname(path)) and not _ignored(rules, path))


Rules = list[tuple[str, "GitIgnoreSpec"]]


def _walk(root: str, folder: str, rules: Rules) -> Iterator[str]:
    place = os.path.join(root, folder)
    here = rules + [
        (folder, _read(os.path.join(place, name)))
        for name in (".gitignore", OURS)
        if os.path.isfile(os.path.join(place, name))
    ]
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError as error:
        raise BadInput(f'"{place}" cannot be read: {error.strerror}', f"leave it out with a line in {OURS}") from None
    for entry in entries:
        if entry.name in NEVER:
            continue
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if here and _ignored(here, path + "/" if is_folder else path):
            continue
        if not is_folder:
            yield path
        elif not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
            yield from _walk(root, path, here)


def _ignored(rules: Rules, path: str) -> bool:
    """The nearest rule decides; within one file the last line that matches."""
    for base, spec in reversed(rules):
        if base and not path.startswith(base + "/"):
            continue
        said = spec.check_file(path[len(base) + 1 :] if base else path).include
        if said is not None:
            return said
    return False


def _read(path: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return GitIgnoreSpec.from_lines(file.read().splitlines())
    except (OSError, ValueError) as error:
        raise BadInput(f'"{path}" cannot be read: {getattr(error, "strerror", None) or error}') from None
