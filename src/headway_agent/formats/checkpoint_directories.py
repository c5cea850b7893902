"""Whether a directory that holds one checkpoint is whole, as the framework that wrote it would see it.

Pure: relative paths with sizes come in, and a reader for the small files that tell about the others. Most frameworks
write one file last; some list what must be there. Single files are looked at in file_formats.py.
"""

from __future__ import annotations

import json
import re

from headway_agent.formats.file_formats import CUT, LOOSE, PROMISED, UNKNOWN, WHOLE, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator, Mapping

    Files = Mapping[str, int]
    Read = Callable[[str], bytes]

DISTRIBUTED = "PyTorch distributed checkpoint"
TRAINER = "Hugging Face Trainer checkpoint"
ACCELERATE = "Accelerate checkpoint"
DEEPSPEED = "DeepSpeed checkpoint"
ORBAX = "Orbax checkpoint"
SHARDED = "sharded model"
METADATA = re.compile(r"^(?:__\d+)?\.metadata$")
WEIGHTS_INDEX = re.compile(r"\.(?:safetensors|bin)\.index(?:\.\w+)?\.json$")
ORBAX_NAMES = ("_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "orbax.checkpoint", "commit_success.txt")
SMALL_BYTES_MAX = 16 << 20


def check(files: Files, read: Read) -> Verdict:
    """UNKNOWN where no framework is recognised, or what it writes last is not there."""
    try:
        for look in (_distributed, _trainer, _orbax, _deepspeed, _accelerate, _sharded):
            found = look(files, read)
            if found is not None:
                empty = _empty(files) if found.verdict == WHOLE else ""
                return Verdict(CUT, found.kind, f"{empty} is empty") if empty else found
    except Exception as problem:  # A directory that nobody foresaw says nothing.
        return Verdict(UNKNOWN, "", repr(problem)[:200])
    return Verdict(UNKNOWN, "", "")


def _empty(files: Files) -> str:
    endings = (*PROMISED, *LOOSE)
    return next((path for path, size in sorted(files.items()) if not size and path.endswith(endings)), "")


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _beside(path: str, name: str) -> str:
    above, slash, _ = path.rpartition("/")
    return above + slash + name


def _json(files: Files, read: Read, path: str) -> Any:
    """What the file holds; None where it is cut, or too large to be read here."""
    try:
        return json.loads(read(path)) if files[path] <= SMALL_BYTES_MAX else None
    except (OSError, ValueError):
        return None


# --- torch.distributed.checkpoint -----------------------------------------------------------------------------------


def _distributed(files: Files, read: Read) -> Verdict | None:
    """The coordinator writes .metadata when all ranks are done. It names each rank's files, and what lies where."""
    listed = [path for path in files if METADATA.match(_name(path))]
    shards = [path for path in files if path.endswith(".distcp")]
    if not shards or any(_name(path) == "trainer_state.json" for path in files):
        return None  # The Trainer's own look counts those in.
    if not listed:
        return Verdict(UNKNOWN, DISTRIBUTED, "has no .metadata yet, or another node has it")
    return _listed_shards(files, read, listed)


def _listed_shards(files: Files, read: Read, listed: Iterable[str]) -> Verdict:
    there = absent = 0
    for metadata in listed:
        ends = _shard_ends(read(metadata)) if files[metadata] <= SMALL_BYTES_MAX else None
        if ends is None:
            return Verdict(UNKNOWN, DISTRIBUTED, f"{metadata} cannot be read")
        for name, end in ends.items():
            path = _beside(metadata, name)
            if path in files and files[path] < end:
                return Verdict(CUT, DISTRIBUTED, f"{path} is {files[path]} bytes; {metadata} says at least {end}")
            there, absent = there + (path in files), absent + (path not in files)
    if not there:
        return Verdict(UNKNOWN, DISTRIBUTED, "none of the files that its .metadata names is here")
    return Verdict(WHOLE, DISTRIBUTED, f"{absent} of its files are other ranks'" if absent else "")


def _shard_ends(metadata: bytes) -> dict[str, int] | None:
    """How far each file is used; None where the metadata is not as we know it."""
    from headway_agent.formats.pickled_data import Loading
    from headway_agent.formats.pickles import Cut, Odd, TooLong

    try:
        stored = Loading(lambda at, count: metadata[at : at + count]).load().state["storage_data"]
        ends: dict[str, int] = {}
        for thing in stored.values():
            name, end = thing.state["relative_path"], thing.state["offset"] + thing.state["length"]
            ends[name] = max(end, ends.get(name, 0))
        return ends
    except (Cut, Odd, TooLong, AttributeError, KeyError, TypeError):
        return None


# --- the others -----------------------------------------------------------------------------------------------------


def _missing_shards(files: Files, read: Read) -> Iterator[str]:
    """What an index of weights names and is not there."""
    for path in files:
        if WEIGHTS_INDEX.search(path):
            index = _json(files, read, path)
            if not isinstance(index, dict) or not isinstance(index.get("weight_map"), dict):
                yield path
                continue
            yield from sorted(set(map(str, index["weight_map"].values())) - _names_beside(files, path))


def _names_beside(files: Files, path: str) -> set[str]:
    above = _beside(path, "")
    return {each[len(above) :] for each, size in files.items() if each.startswith(above) and size}


def _sharded(files: Files, read: Read) -> Verdict | None:
    if not any(WEIGHTS_INDEX.search(path) for path in files):
        return None
    missing = next(_missing_shards(files, read), "")
    return Verdict(CUT, SHARDED, f"{missing} is not there") if missing else Verdict(WHOLE, SHARDED, "")


def _trainer(files: Files, read: Read) -> Verdict | None:
    """trainer_state.json is written last, by the rank that saves the model."""
    names = {_name(path) for path in files}
    state = next((path for path in files if _name(path) == "trainer_state.json"), "")
    if not state:
        begun = "training_args.bin" in names and names & {"optimizer.pt", "scheduler.pt"}
        return Verdict(CUT, TRAINER, "trainer_state.json is not there") if begun else None
    if files[state] <= SMALL_BYTES_MAX and _json(files, read, state) is None:
        return Verdict(CUT, TRAINER, "trainer_state.json is cut")
    missing = next(_missing_shards(files, read), "")
    if missing:
        return Verdict(CUT, TRAINER, f"{missing} is not there")
    listed = [path for path in files if METADATA.match(_name(path))]
    shards = _listed_shards(files, read, listed) if listed else None
    return Verdict(shards.verdict, TRAINER, shards.detail) if shards else Verdict(WHOLE, TRAINER, "")


def _orbax(files: Files, read: Read) -> Verdict | None:
    """It is renamed when it is finished; where it cannot be, commit_success.txt is written last."""
    if any(".orbax-checkpoint-tmp" in path for path in files):
        return Verdict(CUT, ORBAX, "is still in its temporary directory")
    names = {_name(path): path for path in sorted(files, key=lambda path: -path.count("/"))}
    if not names.keys() & set(ORBAX_NAMES):
        return None
    processes = any(part.startswith("ocdbt.process_") for path in files for part in path.split("/"))
    if processes and "manifest.ocdbt" not in {_name(path) for path in files if "ocdbt.process_" not in path}:
        return Verdict(UNKNOWN, ORBAX, "its processes' parts are not put together here")
    if "commit_success.txt" in names or "orbax.checkpoint" in names:
        return Verdict(WHOLE, ORBAX, "")
    metadata = names.get("_CHECKPOINT_METADATA")
    said = _json(files, read, metadata) if metadata else None
    if isinstance(said, dict) and said.get("commit_timestamp_nsecs"):
        return Verdict(WHOLE, ORBAX, "")
    return Verdict(UNKNOWN, ORBAX, "does not say when it was finished")


def _deepspeed(files: Files, read: Read) -> Verdict | None:
    """`latest` names the directory of the newest save, and is written after it."""
    states = [path for path in files if _name(path).endswith(("_model_states.pt", "_optim_states.pt"))]
    if not states:
        return None
    latest = next((path for path in files if _name(path) == "latest" and files[path] < 4096), "")
    tag = read(latest).decode("utf-8", "replace").strip() if latest else ""
    if not tag:
        return Verdict(UNKNOWN, DEEPSPEED, "has no latest yet, or another node has it")
    if not any(path.startswith(_beside(latest, tag) + "/") for path in states):
        return Verdict(CUT, DEEPSPEED, f"{tag}, which latest names, is not there")
    if any(not path.startswith(_beside(latest, tag) + "/") for path in states):
        return Verdict(UNKNOWN, DEEPSPEED, "holds several saves")
    return Verdict(WHOLE, DEEPSPEED, "")


def _accelerate(files: Files, read: Read) -> Verdict | None:
    """Random states come last, but for objects that the script has registered."""
    names = {_name(path) for path in files}
    states = any(name.startswith("random_states_") for name in names)
    if not states and not {"optimizer.bin", "scheduler.bin"} <= names:
        return None
    if not states:
        return Verdict(CUT, ACCELERATE, "its random states are not there")
    missing = next(_missing_shards(files, read), "")
    if missing:
        return Verdict(CUT, ACCELERATE, f"{missing} is not there")
    return Verdict(UNKNOWN, ACCELERATE, "objects of the script's own may follow")
