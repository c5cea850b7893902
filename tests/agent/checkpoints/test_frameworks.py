"""Which files of a working directory are taken for checkpoints, by the habits of frameworks and of people."""

from __future__ import annotations

import pytest

from headway_agent.checkpoints import frameworks
from headway_agent.checkpoints.frameworks import (
    FOLDERS,
    FoundHabit,
    found_in,
    is_kept,
    is_skipped,
    may_matter,
    sentence,
)

HABITS = [
    (
        "Hugging Face Trainer",
        [
            "outputs/checkpoint-500/trainer_state.json",
            "outputs/checkpoint-500/model.safetensors",
            "outputs/checkpoint-1000/optimizer.pt",
            "outputs/checkpoint-1000/modeling_own.py",
        ],
        ["outputs/checkpoint-*"],
    ),
    ("Hugging Face Trainer", ["checkpoint-500/model-00001-of-00002.safetensors"], ["checkpoint-*"]),
    (
        "Accelerate",
        ["out/checkpoints/checkpoint_3/random_states_0.pkl", "out/checkpoints/checkpoint_3/model.safetensors"],
        ["out/checkpoints/checkpoint_*"],
    ),
    ("Accelerate", ["runs/epoch_2/random_states_1.pkl", "runs/epoch_2/optimizer.bin"], ["runs/epoch_*"]),
    ("DeepSpeed", ["ds/global_step10/mp_rank_00_model_states.pt", "ds/latest"], ["ds/global_step*", "ds/latest"]),
    (
        "Lightning",
        ["lightning_logs/version_0/checkpoints/epoch=0-step=100.ckpt", "lightning_logs/version_0/hparams.yaml"],
        ["lightning_logs/version_*/checkpoints", "lightning_logs/version_*/hparams.yaml"],
    ),
    ("Lightning", ["models/epoch=06-val_loss=0.95.ckpt", "models/last.ckpt"], ["models/*.ckpt"]),
    ("Lightning", ["run/last.ckpt/model.pt", "run/last.ckpt/meta.pt"], ["run/*.ckpt"]),
    (
        "Ultralytics",
        ["runs/detect/train/weights/last.pt", "runs/detect/train/weights/best.pt", "runs/detect/train/args.yaml"],
        ["runs/detect/train/weights/*.pt", "runs/detect/train/args.yaml", "runs/detect/train/results.csv"],
    ),
    ("PyTorch distributed checkpoint", ["ckpt/.metadata", "ckpt/__0_0.distcp", "ckpt/__1_0.distcp"], ["ckpt"]),
    ("PyTorch distributed checkpoint", ["out/step_100/.metadata", "out/step_100/__0_0.distcp"], ["out/step_*"]),
    ("PyTorch distributed checkpoint", [".metadata", "__0_0.distcp"], [".metadata", "__*_*.distcp"]),
    ("Orbax", ["ck/500/_CHECKPOINT_METADATA", "ck/500/default/manifest.ocdbt", "ck/500/default/d/ab"], ["ck/[0-9]*"]),
    ("Orbax", ["state/_METADATA", "state/d/0"], ["state"]),
    (
        "TensorFlow",
        ["tf/ckpt-3.index", "tf/ckpt-3.data-00000-of-00001", "tf/checkpoint"],
        ["tf/ckpt-*.index", "tf/ckpt-*.data-*", "tf/checkpoint"],
    ),
    (
        "Keras BackupAndRestore",
        ["backup/latest.weights.h5", "backup/_latest.weights.h5", "backup/training_metadata.json"],
        ["backup/*latest.weights.h5", "backup/*training_metadata.json"],
    ),
    ("Keras", ["model_epoch_3.h5", "model_epoch_4.h5"], ["model_epoch_*.h5"]),
    ("Keras", ["best.keras"], ["best.keras"]),
    (FOLDERS, ["iter_0000100/mp_rank_00/model_optim_rng.pt"], ["iter_*"]),
    (FOLDERS, ["checkpoints/whatever.xyz"], ["checkpoints"]),
    (FOLDERS, ["ray/checkpoint_000010/algorithm_state.pkl"], ["ray/checkpoint_*"]),
    (FOLDERS, ["checkpoints/100/weights.own", "checkpoints/200/weights.own"], ["checkpoints/[0-9]*"]),
    (FOLDERS, ["my_ckpts/a.pt", "my_ckpts/a.json"], ["my_ckpts"]),
    ("PyTorch", ["snapshot.pt"], ["snapshot.pt"]),
    ("PyTorch", ["out/ckpt.pt"], ["out/ckpt.pt"]),
    ("PyTorch", ["checkpoint.pth.tar", "model_best.pth.tar"], ["checkpoint.pth.tar", "model_best.pth.tar"]),
    (
        "PyTorch",
        ["output/model_0000999.pth", "output/last_checkpoint"],
        ["output/model_*.pth", "output/last_checkpoint"],
    ),
    ("PyTorch", ["pytorch_model.bin", "optimizer.bin"], ["optimizer.bin", "pytorch_model.bin"]),
    ("PyTorch", [f"out/{name}.pt" for name in "abcdefgh"], ["out/*.pt"]),
    ("pickle", ["snapshot.pkl"], ["snapshot.pkl"]),
    ("joblib", ["forest-12.joblib"], ["forest-*.joblib"]),
    ("Flax", ["flax/state.msgpack"], ["flax/state.msgpack"]),
    ("NumPy", ["weights.npz"], ["weights.npz"]),
    ("XGBoost", ["0020.model", "xgb.ubj"], ["*.model", "xgb.ubj"]),
    ("Stable-Baselines3", ["rl_model_1000_steps.zip"], ["rl_model_*_steps.zip"]),
    ("a file of its state", ["state.json"], ["state.json"]),
]


@pytest.mark.parametrize(("framework", "written", "patterns"), HABITS, ids=lambda value: str(value)[:40])
def test_a_habit_is_known_by_what_it_writes(framework: str, written: list[str], patterns: list[str]) -> None:
    found = found_in(written)
    assert ({each.pattern for each in found}, {each.framework for each in found}) == (set(patterns), {framework})
    assert all(is_kept(path, found) for path in written)
    assert any(may_matter(path) for path in written)


@pytest.mark.parametrize(
    "path",
    [
        "train.log",
        "outputs/runs/events.out.tfevents.1700000000.host",
        "results.csv",
        "__pycache__/train.cpython-311.pyc",
        "data/processed/train.pt",
        "datasets/cifar/batch_1.pkl",
        "features.pkl",
        "train_features.npy",
        "sample.npy",
        "vocab.json",
        "config.yaml",
        "samples/epoch_3/image.png",
        "core.123",
        "ck/500.orbax-checkpoint-tmp-17/default/_METADATA",
        "snapshot.pt.tmp",
        "tmp-checkpoint-500.part",
        "notes.txt",
    ],
)
def test_what_is_no_checkpoint_is_not_taken_for_one(path: str) -> None:
    assert found_in([path]) == []


def test_small_files_beside_a_checkpoint_belong_to_it_and_logs_do_not() -> None:
    written = ["out/ckpt.pt", "out/history.json", "out/rng.npy", "out/loss.csv", "out/train.log", "elsewhere/a.json"]
    found = found_in(written)
    assert [path for path in written if is_kept(path, found)] == written[:3]


def test_small_files_beside_a_folder_of_checkpoints_belong_to_them() -> None:
    found = found_in(["out/ckpts/model.pt", "out/history.json"])
    assert is_kept("out/history.json", found)


def test_a_folder_of_an_epoch_is_a_checkpoint_only_with_a_model_in_it() -> None:
    assert found_in(["epoch_3/model.pt", "epoch_3/image.png"]) == [FoundHabit("epoch_*", FOLDERS)]


def test_data_is_no_checkpoint_unless_its_folder_says_so() -> None:
    assert [each.pattern for each in found_in(["data/train.pt", "data/checkpoints/a.pt"])] == ["data/checkpoints"]


def test_a_pattern_is_named_once_however_many_rules_find_it() -> None:
    inside = "outputs/checkpoint-500/global_step500/mp_rank_00_model_states.pt"
    assert found_in([inside, "outputs/checkpoint-500/trainer_state.json", "outputs/checkpoint-500/latest"]) == [
        FoundHabit("outputs/checkpoint-*", "Hugging Face Trainer")
    ]


def test_a_star_stays_within_one_name() -> None:
    found = [FoundHabit("out/model_*.pt", "PyTorch")]
    assert is_kept("out/model_7.pt", found)
    assert not is_kept("out/model_7/old.pt", found)
    assert is_kept("out/model_7.pt/shard", found)


@pytest.mark.parametrize(
    ("folder", "skipped"),
    [
        (".git", True),
        (".venv", True),
        ("node_modules", True),
        ("lib/__pycache__", True),
        ("wandb", True),
        ("outputs", False),
        ("data", False),
        ("data/train", True),
        ("data/checkpoints", False),
        ("package.egg-info", True),
        ("tb_logs/run/version_0/checkpoints", False),
    ],
)
def test_some_folders_are_not_looked_into(folder: str, skipped: bool) -> None:
    assert is_skipped(folder) == skipped


def test_the_sentence_says_what_is_kept_and_why() -> None:
    assert sentence(found_in(["outputs/checkpoint-500/trainer_state.json"])) == (
        "outputs/checkpoint-*, found as Hugging Face Trainer"
    )
    many = [FoundHabit(f"{name}.pt", "PyTorch") for name in "abcde"] + [FoundHabit("x.keras", "Keras")]
    assert sentence(many) == "a.pt, b.pt, c.pt and 2 more, found as PyTorch; x.keras, found as Keras"


def test_thousands_of_files_are_a_few_patterns() -> None:
    found = found_in(f"out/{number:05d}-{chr(97 + number % 26)}.pt" for number in range(5000))
    assert [each.pattern for each in found] == ["out/*.pt"]
    assert len(found_in(f"{number}/x.pt" for number in range(1000))) <= frameworks.FOUND_MAX
