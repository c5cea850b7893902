"""A plain loop of PyTorch with headway.training.pytorch.Progress: one rank, or several with DistributedDataParallel."""

import diary
import pupil
import torch
from torch.utils.data import DataLoader, DistributedSampler

from headway.training.pytorch import Progress

args = pupil.arguments()
pupil.connect()
model = pupil.network()
replica = torch.nn.parallel.DistributedDataParallel(model) if pupil.WORLD > 1 else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.8)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
data = pupil.Noisy()
sampler = DistributedSampler(data, seed=pupil.SEED) if pupil.WORLD > 1 else None
loader = DataLoader(data, pupil.BATCH, shuffle=sampler is None, sampler=sampler, num_workers=args.workers)
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


progress = Noted(model=model, optimizer=optimizer, scheduler=scheduler, save_every=args.save_every)
for _ in progress.epochs(args.epochs):
    for batch in progress.batches(loader):
        optimizer.zero_grad()
        loss = pupil.loss_of(replica, batch)
        loss.backward()
        optimizer.step()
        pupil.say(progress.done + 1, loss)
        diary.stepped(progress.done + 1, pupil.content(model))
    scheduler.step()
diary.done(progress.done, pupil.content(model))
