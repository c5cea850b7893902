"""A plain loop in PyTorch whose files lie as some libraries lay them: a pair, two weights of a run, models by name."""

import argparse
import os

import diary
import tensors
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import mse_loss

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--layout", choices=["pair", "weights", "models"], default="pair")
parser.add_argument("--folder", default="outputs")
args = parser.parse_args()
model, data = tensors.network(), tensors.Numbers()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
step, best = 0, float("inf")


def at(*names):
    path = os.path.join(args.folder, *names)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def save(loss):
    """As safetensors with its optimizer beside it; as Ultralytics does; as fastai does."""
    global best
    diary.saving(step)
    if args.layout == "pair":
        save_file(model.state_dict(), at("model.safetensors"))
        torch.save({"optimizer": optimizer.state_dict(), "step": step}, at("optimizer.pt"))
    elif args.layout == "weights":
        state = {"epoch": step, "best_fitness": best, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, at("runs/train/weights/last.pt"))
        if loss <= best:
            best = loss
            torch.save(state, at("runs/train/weights/best.pt"))
    else:
        torch.save({"model": model.state_dict(), "opt": optimizer.state_dict()}, at(f"models/model_{step}.pth"))
    diary.saved(step)


def load():
    """Returns the step, or 0 where there is nothing."""
    if args.layout == "pair" and os.path.exists(at("model.safetensors")):
        model.load_state_dict(load_file(at("model.safetensors")))
        state = torch.load(at("optimizer.pt"))
        optimizer.load_state_dict(state["optimizer"])
        return state["step"]
    if args.layout == "weights" and os.path.exists(at("runs/train/weights/last.pt")):
        state = torch.load(at("runs/train/weights/last.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return state["epoch"]
    names = os.listdir(os.path.dirname(at("models/_")))
    numbers = sorted(int(name[len("model_") : -len(".pth")]) for name in names)
    if args.layout == "models" and numbers:
        state = torch.load(at(f"models/model_{numbers[-1]}.pth"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["opt"])
        return numbers[-1]
    return 0


try:
    step = load()
except Exception as error:
    diary.torn(0, error)
    raise
diary.began(step, tensors.content(model, optimizer))
while step < args.steps:
    inputs, targets = tensors.batch_of(data, step)
    optimizer.zero_grad()
    loss = mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    step += 1
    diary.stepped(step, tensors.content(model, optimizer))
    print(f"epoch {step}/{args.steps} loss {loss.item():.4f}", flush=True)
    if step % args.save_every == 0:
        save(loss.item())
diary.done(step, tensors.content(model, optimizer))
