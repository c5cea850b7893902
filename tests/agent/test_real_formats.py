"""Files and directories of the real libraries: whole as they are, cut when they are cut, and the steps in them."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from headway_agent.checkpoints.step_names import step_in
from headway_agent.formats.file_formats import CUT, UNKNOWN, WHOLE, check, check_directory
from headway_agent.formats.saved_steps import step_of
from tests.real.torching import torch_python

SCRIPT = Path(__file__).with_name("real_files.py")
FILES = {
    "new.pt": ("torch", ("step", 40)),
    "old.pth": ("torch, old format", ("step", 40)),
    "snapshot.pt": ("torch", ("epoch", 7)),
    "module.pt": ("torch", None),
    "script.pt": ("torch", None),
    "protocol4.pt": ("torch", ("step", 9)),
    "mixed.ckpt": ("torch, old format", ("step", 12)),
    "array.npy": ("npy", None),
    "objects.npy": ("npy", None),
    "record.npy": ("npy", None),
    "time.npy": ("npy", None),
    "plain.npz": ("npz", None),
    "packed.npz": ("npz", None),
    **{f"state{protocol}.pkl": ("pickle", ("step", 31)) for protocol in (2, 3, 4, 5)},
    "said.safetensors": ("safetensors", ("step", 55)),
    "plain.safetensors": ("safetensors", None),
    "whole.keras": ("keras", None),
    "only.weights.h5": ("hdf5", None),
    "legacy.h5": ("hdf5", None),
    "latest.hdf5": ("hdf5", None),
    "lightning/checkpoints/epoch=1-step=8.ckpt": ("torch", ("step", 8)),
    "trainer/checkpoint-3/model.safetensors": ("safetensors", None),
    "trainer/checkpoint-3/optimizer.pt": ("torch", None),
    "trainer/checkpoint-3/training_args.bin": ("torch", None),
    "trainer/checkpoint-6/trainer_state.json": ("json", ("step", 6)),
    "accelerate/step_8/random_states_0.pkl": ("torch", None),
    "dcp/.metadata": ("pickle", None),
}
NAMED = {
    "lightning/checkpoints/epoch=1-step=8.ckpt": ("step", 8),
    "trainer/checkpoint-3/optimizer.pt": ("step", 3),
    "accelerate/step_8/random_states_0.pkl": ("step", 8),
    "dcp/.metadata": None,
    "old.pth": None,
}
CUTS = 25


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("real")
    done = subprocess.run([torch_python(), SCRIPT, made], cwd=made, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return made


@pytest.mark.real
def test_files_of_the_real_libraries_are_whole_and_say_their_steps(place: Path) -> None:
    for name, (kind, step) in FILES.items():
        assert (name, *check(f"{place}/{name}")) == (name, WHOLE, kind, "")
        assert (name, step_of(f"{place}/{name}")) == (name, step)
    for name, step in NAMED.items():
        assert (name, step_in(name)) == (name, step)


@pytest.mark.real
def test_files_of_the_real_libraries_are_cut_wherever_they_are_cut(place: Path, tmp_path: Path) -> None:
    chance = random.Random(11)
    for name in FILES:
        data = (place / name).read_bytes()
        cut = tmp_path / os.path.basename(name)
        for length in [2, *(chance.randrange(2, len(data) - 1) for _ in range(CUTS)), len(data) - 2]:
            cut.write_bytes(data[:length])
            assert (name, length, check(str(cut)).verdict) == (name, length, CUT)
            step_of(str(cut))


@pytest.mark.real
def test_directories_of_the_real_libraries_are_judged(place: Path) -> None:
    def judge(folder: str, *without: str, **sizes: int) -> tuple[str, str]:
        above = place / folder
        files = {each.name: each.stat().st_size for each in above.iterdir() if each.name not in without}
        files.update({name: size for name, size in sizes.items() if name in files})
        return check_directory(files, lambda path: (above / path).read_bytes())[:2]

    distributed, trainer = "PyTorch distributed checkpoint", "Hugging Face Trainer checkpoint"
    assert judge("dcp") == (WHOLE, distributed)
    assert judge("dcp", ".metadata") == (UNKNOWN, distributed)
    shard = (place / "dcp/__0_0.distcp").stat().st_size
    assert judge("dcp", **{"__0_0.distcp": shard - 1}) == (CUT, distributed)
    assert judge("trainer/checkpoint-3") == (WHOLE, trainer)
    assert judge("trainer/checkpoint-3", "trainer_state.json") == (CUT, trainer)
    assert judge("accelerate/step_8") == (UNKNOWN, "Accelerate checkpoint")
