"""Lightning as it stands in its examples: its own folders, a checkpoint callback, and ckpt_path="last".

With a logger each start has a folder of its own, in which alone Lightning looks for the last: so there it has none.
"""

import argparse
import os
import signal

import diary
import lightning
import tensors
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--root", default=None)  # Where it is left out, Lightning takes the working directory.
parser.add_argument("--names", choices=["last", "loss"], default="last")
args = parser.parse_args()


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = tensors.network()

    def training_step(self, batch, index):
        # Within an epoch Lightning begins again with the first batch: what is learned must hang on the step alone.
        inputs, targets = tensors.batch_of(data, self.global_step)
        loss = torch.nn.functional.mse_loss(self.layers(inputs), targets)
        self.log("val_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Journal(Callback):
    def on_train_start(self, trainer, module):
        diary.began(trainer.global_step, tensors.content(module))

    def on_train_batch_end(self, trainer, module, *rest):
        diary.stepped(trainer.global_step, tensors.content(module))


class Noted(ModelCheckpoint):
    """Its own saves; what is written together (one by its step, and the last) is one."""

    def on_train_batch_end(self, trainer, *rest):
        due = trainer.global_step % args.save_every == 0
        if due:
            diary.saving(trainer.global_step)
        super().on_train_batch_end(trainer, *rest)
        if due:
            diary.saved(trainer.global_step)


def newest():
    """What the loss is in the name of is looked for by its time."""
    if args.names == "last":
        return "last"
    found = [os.path.join(above, name) for above, _, names in os.walk(args.root or ".") for name in names]
    return max((path for path in found if path.endswith(".ckpt")), key=os.path.getmtime, default=None)


data = tensors.Numbers()
often = {"every_n_train_steps": args.save_every, "save_on_train_epoch_end": False}
if args.names == "last":
    saver = Noted(save_last=True, **often)
else:
    saver = Noted(filename="{epoch:02d}-{val_loss:.2f}", monitor="val_loss", save_top_k=-1, **often)
trainer = lightning.Trainer(
    max_steps=args.steps, default_root_dir=args.root, accelerator="cpu", devices=1, callbacks=[Journal(), saver],
    enable_model_summary=False, logger=args.names == "loss",
)  # fmt: skip
lightning.seed_everything(3)
signal.signal(signal.SIGTERM, lambda *_: diary.told.append(1))  # Lightning ends after a step: it must not wait there.
module = Module()
loader = DataLoader(data, batch_size=32, shuffle=False)
try:
    trainer.fit(module, loader, ckpt_path=newest())
except (OSError, EOFError, RuntimeError, ValueError) as error:
    diary.torn(0, error)
    raise
diary.done(trainer.global_step, tensors.content(module))
