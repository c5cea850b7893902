"""The habits that are tried: each is a script as people write it, and how it is submitted."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts/trainings"


@dataclass(frozen=True)
class Habit:
    name: str  # As it stands in the table of the docs.
    script: str
    words: tuple[str, ...] = ()
    every: int = 15  # Steps from save to save.
    pace_s: float = 0.03
    nodes: int = 1
    ranks_per_node: int = 1
    heeds: bool = False  # Saves when it is told to end.
    bundle: bool = False  # Its working directory is a fresh one in each attempt.
    submit: tuple[str, ...] = ()
    within_saves: bool = False  # Ends come while a save is under way.
    fails: str = ""  # Why it does not pass yet.

    @property
    def id(self) -> str:
        return re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node


NOT_YET = "what was saved in this way is not kept yet"
PLAIN = [
    Habit("pickle in place, one name", "in_place.py"),
    Habit("pickle in place, one name, saves when told to end", "in_place.py", ("--heed",), heeds=True),
    Habit("pickle in place in the working directory", "in_place.py", ("--snapshot-path", "snapshot.pkl"), bundle=True),
    Habit("written beside and renamed", "in_place.py", ("--rename",)),
    Habit("fresh names in place, three kept", "fresh_names.py"),
    Habit("`epoch=06-val_loss=0.95.ckpt`", "fresh_names.py", ("--names", "epoch")),
    Habit("process id, date, port and loss in the name; newest by mtime", "fresh_names.py",
          ("--names", "odd", "--newest-by", "mtime")),
    Habit("the same; newest by ctime", "fresh_names.py", ("--names", "odd", "--newest-by", "ctime")),
    Habit("one growing file, closed each time", "growing.py"),
    Habit("one growing file, held open and flushed", "growing.py", ("--held",)),
    Habit("model and optimizer, two files written over", "many_files.py"),
    Habit("a folder of files for each save", "many_files.py", ("--layout", "folder")),
    Habit("a folder of files with a hidden `.metadata`", "many_files.py", ("--layout", "hidden")),
    Habit("a large file in pieces, cut in the middle", "large.py", every=10, within_saves=True),
    Habit("two nodes, only the first rank saves", "gang.py", nodes=2),
    Habit("two nodes, each rank saves its part", "gang.py", ("--saves", "each"), nodes=2),
]  # fmt: skip
PLAIN = [replace(habit, fails=NOT_YET) for habit in PLAIN]
