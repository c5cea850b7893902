"""What the trainings with libraries have in common: a small network with chance in it, data with chance in it, a diary.

Whatever is not restored shows in the weights: dropout, shuffling, noise on each example, momentum, a falling rate.
"""

import argparse
import hashlib
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(KERAS_BACKEND="torch", HF_HUB_OFFLINE="1")

import diary
import torch

torch.set_num_threads(1)
SEED, BATCH, BATCHES = 7, 4, 11  # In an epoch; odd, so that saves fall on all of its batches.
RANK, WORLD = int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)


class Told:
    """Whether this job had notice: who waits for the test's leave goes on then."""

    def __bool__(self):
        return os.path.exists(os.environ.get("HEADWAY_NOTICE_FILE") or "/nonexistent")


diary.told = Told()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save-every", type=int, default=15)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    args.epochs = -(-args.steps // BATCHES)
    return args


class Noisy(torch.utils.data.Dataset):
    """Examples with fresh noise each time that they are read."""

    def __init__(self, ranks=WORLD, noise=0.1):
        chance = torch.Generator().manual_seed(SEED)
        self.rows = torch.randn(BATCH * BATCHES * ranks, 8, generator=chance)
        self.noise = noise

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        noise = self.noise * torch.randn(8) if self.noise else 0.0
        return self.rows[index] + noise, self.rows[index].mean().reshape(1)


def network():
    torch.manual_seed(SEED)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))


def own_chance():
    """From here on each rank draws its own random numbers."""
    torch.manual_seed(1000 + RANK)


def loss_of(model, batch):
    return torch.nn.functional.mse_loss(model(batch[0]), batch[1])


def content(model):
    """All weights as bytes."""
    state = model.state_dict() if hasattr(model, "state_dict") else model
    return b"".join(each.detach().cpu().numpy().tobytes() for each in state.values())


def connect():
    """Join the other ranks, where there are any."""
    if WORLD > 1:
        torch.distributed.init_process_group("gloo")
        torch.distributed.barrier()


def say(step, loss):
    if RANK == 0:
        print(f"step {step} | loss {float(loss.detach()):.6f}", flush=True)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]
