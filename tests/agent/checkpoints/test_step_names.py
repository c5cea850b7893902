"""The step, the shape and the owner that a file's name tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_agent.checkpoints.step_names import half_written, shape_of, shard_of, step_in

STEPS = {
    # Lightning
    "epoch=06-step=1200.ckpt": ("step", 1200),
    "epoch=6-step=1200-v2.ckpt": ("step", 1200),
    "epoch=06-val_loss=0.95.ckpt": ("epoch", 6),
    "epoch=06-val_acc=95.ckpt": ("epoch", 6),
    "epoch=06-train_loss_step=0.95.ckpt": ("epoch", 6),
    "epoch=06-val/loss=0.95.ckpt": ("epoch", 6),
    "epoch=06-v1.ckpt": ("epoch", 6),
    "lightning_logs/version_3/checkpoints/epoch=1-step=20.ckpt": ("step", 20),
    "epoch=0-step=10.ckpt/checkpoint/mp_rank_00_model_states.pt": ("step", 10),
    "step=12-v3.ckpt": ("step", 12),
    "mnist-epoch=02-val_loss=0.32.ckpt": ("epoch", 2),
    # Hugging Face
    "checkpoint-500/optimizer.pt": ("step", 500),
    "checkpoint-500/model-00001-of-00003.safetensors": ("step", 500),
    "checkpoint-500/rng_state_0.pth": ("step", 500),
    "outputs/run-3/checkpoint-40/trainer_state.json": ("step", 40),
    "llama-7b-lora/checkpoint-40/adapter_model.safetensors": ("step", 40),
    # Megatron, DeepSpeed, mmengine, fairseq, Accelerate, torchtitan
    "global_step1200/mp_rank_00_model_states.pt": ("step", 1200),
    "global_step1200/zero_pp_rank_3_mp_rank_00_optim_states.pt": ("step", 1200),
    "iter_0001200/mp_rank_00/model_optim_rng.pt": ("step", 1200),
    "iter_2000.pth": ("step", 2000),
    "epoch_12.pth": ("epoch", 12),
    "checkpoint_3_12000.pt": ("step", 12000),
    "step_100/random_states_1.pkl": ("step", 100),
    "epoch_2/pytorch_model.bin": ("epoch", 2),
    "step-000000012.pt": ("step", 12),
    "step-10/__0_0.distcp": ("step", 10),
    "step_10/.metadata": ("step", 10),
    # Keras
    "weights.05-0.32.keras": ("epoch", 5),
    "weights-improvement-05-0.32.hdf5": ("epoch", 5),
    "cp-0007.weights.h5": ("epoch", 7),
    "model.07.keras": ("epoch", 7),
    # Ultralytics, fastai, detectron, pix2pix, stable-baselines, StyleGAN
    "runs/detect/train3/weights/epoch12.pt": ("epoch", 12),
    "model_3.pth": ("", 3),
    "model_0010.pth": ("", 10),
    "model_0004999.pth": ("", 4999),
    "5_net_G.pth": ("", 5),
    "rl_model_10000_steps.zip": ("step", 10000),
    "network-snapshot-000120.pkl": ("", 120),
    # by hand
    "ckpt_000120": ("", 120),
    "ckpt-12.pt": ("", 12),
    "ckpt12.pt": ("", 12),
    "checkpoint_7.pth.tar": ("", 7),
    "0010.pth": ("", 10),
    "10.pt": ("", 10),
    "1200/default/_METADATA": ("", 1200),
    "1200/ocdbt.process_0/d/3f2a": ("", 1200),
    "step_10k.pt": ("step", 10000),
    "resnet50_epoch_3.pth": ("epoch", 3),
    "mnist_cnn_12.pt": ("", 12),
    "resnet50_12.pth": ("", 12),
    "gpt2-step-40.bin": ("step", 40),
    ".4242-step-7.ckpt": ("step", 7),
    "step_100_rank_3.pt": ("step", 100),
    "epoch_3_batch_200.pt": ("epoch", 3),
    "epoch_3/step_100.pt": ("step", 100),
    "step_100/epoch_3.pt": ("step", 100),
    "10/20.pt": ("", 10),
    "20261116-123045/epoch_3.pt": ("epoch", 3),
    "model_20261116_step_9.pt": ("step", 9),
    "lr0.1_epochs100_bs32/epoch_3.pt": ("epoch", 3),
    "lr0.1_epochs100_bs32/model_3.pt": ("", 3),
    "seed_4/model_12.pt": ("", 12),
    "ep7.pt": ("epoch", 7),
    "Epoch 7.pt": ("epoch", 7),
    "episode_30.pt": ("episode", 30),
    "unet_3epochs.pt": ("epoch", 3),
    "step_1699999999999999.pt": None,  # No job makes so many.
}

NO_STEPS = (
    "last.pt", "best.pt", "last.ckpt", "last-v1.ckpt", "snapshot.pt", "model.safetensors", "pytorch_model.bin",
    "latest", "trainer_state.json", ".metadata", ".hydra/config.yaml", "final",
    # losses and metrics
    "val_loss=0.95.ckpt", "model-loss_0.32.pt", "model_acc_95.pt", "best-f1=88.ckpt", "model_acc95.pt",
    # dates, times, processes, ports
    "2026-11-16/model.pt", "outputs/2026-11-16/12-30-45/model.pt", "model-20261116.pt", "model_20261116_123045.pt",
    "model_20261116T123045.pt", "2026/11/16/model.pt", "model-1699999999.pt", "model-1699999999123.pt",
    "events.out.tfevents.1699999999.host.4242.0", "model-pid4242.pt", "port_8080.pt", "model_12:30:45.pt",
    # names of models
    "resnet50.pth", "resnet-50.pth", "gpt2.pt", "gpt-2.pt", "llama-7b.bin", "llama-2-7b/model.pt", "vgg16.pth",
    "v2.pt", "bert-base-v1.5.bin", "yolov8n.pt", "yolo11n.pt", "vit_b_16.pth", "cifar10.pt", "cifar-10.pt",
    "resnet50-0676ba61.pth", "model-3f2a9c1b.pt", "550e8400-e29b-41d4-a716-446655440000.pt", "t5-small.pt",
    # shares of ranks and parts of models
    "model-00001-of-00003.safetensors", "__0_1.distcp", "rng_state_0.pth", "mp_rank_00_model_states.pt", "rank3.pt",
    "random_states_1.pkl", "optimizer_0.bin", "pytorch_model_1.bin", "custom_checkpoint_0.pkl", "scheduler_1.bin",
    "layer_01-model_00-model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt", "node0/model.pt",
    "ckpt.data-00000-of-00001", "ocdbt.process_0/d/ab12", "pytorch_model_fsdp_0/x.bin", "state.params.w/0.0.0",
    # counts of other things
    "lightning_logs/version_3/hparams.yaml", "fold_2/model.pt", "fold2.pt", "seed_7.pt", "trial_12/model.pt",
    "run_3/model.pt", "runs/train3/weights/last.pt", "runs/train-3/weights/last.pt", "exp_4/last.pt", "stage_2.pt",
    "model_lr1e-4.pt", "model_bs32.pt", "batch_size_64.pt", "warmup_steps_500.pt", "max_epochs=10/model.pt",
    "steps_per_epoch_100.pt", "num_epochs_10/model.pt", "top_5.pt", "img_size_224.pt",
)  # fmt: skip


@pytest.mark.parametrize("path", STEPS)
def test_the_step_is_read_from_the_name(path: str) -> None:
    assert step_in(path) == STEPS[path]


@pytest.mark.parametrize("path", NO_STEPS)
def test_a_number_that_is_no_step_is_not_taken_for_one(path: str) -> None:
    assert step_in(path) is None


SHARES = {
    "__1_0.distcp": 1,
    "checkpoint-5/__12_3.distcp": 12,
    "rng_state_3.pth": 3,
    "random_states_1.pkl": 1,
    "mp_rank_00_model_states.pt": 0,
    "zero_pp_rank_3_mp_rank_00_optim_states.pt": 3,
    "iter_0000100/mp_rank_01/model_optim_rng.pt": 1,
    "model_rank_7.pt": 7,
    "rank3.pt": 3,
    "rank3/model.pt": 3,
    "1200/ocdbt.process_1/d/ab": 1,
    "shard_2.pt": 2,
    # one writer's
    "model-00001-of-00003.safetensors": None,
    "shard-00001-of-00003.bin": None,
    "pytorch_model_1.bin": None,
    "optimizer_0.bin": None,
    "rng_state.pth": None,
    "frank3.pt": None,
    "checkpoint-500/optimizer.pt": None,
    ".metadata": None,
}


@pytest.mark.parametrize("path", SHARES)
def test_a_rank_s_share_is_told_from_what_one_writer_splits(path: str) -> None:
    assert shard_of(path) == SHARES[path]


SHAPES = {
    "checkpoint-500/optimizer.pt": "checkpoint-#/optimizer.pt",
    "epoch=06-val_loss=0.95.ckpt": "epoch=#-val_loss=#.ckpt",
    "epoch=06-val_loss=-1.95e-05.ckpt": "epoch=#-val_loss=#.ckpt",
    "epoch=06-val_loss=nan.ckpt": "epoch=#-val_loss=#.ckpt",
    "weights.05-0.32.keras": "weights.#-#.keras",
    "__0_1.distcp": "__#_#.distcp",
    "last.ckpt": "last.ckpt",
    "0010.pth": "#.pth",
}


@pytest.mark.parametrize("path", SHAPES)
def test_files_that_are_written_again_have_one_shape(path: str) -> None:
    assert shape_of(path) == SHAPES[path]


HALF_WRITTEN = (
    "x.tmp", "x.TMP", "x.temp", "x.part", "x.partial", "x.incomplete", "x.new", "x.lock", "x.crdownload", ".x.swp",
    "x~", "tmp-checkpoint-500", "tmpab12cd", "tmp_model.pt", ".x.tmp123", "model.pt.tmp.4242", "model.tmp.npz",
    "1200.orbax-checkpoint-tmp-1699999999", "1200.orbax-checkpoint-tmp", ".nfs000000000001234", ".~lock.x#",
    "model.pt.tmp-4242-ab", "model.pt.tmpab12cd_x", "model.tmp.4242.pt", "ckpt-1.data-00000-of-00001.tempstate12345",
)  # fmt: skip
FINISHED = (
    ".metadata", ".config.json", ".hydra", "model.pt", "tmp", "tmp_trainer", "template.json", "part.pt", "newer.pt",
    "temperature.json", "model_new.pt", "locked.pt", "page.tmpl", "partial.ckpt", ".gitignore", "data-00000-of-00001",
)  # fmt: skip


@pytest.mark.parametrize("name", HALF_WRITTEN)
def test_a_name_that_says_half_written_is_known(name: str) -> None:
    assert half_written(name)


@pytest.mark.parametrize("name", FINISHED)
def test_hidden_and_odd_names_are_not_half_written(name: str) -> None:
    assert not half_written(name)


@given(st.text(alphabet="abeprstckpoint0123456789=-_./~", max_size=60))
def test_no_name_is_too_odd(path: str) -> None:
    step_in(path), shard_of(path), half_written(path)
    assert not any(each.isdigit() for each in shape_of(path))


def test_a_long_name_is_read_at_once() -> None:
    for piece in ("a", "_", ".", "1", "-", "1.", "a_", ".tmp", "a=1", "step", "of-1", "1e-", "loss_", "12-of-"):
        name = ".tmp" + piece * 60 + "!"
        step_in(name), shard_of(name), shape_of(name), half_written(name)


@given(st.integers(0, 10**9), st.sampled_from(["step={}.pt", "step-{:09}.pt", "checkpoint-{}/a.pt", "iter_{:07}.pth"]))
def test_a_step_comes_back_from_its_name(number: int, form: str) -> None:
    assert step_in(form.format(number)) == ("step", number)


def test_what_a_next_attempt_of_lightning_writes_beside_the_last_has_its_shape() -> None:
    assert shape_of("checkpoints/last-v1.ckpt") == shape_of("checkpoints/last.ckpt")
    assert shape_of("model-v2.pt") != shape_of("model.pt")
