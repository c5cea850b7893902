"""Directories as the frameworks leave them, finished and half-way."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path

import pytest

from headway_agent.files.task_files import TaskFiles
from headway_agent.formats.file_formats import CUT, UNKNOWN, WHOLE, Verdict, check_directory


@dataclasses.dataclass(frozen=True)
class Index:
    fqn: str
    nested: tuple[int, ...] = (1, 2)


@dataclasses.dataclass
class StorageInfo:
    relative_path: str
    offset: int
    length: int


@dataclasses.dataclass
class Metadata:
    storage_data: dict[Index, StorageInfo]


def metadata(**ends: int) -> bytes:
    data = {}
    for name, end in ends.items():
        data[Index(f"{name}.w")] = StorageInfo(f"{name}.distcp", 0, 10)
        data[Index(f"{name}.b")] = StorageInfo(f"{name}.distcp", 10, end - 10)
    return pickle.dumps(Metadata(data))


def verdict(files: dict[str, bytes | int]) -> Verdict:
    sizes = {path: len(each) if isinstance(each, bytes) else each for path, each in files.items()}

    def read(path: str) -> bytes:
        found = files[path]
        assert isinstance(found, bytes), f"{path} is large"
        return found

    return check_directory(sizes, read)


INDEX = json.dumps({"weight_map": {"a": "m-1-of-2.safetensors", "b": "m-2-of-2.safetensors"}}).encode()
TRAINER = {"model.safetensors": 900, "optimizer.pt": 900, "scheduler.pt": 9, "rng_state.pth": 9, "training_args.bin": 9}
STATE = b'{"global_step": 5}'

DIRECTORIES: dict[str, tuple[dict[str, bytes | int], str, str]] = {
    "a distributed checkpoint": (
        {".metadata": metadata(__0_0=80, __1_0=90), "__0_0.distcp": 80, "__1_0.distcp": 90},
        WHOLE, "PyTorch distributed checkpoint",
    ),
    "one of which other ranks have the rest": (
        {".metadata": metadata(__0_0=80, __1_0=90), "__0_0.distcp": 85}, WHOLE, "PyTorch distributed checkpoint",
    ),
    "one with a shard that is cut": (
        {".metadata": metadata(__0_0=80), "__0_0.distcp": 79}, CUT, "PyTorch distributed checkpoint",
    ),
    "one in a folder": (
        {"model/.metadata": metadata(__0_0=80), "model/__0_0.distcp": 79}, CUT, "PyTorch distributed checkpoint",
    ),
    "one without its metadata": ({"__1_0.distcp": 90}, UNKNOWN, "PyTorch distributed checkpoint"),
    "one whose metadata is cut": (
        {".metadata": metadata(__0_0=80)[:-9], "__0_0.distcp": 80}, UNKNOWN, "PyTorch distributed checkpoint",
    ),
    "one without any of its shards": (
        {".metadata": metadata(__0_0=80), "__1_0.distcp": 80}, UNKNOWN, "PyTorch distributed checkpoint",
    ),
    "a Trainer's": ({**TRAINER, "trainer_state.json": STATE}, WHOLE, "Hugging Face Trainer checkpoint"),
    "a Trainer's without its state": ({**TRAINER}, CUT, "Hugging Face Trainer checkpoint"),
    "a Trainer's whose state is cut": (
        {**TRAINER, "trainer_state.json": STATE[:-1]}, CUT, "Hugging Face Trainer checkpoint",
    ),
    "a Trainer's with an empty file": (
        {**TRAINER, "optimizer.pt": 0, "trainer_state.json": STATE}, CUT, "Hugging Face Trainer checkpoint",
    ),
    "a Trainer's in shards": (
        {"model.safetensors.index.json": INDEX, "m-1-of-2.safetensors": 9, "m-2-of-2.safetensors": 9,
         "trainer_state.json": STATE},
        WHOLE, "Hugging Face Trainer checkpoint",
    ),
    "a Trainer's without one of its shards": (
        {"model.safetensors.index.json": INDEX, "m-1-of-2.safetensors": 9, "trainer_state.json": STATE},
        CUT, "Hugging Face Trainer checkpoint",
    ),
    "a Trainer's with a distributed model": (
        {"trainer_state.json": STATE, "fsdp_0/.metadata": metadata(__0_0=80), "fsdp_0/__0_0.distcp": 70},
        CUT, "Hugging Face Trainer checkpoint",
    ),
    "what another node of a Trainer writes": ({"rng_state_1.pth": 9}, UNKNOWN, ""),
    "a model in shards": (
        {"x/pytorch_model.bin.index.json": INDEX, "x/m-1-of-2.safetensors": 9, "x/m-2-of-2.safetensors": 9},
        WHOLE, "sharded model",
    ),
    "a model without a shard": (
        {"pytorch_model.bin.index.json": INDEX, "m-1-of-2.safetensors": 9}, CUT, "sharded model",
    ),
    "a model with a cut index": ({"pytorch_model.bin.index.json": INDEX[:9]}, CUT, "sharded model"),
    "Orbax's": (
        {"_CHECKPOINT_METADATA": b'{"commit_timestamp_nsecs": 5}', "default/_METADATA": 9, "default/manifest.ocdbt": 9,
         "default/ocdbt.process_0/d/ab": 9},
        WHOLE, "Orbax checkpoint",
    ),
    "Orbax's by a commit file": ({"commit_success.txt": 9, "default/checkpoint": 9}, WHOLE, "Orbax checkpoint"),
    "Orbax's of today": ({"orbax.checkpoint": 0, "pytree/_METADATA": 9}, WHOLE, "Orbax checkpoint"),
    "Orbax's not yet committed": (
        {"_CHECKPOINT_METADATA": b'{"commit_timestamp_nsecs": null}', "d/_METADATA": 9}, UNKNOWN, "Orbax checkpoint",
    ),
    "Orbax's temporary one": (
        {"5.orbax-checkpoint-tmp-17/_CHECKPOINT_METADATA": b"{}"}, CUT, "Orbax checkpoint",
    ),
    "Orbax's parts before they are put together": (
        {"_CHECKPOINT_METADATA": b'{"commit_timestamp_nsecs": 5}', "x/ocdbt.process_0/manifest.ocdbt": 9},
        UNKNOWN, "Orbax checkpoint",
    ),
    "DeepSpeed's": (
        {"latest": b"global_step5", "global_step5/mp_rank_00_model_states.pt": 9}, WHOLE, "DeepSpeed checkpoint",
    ),
    "DeepSpeed's without what latest names": (
        {"latest": b"global_step9", "global_step5/mp_rank_00_model_states.pt": 9}, CUT, "DeepSpeed checkpoint",
    ),
    "DeepSpeed's without latest": ({"mp_rank_00_model_states.pt": 9}, UNKNOWN, "DeepSpeed checkpoint"),
    "Accelerate's": (
        {"model.safetensors": 9, "optimizer.bin": 9, "scheduler.bin": 9, "random_states_0.pkl": 9},
        UNKNOWN, "Accelerate checkpoint",
    ),
    "Accelerate's half-way": (
        {"model.safetensors": 9, "optimizer.bin": 9, "scheduler.bin": 9}, CUT, "Accelerate checkpoint",
    ),
    "anybody's": ({"a.pt": 3, "b.pt": 4}, UNKNOWN, ""),
    "an empty one": ({}, UNKNOWN, ""),
}  # fmt: skip


@pytest.mark.parametrize("what", DIRECTORIES)
def test_a_framework_s_directory_is_judged_as_the_framework_would(what: str) -> None:
    files, expected, kind = DIRECTORIES[what]
    assert verdict(files)[:2] == (expected, kind)


def test_a_directory_whose_files_cannot_be_read_is_not_whole() -> None:
    def read(path: str) -> bytes:
        raise OSError("gone")

    for files, _, _ in DIRECTORIES.values():
        sizes = {path: len(each) if isinstance(each, bytes) else each for path, each in files.items()}
        if any(isinstance(each, bytes) for each in files.values()):
            assert check_directory(sizes, read).verdict != WHOLE


def test_a_folder_without_one_of_its_shards_is_not_called_whole(tmp_path: Path) -> None:
    """On several nodes others may have it; nobody can tell that here."""
    folder = tmp_path / "checkpoints/step-45"
    folder.mkdir(parents=True)
    files = {".metadata": metadata(__0_0=80, __1_0=90), "__0_0.distcp": bytes(80), "__1_0.distcp": bytes(90)}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sizes = {name: len(content) for name, content in files.items()}
    inspector = TaskFiles("job1/1/0", str(tmp_path), 1).inspector
    assert inspector.folder("step-45", sizes) == WHOLE
    for name in files:
        assert inspector.folder("step-45", {each: size for each, size in sizes.items() if each != name}) != WHOLE
