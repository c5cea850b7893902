"""Putting files of a checkpoint back into the working directory, before the ranks start.

The restore has checked them and laid them out below the checkpoint directory. Where a job works in a folder of its
user, what an earlier attempt left there beside them is moved aside: a script that takes its newest checkpoint must not
meet half of one. Nothing of a user's is removed.
"""

from __future__ import annotations

import contextlib
import os
import stat

from headway_agent.checkpoints import frameworks
from headway_agent.checkpoints.frameworks import FoundHabit
from headway_agent.checkpoints.roots import PREFIX
from headway_agent.files import occupants, workdir_notes
from headway_agent.files.parts import signature_of
from headway_agent.files.workdir import files_below, kept_files, matching
from headway_agent.files.workdir_notes import Note
from headway_agent.node.directory import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

    from headway_agent.checkpoints.completeness import Signature

ASIDE = ".headway-set-aside"
FRESH = ".headway.new"  # What is being copied, until it is whole. (A name that no checkpoint has.)


def put_back(
    key: str, directory: str, cwd: str, dirs: Sequence[str], manifest: Mapping[str, Any]
) -> dict[str, Signature]:
    """Move what was restored for the working directory there. Returns it by path, with PREFIX, as it is then."""
    staged = f"{directory}/checkpoints/{PREFIX.rstrip('/')}"
    files = [path for path, _ in files_below(staged, "")] if os.path.isdir(staged) else []
    if not files:
        return {}
    job, attempt, _ = key.split("/")
    in_place = workdir_notes.is_in_place(directory, cwd)
    origin = manifest.get("workdir") or {}
    own = in_place and manifest.get("job") == job and origin.get("cwd") == cwd
    found = [[each.pattern, each.framework] for each in frameworks.found_in(files)]
    note = Note(cwd, int(origin["since_ns"]) if own else workdir_notes.turning_point_ns(), dirs, found)
    aside = os.path.join(cwd, ASIDE, f"{job}-before-attempt-{attempt}")
    me, of = occupants.occupant(key, directory, note), f"{job}/{attempt} step {manifest.get('step')}"
    with occupants.alone(me) if in_place else contextlib.nullcontext():
        there = occupants.restored_there(me, of) if in_place else {}
        if own and not any(True for _ in occupants.others(me)):
            _set_aside_leftovers(note, {*files, *there}, aside)
        for path in files:
            target = os.path.join(cwd, path)
            if path not in there or there[path] != _signature(target):  # Else another task of the gang was quicker.
                if in_place and not own and os.path.lexists(target):
                    _set_aside(cwd, path, aside)  # Another job's, or of another place.
                _place(os.path.join(staged, path), target)
            _date(target)
        placed = {path: signature_of(os.lstat(os.path.join(cwd, path))) for path in files}
        if in_place:
            occupants.note_restored(me, of, {**there, **placed})
    remove_tree(staged)
    workdir_notes.write(directory, note)
    return {PREFIX + path: signature for path, signature in placed.items()}


def _signature(path: str) -> Signature | None:
    try:
        return signature_of(os.lstat(path))
    except OSError:
        return None


def _set_aside_leftovers(note: Note, restored: set[str], aside: str) -> None:
    """Move what the job wrote where its checkpoints are, and is in none that is restored. Only what looks like one."""
    found = [FoundHabit(*each) for each in note.found]
    fresh = [path for path, seen in kept_files(note.cwd, note.dirs, found) if seen.st_ctime_ns > note.since_ns]
    found = frameworks.found_in({*fresh, *restored})
    for path in fresh:
        if path not in restored and frameworks.is_kept(path, found):
            _set_aside(note.cwd, path, aside)
    for each in found:
        for top in matching(note.cwd, each.pattern.split("/")):
            _remove_empty(os.path.join(note.cwd, top), note.since_ns)


def _remove_empty(folder: str, since_ns: int) -> None:
    """Remove folders in which nothing is left: `checkpoint-600`, though empty, would be taken for the newest."""
    for above, _, _ in os.walk(folder, topdown=False):
        try:
            if os.lstat(above).st_mtime_ns > since_ns:
                os.rmdir(above)
        except OSError:
            pass  # There is something in it.


def _set_aside(cwd: str, path: str, aside: str) -> None:
    """Move a file of the working directory out of the way. Neither git nor a bundle is to take it up."""
    _move(os.path.join(cwd, path), os.path.join(aside, path))
    ignore = os.path.join(cwd, ASIDE, ".gitignore")
    if not os.path.exists(ignore):
        with open(ignore, "w") as file:
            file.write("*\n")


def _move(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.rename(path, target)
    except OSError:
        import shutil  # Another file system: a folder that is a link, say.

        shutil.move(path, target)


def _date(path: str) -> None:
    """Let the kernel note that it was changed just now, with its own times as they were: so it counts as the job's."""
    seen = os.lstat(path)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns), follow_symlinks=False)


def _place(source: str, target: str) -> None:
    """Let the file appear under its name as a whole, with its times."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(target) and not os.path.islink(target):
        raise OSError(f"{target}: a folder stands where a file of the checkpoint belongs")
    try:
        os.replace(source, target)
        return
    except OSError:
        pass  # Another file system.
    fresh = target + FRESH
    if os.path.lexists(fresh):
        os.unlink(fresh)
    if stat.S_ISLNK(os.lstat(source).st_mode):
        os.symlink(os.readlink(source), fresh)
    else:
        import shutil

        shutil.copy2(source, fresh)
    os.replace(fresh, target)
