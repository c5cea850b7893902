"""Lightning with headway.training.lightning.HeadwayCallback, on one rank or several."""

import os

import diary
import pupil
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.utils.data import DataLoader

from headway.training.lightning import HeadwayCallback, resume_path

args = pupil.arguments()


class Pupil(LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = pupil.network()

    def training_step(self, batch, number):
        loss = pupil.loss_of(self.inner, batch)
        pupil.say(self.global_step + 1, loss)
        return loss

    def validation_step(self, batch, number):
        pupil.loss_of(self.inner, batch)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.8)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)]


class Diary(Callback):
    def on_train_start(self, trainer, module):
        diary.began(trainer.global_step, pupil.content(module.inner))

    def on_train_batch_end(self, trainer, module, *more):
        diary.stepped(trainer.global_step, pupil.content(module.inner))


class Noted(HeadwayCallback):
    def _save(self, trainer, step, again=False):
        if step != self._saved:
            diary.saving(step)
            super()._save(trainer, step, again)
            diary.saved(step)


torch.manual_seed(pupil.SEED)
model = Pupil()
nodes = pupil.WORLD // int(os.environ.get("LOCAL_WORLD_SIZE") or pupil.WORLD)
trainer = Trainer(
    max_epochs=args.epochs, accelerator="cpu", devices=pupil.WORLD // nodes, num_nodes=nodes, logger=False,
    strategy="ddp" if pupil.WORLD > 1 else "auto", enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[Diary(), Noted(save_every=args.save_every)],
)  # fmt: skip
loader = DataLoader(pupil.Noisy(), pupil.BATCH, shuffle=True, num_workers=args.workers)
checks = DataLoader(pupil.Noisy(noise=0), pupil.BATCH)
pupil.own_chance()
trainer.fit(model, loader, checks, ckpt_path=resume_path())
if trainer.global_step == args.epochs * pupil.BATCHES:
    diary.done(trainer.global_step, pupil.content(model.inner))
