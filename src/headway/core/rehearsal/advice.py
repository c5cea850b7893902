"""What to change in a training that does not resume, or not well: sentences, by what was seen. Words only."""

from __future__ import annotations

import re
from collections.abc import Sequence

SAVE = (
    "write its state to $HEADWAY_CHECKPOINT_DIR every few minutes, and load what lies there at the start",
    "a training that saves less often: headway doctor checkpoint --within 10m …",
)
INSTEAD = "write it to $HEADWAY_CHECKPOINT_DIR instead, and load what lies there at the start"
SAVED_BY = (
    "where one node saves for all: --saved-by first",
    "where each saves its own part, all must save the same steps",
)
SAVE_BETWEEN = ("save from time to time as well: a machine that is lost gives no notice",)
NO_INPUT = ("a job has nobody at its keyboard: give it as an argument or a file what it asks for",)
SHORT = ("give it more to do, or let it save sooner: a rehearsal needs one save and a moment after it",)
TOO_SHORT = ("give it more to do: a rehearsal preempts it after its second save",)
PRINT_STEPS = ("print the step now and then, such as print(f'step {step}'), and rehearse again",)
LOAD_THE_STEP = ("load the step (the epoch, the optimizer) from it as well, and not the weights alone",)
NOT_RESTORED = (
    "see what was kept: headway checkpoint ls JOB; with several nodes, every node that saves must have saved",
)
STRONGER = ("write it under another name and rename it when it is done, or say so: headway.checkpoint(step)",)
SAVE_ON_NOTICE = ("if headway.stop_requested(): save and exit, once per step; or save more often",)
END_ON_NOTICE = ("end on SIGTERM, or when headway.stop_requested() says so; --grace 2m gives more time to save",)

COMPLETE: dict[str, tuple[str, tuple[str, ...]]] = {
    "declared": ("the script says so itself, with headway.checkpoint", ()),
    "renamed": ("known by its rename: it is written beside and renamed when it is whole", ()),
    "marker": ("known by its marker, which is written last", ()),
    "closed": ("known because it was closed after writing and nobody writes to it", ()),
    "settled": ("guessed: it had not changed for a while, which half a file may do as well", STRONGER),
}

IN_WORKDIR = ".headway-workdir/"  # How manifests mark a file that lies in the working directory.
LOOK_FOR_IT = (
    "load what lies in $HEADWAY_CHECKPOINT_DIR at the start; headway.resume() says whether there is anything",
)
_MODEL = r"\.(pt|pth|ckpt|bin|safetensors|pkl|pickle|joblib|h5|hdf5|keras|npz|npy|msgpack|distcp|gguf|state)$"
MODEL_FILE = re.compile(_MODEL, re.IGNORECASE)
MODEL = re.compile(_MODEL + "|ckpt|checkpoint|snapshot|weights", re.IGNORECASE)
FRAMEWORKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(^|/)checkpoint-\d+/"), "Hugging Face Trainer: trainer.train(resume_from_checkpoint=resume_path())"),
    (re.compile(r"\.ckpt$"), 'Lightning: trainer.fit(…, ckpt_path="last"), or the path of headway.training.lightning'),
    (re.compile(r"\.(keras|weights\.h5|h5)$"), "Keras: model, epoch = resume(build) of headway.training.keras"),
    (re.compile(r"\.(pt|pth|bin)$"), "PyTorch: Progress(model=…, optimizer=…) of headway.training.pytorch does both"),
)


def look_for_it(names: Sequence[str]) -> tuple[str, ...]:
    """How a script of this kind finds its checkpoint; the kind is told by the names of the files."""
    own = [name.removeprefix(IN_WORKDIR) for name in names if name.startswith(IN_WORKDIR)]
    look = (f"load {own[0]} at the start if it is there, and go on from its step",) if own else LOOK_FOR_IT
    for pattern, says in FRAMEWORKS:
        if any(pattern.search(name) for name in names):
            return (*look, says)
    return look


def elsewhere(paths: Sequence[str]) -> tuple[str, ...]:
    """What to do about a training that saves where nobody looks."""
    folders = [path.partition("/")[0] for path in paths if "/" in path and not path.startswith("/")]
    return (f"have it kept where it lies: --checkpoint-dir {folders[0]}", INSTEAD) if folders else (INSTEAD,)


def fails_on(names: str) -> tuple[str, ...]:
    return (f"it must be able to load what it saved itself: {names}",)


def plural(label: str, count: int) -> str:
    word = {"global_step": "step", "it": "iteration", "iter": "iteration", "ep": "epoch"}.get(label, label) or "line"
    return word if count == 1 else f"{word}es" if word == "batch" else f"{word}s"
