"""A distributed checkpoint of PyTorch: each rank writes its shards into a folder, the first a hidden .metadata."""

import argparse
import os
import shutil

import diary
import tensors
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--folder", default="checkpoints")
parser.add_argument("--keep", type=int, default=2)
args = parser.parse_args()
dist.init_process_group("gloo")
rank = dist.get_rank()
model, data = DistributedDataParallel(tensors.network()), tensors.Numbers()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
own = torch.zeros(4)  # Each rank has something of its own.


class State:
    step = 0


def numbers():
    names = os.listdir(args.folder) if os.path.isdir(args.folder) else []
    return sorted(int(name[len("step-") :]) for name in names if name.startswith("step-"))


def held():
    weights, optim = get_state_dict(model, optimizer)
    return {"model": weights, "optim": optim, "step": State.step, f"own{rank}": own}


def save():
    if rank == 0:
        diary.saving(State.step)
    dcp.save(held(), checkpoint_id=os.path.join(args.folder, f"step-{State.step}"))
    if rank == 0:
        for old in numbers()[: -args.keep]:
            shutil.rmtree(os.path.join(args.folder, f"step-{old}"))
        diary.saved(State.step)


def load():
    there = numbers()
    dist.barrier()
    if not there:
        return
    state = held()
    dcp.load(state, checkpoint_id=os.path.join(args.folder, f"step-{there[-1]}"))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    State.step = state["step"]


try:
    load()
except Exception as error:
    diary.torn(0, error)
    raise
diary.began(State.step, tensors.content(model.module, optimizer) + own.numpy().tobytes())
while State.step < args.steps:
    inputs, targets = tensors.batch_of(data, State.step * dist.get_world_size() + rank)
    optimizer.zero_grad()
    loss = mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    own += loss.item()
    State.step += 1
    diary.stepped(State.step, tensors.content(model.module, optimizer) + own.numpy().tobytes())
    if rank == 0:
        print(f"step {State.step} loss {loss.item():.4f}", flush=True)
    if State.step % args.save_every == 0:
        save()
diary.done(State.step, tensors.content(model.module, optimizer) + own.numpy().tobytes())
dist.destroy_process_group()
