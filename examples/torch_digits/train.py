"""A small network in PyTorch that keeps its progress with one class: see headway.training.pytorch.

    headway run --outputs output examples/torch_digits/train.py --steps 2000

The data is made up: ten patterns in noise, drawn from the seed and the number of the step, so that every attempt sees
what an undisturbed one would have seen.
"""

import argparse
import hashlib
import json
import os
import time
from array import array
from pathlib import Path

import torch
from torch import nn

import headway
from headway.training.pytorch import Progress


def batch(patterns: torch.Tensor, seed: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(seed * 1_000_003 + step)
    labels = torch.randint(0, 10, (64,), generator=chance)
    return patterns[labels] + 0.8 * torch.randn(64, 784, generator=chance), labels


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--steps", type=int, default=1000)
    given.add_argument("--lr", type=float, default=0.05)
    given.add_argument("--save-every", type=int, default=100)
    given.add_argument("--pause", type=float, default=0.0, help="seconds per step, to have something to watch")
    args = given.parse_args()
    seed = int(os.environ.get("HEADWAY_SEED", "0"))

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    patterns = torch.randn(10, 784, generator=torch.Generator().manual_seed(seed))
    model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    progress = Progress(model=model, optimizer=optimizer, save_every=args.save_every)
    for step in progress.steps(args.steps):
        images, labels = batch(patterns, seed, step)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(args.pause)
        if step % 20 == 0:
            headway.log({"loss": loss}, step=step + 1)

    weights = b"".join(array("f", each.flatten().tolist()).tobytes() for each in model.state_dict().values())
    output = Path("output")
    output.mkdir(exist_ok=True)
    torch.save(model.state_dict(), output / "model.pt")
    digest = hashlib.sha256(weights).hexdigest()
    (output / "result.json").write_text(json.dumps({"weights": digest, "steps": args.steps}))
    print(f"trained {args.steps} steps, weights {digest[:12]}", flush=True)


if __name__ == "__main__":
    main()
