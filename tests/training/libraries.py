"""Run by an interpreter that has the real libraries: train, be told to stop, resume; the weights must be the same.

`python libraries.py LIBRARY FOLDER` is a job of Headway, or, where none is around, an undisturbed training in that
folder. Prints a hash of the weights, or "stopped".
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time

FOLDER = sys.argv[2]
if "HEADWAY_CHECKPOINT_DIR" not in os.environ:
    os.environ.update(HEADWAY_CHECKPOINT_DIR=f"{FOLDER}/checkpoints", HEADWAY_SDK_DIR=f"{FOLDER}/sdk")
    os.makedirs(f"{FOLDER}/checkpoints")
os.environ.update(KERAS_BACKEND="torch", HF_HUB_OFFLINE="1")

STEPS, WAIT_S = 24, 1500


def pause(step: int) -> None:
    """Half-way, a job that was not preempted yet waits until it is."""
    notice, give_up_at = os.environ.get("HEADWAY_NOTICE_FILE"), time.monotonic() + WAIT_S
    while notice and step == STEPS // 2 and "HEADWAY_RESUME_STEP" not in os.environ:
        if os.path.exists(notice) or time.monotonic() > give_up_at:
            return
        threading.Event().wait(0.02)  # Looked at again and again: the libraries have handlers of their own for signals.


def weights(state: dict) -> str:
    content = b"".join(each.detach().cpu().numpy().tobytes() for each in state.values())
    return hashlib.sha256(content).hexdigest()


def lightning() -> str:
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer

    from headway.training.lightning import HeadwayCallback, resume_path

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 2)

        def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
            return self.inner(batch[0]).pow(2).mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    class Pause(Callback):
        def on_train_batch_start(self, trainer: Trainer, *args: object) -> None:
            pause(trainer.global_step)

    torch.manual_seed(0)
    # Every batch the same: Lightning itself begins an epoch's data anew when it resumes in the middle of one.
    rows = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(rows.repeat(STEPS, 1))
    model = Model()
    trainer = Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", callbacks=[Pause(), HeadwayCallback(save_every=5)],
    )  # fmt: skip
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=8), ckpt_path=resume_path())
    return weights(model.state_dict()) if trainer.global_step == STEPS else "stopped"


def keras() -> str:
    import keras
    import numpy as np

    from headway.training.keras import HeadwayCallback, resume

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
        model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss="mse")
        return model

    class Pause(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            pause(epoch)

    chance = np.random.default_rng(1)
    inputs, wanted = chance.normal(size=(32, 4)), chance.normal(size=(32, 2))
    model, first = resume(build)
    callbacks = [Pause(), HeadwayCallback()]
    told = model.fit(
        inputs, wanted, batch_size=32, shuffle=False, epochs=STEPS, initial_epoch=first, verbose=0, callbacks=callbacks
    )
    if first + len(told.epoch) < STEPS:
        return "stopped"
    return hashlib.sha256(b"".join(each.tobytes() for each in model.get_weights())).hexdigest()


def huggingface() -> str:
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from headway.training.huggingface import HeadwayCallback, directory, resume_path

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> dict:
            return {"loss": self.inner(x).pow(2).mean()}

    class Pause(TrainerCallback):
        def on_step_begin(self, args: object, state: object, control: object, **kwargs: object) -> None:
            pause(state.global_step)

    torch.manual_seed(0)
    data = [{"x": row} for row in torch.randn(STEPS * 8, 4, generator=torch.Generator().manual_seed(1))]
    args = TrainingArguments(
        output_dir=directory(), per_device_train_batch_size=8, num_train_epochs=1, save_steps=5, logging_steps=5,
        report_to=[], use_cpu=True, disable_tqdm=True, seed=3, remove_unused_columns=False,
    )  # fmt: skip
    model = Model()
    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[Pause(), HeadwayCallback()])
    trainer.train(resume_from_checkpoint=resume_path())
    return weights(model.state_dict()) if trainer.state.global_step == STEPS else "stopped"


if __name__ == "__main__":
    print("\nRESULT", {"lightning": lightning, "keras": keras, "huggingface": huggingface}[sys.argv[1]]())
