"""A model spread over the ranks by torch's fully_shard, with headway.training.sharded.Progress."""

import diary
import pupil
import torch
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler

from headway.training.sharded import Progress

args = pupil.arguments()
if not torch.distributed.is_initialized() and pupil.WORLD == 1:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
pupil.connect()
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (pupil.WORLD,))
model = pupil.network()
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
data = pupil.Noisy()
loader = DataLoader(data, pupil.BATCH, sampler=DistributedSampler(data, seed=pupil.SEED), num_workers=args.workers)
pupil.own_chance()


def share():
    """What this rank has of the model."""
    return pupil.content({name: each.to_local() for name, each in model.state_dict().items()})


class Noted(Progress):
    def restore(self):
        done = super().restore()
        diary.began(done, share())
        return done

    def _write(self, step, *more):
        diary.saving(step)
        super()._write(step, *more)
        diary.saved(step)


progress = Noted(model=model, optimizer=optimizer, scheduler=scheduler, save_every=args.save_every)
for _ in progress.epochs(args.epochs):
    for batch in progress.batches(loader):
        optimizer.zero_grad()
        loss = pupil.loss_of(model, batch)
        loss.backward()
        optimizer.step()
        pupil.say(progress.done + 1, loss)
        diary.stepped(progress.done + 1, share())
    scheduler.step()
diary.done(progress.done, share())
torch.distributed.destroy_process_group()
