"""A loop of Accelerate with headway.training.accelerate.Progress, on one rank or several."""

import diary
import pupil
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from headway.training.accelerate import Progress

args = pupil.arguments()
accelerator = Accelerator(cpu=True)
model = pupil.network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.8)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
loader = DataLoader(pupil.Noisy(), pupil.BATCH, shuffle=True, num_workers=args.workers)
replica, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
pupil.own_chance()


class Noted(Progress):
    def restore(self):
        done = super().restore()
        diary.began(done, pupil.content(model))
        return done

    def _write(self, step, *more):
        diary.saving(step)
        super()._write(step, *more)
        diary.saved(step)


progress = Noted(accelerator, save_every=args.save_every)
for _ in progress.epochs(args.epochs):
    for batch in progress.batches(loader):
        optimizer.zero_grad()
        loss = pupil.loss_of(replica, batch)
        accelerator.backward(loss)
        optimizer.step()
        pupil.say(progress.done + 1, loss)
        diary.stepped(progress.done + 1, pupil.content(model))
    scheduler.step()
diary.done(progress.done, pupil.content(model))
