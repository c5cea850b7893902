"""The habits that are tried: each is a script as people write it, and how it is submitted."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts/trainings"
LATER = ("many_files.py", "torch_files.py", "torch_snapshot.py", "hugging_face.py", "keras_plain.py")


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
    unsure_s: float = 0.0  # Nothing in its files tells whether they are whole: the kernel's word takes its time.
    several: bool = False  # A save is more than one file.
    tells_begun: bool = False  # It prints the epoch that it is in.
    library: bool = False  # Needs the Python with torch and what is on top of it.
    quick: bool = True  # A part of `make test`.

    @property
    def id(self) -> str:
        return re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def tells_later(self) -> bool:
        """Whether it prints epochs, or a bar: that these are its steps is known with its first save."""
        return self.script in LATER

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node


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
    Habit("one growing file, held open and flushed", "growing.py", ("--held",), pace_s=0.15,
          unsure_s=2.0),  # So often it is looked into: attempts that are shorter would never get on.
    Habit("model and optimizer, two files written over", "many_files.py", several=True),
    Habit("a folder of files for each save", "many_files.py", ("--layout", "folder"), several=True),
    Habit("a folder of files with a hidden `.metadata`", "many_files.py", ("--layout", "hidden"), several=True),
    Habit("a large file in pieces, cut in the middle", "large.py", every=10, within_saves=True,
          unsure_s=1.0),
    Habit("two nodes, only the first rank saves", "gang.py", nodes=2),
    Habit("two nodes, each rank saves its part", "gang.py", ("--saves", "each"), nodes=2),
    Habit("two nodes, each saves its own under the same name", "gang.py", ("--saves", "own"), nodes=2),
]  # fmt: skip

# Libraries as people use them, without a line of ours. Their folders are their own, in the working directory.
LIBRARIES = [
    replace(habit, library=True, bundle=True) for habit in (
        Habit("`torch.save(snapshot, \"snapshot.pt\")` in the working directory", "torch_snapshot.py", every=5,
              pace_s=0.1),
        Habit("the same in a folder given by a flag, two ranks", "torch_snapshot.py",
              ("--snapshot-path", "out/snapshot.pt"), every=5, pace_s=0.1, ranks_per_node=2,
              quick=False),
        Habit("`model.safetensors` and `optimizer.pt`", "torch_files.py", several=True, quick=False),
        Habit("`runs/train/weights/last.pt` and `best.pt`, as Ultralytics", "torch_files.py",
              ("--layout", "weights"), several=True, quick=False),
        Habit("`models/model_15.pth`, as fastai", "torch_files.py", ("--layout", "models"), quick=False),
        Habit("Hugging Face Trainer, `get_last_checkpoint`", "hugging_face.py",
              pace_s=0.15),  # A bar is drawn ten times a second at most.
        Habit("Lightning, `ckpt_path=\"last\"`", "lightning_plain.py", several=True),
        Habit("Lightning, `epoch=06-val_loss=0.95.ckpt`", "lightning_plain.py", ("--names", "loss"), quick=False),
        Habit("Keras, BackupAndRestore and ModelCheckpoint", "keras_plain.py", several=True, every=1,
              pace_s=0.2, tells_begun=True, quick=False),
        Habit("torch.distributed.checkpoint, two ranks", "distributed.py", ranks_per_node=2),
        Habit("torch.distributed.checkpoint, two nodes", "distributed.py", nodes=2, several=True, unsure_s=1.0,
              quick=False),
        Habit("`torch.save(snapshot, \"snapshot.pt\")` by the first of two nodes", "torch_snapshot.py", every=5,
              nodes=2, quick=False),
        Habit("Accelerate, `save_state`", "accelerated.py", several=True, quick=False),
    )
]  # fmt: skip
