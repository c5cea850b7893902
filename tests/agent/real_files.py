"""Writes one file or directory of each format with the real library, into the directory that is named to it.

Run by a Python that has them (tests/real/torching.py); what they must look like is in test_real_formats.py.
"""

from __future__ import annotations

import collections
import os
import pickle
import sys


def torch_files(place: str) -> None:
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(6)))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 8)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "global_step": 40}
    torch.save(state, f"{place}/new.pt")
    torch.save(state, f"{place}/old.pth", _use_new_zipfile_serialization=False)
    torch.save({"MODEL_STATE": model.state_dict(), "EPOCHS_RUN": 7}, f"{place}/snapshot.pt")
    torch.save(model, f"{place}/module.pt")
    torch.save(
        {"state_dict": collections.OrderedDict(w=torch.zeros(9)), "iteration": 9},
        f"{place}/protocol4.pt",
        pickle_protocol=4,
    )
    kinds = [
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ]
    mixed = {str(kind): torch.zeros(5, dtype=kind) for kind in kinds}
    torch.save(
        {**mixed, "view": torch.arange(10.0)[2:5], "step": 12},
        f"{place}/mixed.ckpt",
        _use_new_zipfile_serialization=False,
    )
    torch.jit.save(torch.jit.script(model), f"{place}/script.pt")


def numpy_files(place: str) -> None:
    import numpy

    numpy.save(f"{place}/array.npy", numpy.arange(60.0).reshape(3, 4, 5))
    numpy.save(f"{place}/objects.npy", numpy.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    numpy.save(f"{place}/record.npy", numpy.zeros(3, dtype=[("a", "f8"), ("b", "i4", (2, 2)), ("c", "U5")]))
    numpy.save(f"{place}/time.npy", numpy.array(["2026-11-16"], dtype="datetime64[D]"))
    numpy.savez(f"{place}/plain.npz", a=numpy.arange(100), step=numpy.int64(7))
    numpy.savez_compressed(f"{place}/packed.npz", a=numpy.arange(1000))
    for protocol in (2, 3, 4, 5):
        with open(f"{place}/state{protocol}.pkl", "wb") as file:
            pickle.dump({"w": numpy.arange(100_000), "step": numpy.int64(31), "epoch": 2}, file, protocol)


def safetensors_files(place: str) -> None:
    import torch
    from safetensors.torch import save_file

    tensors = {"a": torch.zeros(20, 3), "b": torch.zeros(7, dtype=torch.bfloat16)}
    save_file(tensors, f"{place}/said.safetensors", metadata={"format": "pt", "step": "55"})
    save_file(tensors, f"{place}/plain.safetensors")


def keras_files(place: str) -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(numpy.zeros((8, 4)), numpy.zeros((8, 1)), epochs=1, verbose=0)
    model.save(f"{place}/whole.keras")
    model.save_weights(f"{place}/only.weights.h5")
    model.save(f"{place}/legacy.h5")
    import h5py

    with h5py.File(f"{place}/latest.hdf5", "w", libver="latest") as file:
        file["a"] = numpy.arange(1000)


def distributed(place: str) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    state = {"model": {"w": torch.zeros(100, 10), "b": torch.zeros(10)}, "step": 5, "words": "x" * 100}
    dcp.save(state, checkpoint_id=f"{place}/dcp", no_dist=True)


def lightning_files(place: str) -> None:
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):  # type: ignore[no-untyped-def]
            return self.layer(batch[0]).sum()

        def configure_optimizers(self):  # type: ignore[no-untyped-def]
            return torch.optim.SGD(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4)), batch_size=2)
    trainer = lightning.Trainer(max_epochs=2, default_root_dir=f"{place}/lightning", logger=False, accelerator="cpu",
                                enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
    trainer.fit(Model(), loader)


def trainer_files(place: str) -> None:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

    class Model(PreTrainedModel):
        config_class = PretrainedConfig

        def __init__(self, config: PretrainedConfig) -> None:
            super().__init__(config)
            self.layer = torch.nn.Linear(4, 1)
            self.post_init()

        def forward(self, x, labels=None):  # type: ignore[no-untyped-def]
            out = self.layer(x)
            return {"loss": (out - labels).pow(2).mean(), "logits": out}

    data = [{"x": torch.zeros(4), "labels": torch.zeros(1)} for _ in range(8)]
    told = TrainingArguments(
        f"{place}/trainer", max_steps=6, save_steps=3, per_device_train_batch_size=2, report_to=[], use_cpu=True
    )
    Trainer(Model(PretrainedConfig()), told, train_dataset=data).train()


def accelerate_files(place: str) -> None:
    import accelerate
    import torch

    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    accelerator.prepare(model, optimizer, scheduler)
    accelerator.save_state(f"{place}/accelerate/step_8")


if __name__ == "__main__":
    for make in (
        torch_files,
        numpy_files,
        safetensors_files,
        keras_files,
        distributed,
        lightning_files,
        trainer_files,
        accelerate_files,
    ):
        make(sys.argv[1])
