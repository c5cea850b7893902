"""The tasks' directories: made at the claim, given back when the task is gone, and used again where they are as new.

Making and removing a small tree costs more than starting a process; renaming one costs next to nothing.
"""

from __future__ import annotations

import os
import stat

from headway_agent.node.directory import SUBDIRECTORIES, NodeDir, remove_tree

SPARE_MAX = 512
OUTPUT = "rank0.out"


class TaskDirs:
    def __init__(self, node_dir: NodeDir) -> None:
        self.node_dir = node_dir
        self._spare: list[str] = []  # Filled by the janitor's thread, emptied by the main loop.
        self._given_back = 0

    def make(self, key: str) -> str:
        """The task's directory, with its subdirectories in it. One that is there already is kept as it is."""
        path = self.node_dir.task(key)
        while self._spare:
            try:
                os.rename(self._spare.pop(), path)
                return path
            except OSError:
                continue  # Somebody removed it, or the task's own directory is there already.
        for each in (path, *(f"{path}/{name}" for name in SUBDIRECTORIES)):
            try:
                os.mkdir(each, 0o700)
            except FileExistsError:
                pass
        return path

    def give_back(self, key: str) -> None:
        path = self.node_dir.task(key)
        if len(self._spare) >= SPARE_MAX or not as_new(path):
            remove_tree(path)
            return
        self._given_back += 1
        spare = os.path.join(os.path.dirname(path), f".spare-{os.getpid()}-{self._given_back}")
        os.rename(path, spare)
        self._spare.append(spare)

    def put_aside_strangers(self, known: set[str]) -> list[str]:
        """Rename what belongs to no known task, left by an agent that died between two steps; to be removed at ease."""
        tasks = self.node_dir.file("tasks")
        mine = {self.node_dir.task(key) for key in known} | set(self._spare)
        aside = []
        for name in os.listdir(tasks):
            path = os.path.join(tasks, name)
            if path in mine:
                continue
            if not name.startswith("."):
                # Out of the way at once: a new task of this name must not meet the removal.
                fresh = os.path.join(tasks, f".aside-{os.getpid()}-{name}")
                os.rename(path, fresh)
                path = fresh
            aside.append(path)
        return aside


def as_new(path: str) -> bool:
    """Whether nothing is in it but empty subdirectories and one output file, which is emptied."""
    try:
        with os.scandir(path) as entries:
            names = {entry.name for entry in entries}
        if names - {OUTPUT} != set(SUBDIRECTORIES):
            return False
        for name in SUBDIRECTORIES:
            if os.listdir(f"{path}/{name}") or stat.S_IMODE(os.stat(f"{path}/{name}").st_mode) != 0o700:
                return False
        if OUTPUT in names:
            found = os.lstat(f"{path}/{OUTPUT}")
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or stat.S_IMODE(found.st_mode) != 0o600:
                return False
            if found.st_size:
                os.truncate(f"{path}/{OUTPUT}", 0)
    except OSError:
        return False
    return True
