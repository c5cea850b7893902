"""The step that a file says it was saved at, inside: in JSON, in a torch file or pickle, in a safetensors header.

Only what is cheap is read, nothing in it is ever run (pickled_data.py), and no file makes it fail: then it is None.
What names say is in checkpoints/step_names.py.
"""

from __future__ import annotations

import os
import re
import stat
import struct

from headway_agent.checkpoints.step_names import NamedStep
from headway_agent.formats.archives import zip_entries
from headway_agent.formats.file_content import Content
from headway_agent.formats.file_formats import TORCH_MAGIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping

READ_BYTES_MAX = 4 << 20
LINE_BYTES_MAX = 1 << 20
STEP_MAX = 10**15
# The first that is there is taken. Plurals come last: mostly they are, but they may be how many there will be.
KEYS = {
    **dict.fromkeys(("global_step", "globalstep"), "step"),
    **dict.fromkeys(("step", "current_step", "cur_step", "train_step", "training_step"), "step"),
    **dict.fromkeys(("iteration", "iter", "num_updates", "n_iter", "steps", "iterations", "iter_num"), "step"),
    **dict.fromkeys(("epochs_run", "epoch", "current_epoch", "cur_epoch", "start_epoch", "epochs"), "epoch"),
}
RANKS = {key: rank for rank, key in enumerate(KEYS)}
KEYS_OF_JSON = ("global_step", "step", "iteration", "epoch")  # Others may well be settings there.
STATES = ("random_states", "rng_state", "optimizer", "scheduler", "sampler")  # They count what is their own.
INSIDE = ("trainer", "state", "progress", "meta", "metadata", "train_state", "trainer_state")
SETTINGS = re.compile(r"config|args|param|setting|opt(?:ions)?\.", re.IGNORECASE)
_GLOBAL_STEP = re.compile(rb'^ {0,2}"global_step": (\d{1,15}),?$', re.MULTILINE)


def step_of(path: str) -> NamedStep | None:
    """The step in the file's own content, where it says one and that is cheap to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or not facts.st_size:
            return None
        name = os.path.basename(path).lower()
        if name.startswith(STATES):
            return None
        return _step(Content(fd, facts.st_size, os.path.splitext(name)[1]), name)
    except Exception:  # Whatever it is that we cannot read, it says no step.
        return None
    finally:
        os.close(fd)


def _step(content: Content, name: str) -> NamedStep | None:
    head = content.head
    if head.startswith(b"PK\x03\x04"):
        return _in_zip(content)
    if head.startswith(TORCH_MAGIC):
        return _in_pickles(content, 0, content.size, 4)
    if (head[:1] == b"\x80" and b"\x02" <= head[1:2] <= b"\x05") or name.endswith((".pkl", ".pickle")):
        return _in_pickles(content, 0, content.size)
    if name.endswith(".json"):
        return _in_json(content, name)
    if name.endswith((".jsonl", ".ndjson")):
        return _in_json_lines(content)
    if head[8:9] == b"{" and name.endswith(".safetensors"):
        return _in_safetensors(content)
    return None


def _in_zip(content: Content) -> NamedStep | None:
    for name, at, size in zip_entries(content):
        if name.split(b"/", 1)[-1] == b"data.pkl" and size <= READ_BYTES_MAX:
            begin = at + 30 + sum(struct.unpack("<HH", content.exactly(at + 26, 4)))
            return _in_pickles(content, begin, begin + size)
    return None


def _in_pickles(content: Content, at: int, end: int, count: int = -1) -> NamedStep | None:
    """In the last of the pickles from here on; torch's old files have three in front."""
    from headway_agent.formats.pickled_data import Loading

    loading, value = Loading(content.some, at), None
    while loading.at < end and count:
        value, count = loading.load(), count - 1
    return _best(value, KEYS)


def _in_json(content: Content, name: str) -> NamedStep | None:
    import json

    if SETTINGS.search(name):
        return None
    if content.size > READ_BYTES_MAX:  # A long history of metrics; the Trainer writes the step in front of it.
        found = _GLOBAL_STEP.search(content.head) if name == "trainer_state.json" else None
        return NamedStep("step", int(found.group(1))) if found else None
    return _best(json.loads(content.exactly(0, content.size)), KEYS_OF_JSON)


def _in_json_lines(content: Content) -> NamedStep | None:
    """In the last whole line: the file grows by one with each save."""
    import json

    count = min(content.size, LINE_BYTES_MAX)
    lines = content.exactly(content.size - count, count).rpartition(b"\n")[0]
    return _best(json.loads(lines.rpartition(b"\n")[2]), KEYS_OF_JSON)


def _in_safetensors(content: Content) -> NamedStep | None:
    import json

    (length,) = struct.unpack("<Q", content.exactly(0, 8))
    if length > READ_BYTES_MAX or b'"__metadata__"' not in content.exactly(8, length):
        return None
    said = json.loads(content.exactly(8, length)).get("__metadata__") or {}
    return _best({key: int(value) for key, value in said.items() if value.isdecimal()}, KEYS_OF_JSON)


def _best(value: Any, keys: Mapping[str, str] | tuple[str, ...]) -> NamedStep | None:
    """The step under the surest key, at the top or in what tells about the training."""
    best: tuple[int, int, NamedStep] | None = None
    for depth, held in _dicts(value):
        for key, each in held.items():
            word = key.lower() if isinstance(key, str) and len(key) < 32 else ""
            number = _number(each) if word in keys else None
            if number is not None and (best is None or (RANKS[word], depth) < best[:2]):
                best = RANKS[word], depth, NamedStep(KEYS[word], number)
    return best[2] if best else None


def _dicts(value: Any) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    held = _dict(value)
    yield 0, held
    for key, each in held.items():
        if isinstance(key, str) and key.lower() in INSIDE:
            yield 1, _dict(each)


def _dict(value: Any) -> Mapping[Any, Any]:
    """A dict, or the attributes of an object."""
    held = value if isinstance(value, dict) else getattr(value, "state", None)
    return held if isinstance(held, dict) else {}


def _number(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < STEP_MAX and value == int(value) else None
