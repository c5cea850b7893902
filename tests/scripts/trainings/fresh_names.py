"""A file with a fresh name for each save, written in place; the last three are kept.

How the newest is found, and what the names look like, is as people have it.
"""

import argparse
import datetime
import glob
import os
import pickle
import re

import diary
import toy

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--names", choices=["number", "epoch", "odd"], default="number")
parser.add_argument("--newest-by", choices=["number", "mtime", "ctime"], default="number")
parser.add_argument("--folder", default=os.environ.get("HEADWAY_CHECKPOINT_DIR", "checkpoints"))
parser.add_argument("--keep", type=int, default=3)
args = parser.parse_args()
os.makedirs(args.folder, exist_ok=True)
PORT = 29500


def name_of(step, loss):
    if args.names == "number":
        return f"model_{step:06d}.pkl"
    if args.names == "epoch":
        return f"epoch={step // args.save_every:02d}-val_loss={loss:.2f}.ckpt"
    now = datetime.datetime.now()
    return f"run{os.getpid()}_{now:%Y-%m-%d_%H-%M-%S_%f}_port{PORT}_loss{loss:.4f}.pkl"


def all_of_them():
    found = [path for path in glob.glob(os.path.join(args.folder, "*")) if path.endswith((".pkl", ".ckpt"))]
    if args.newest_by == "mtime":
        return sorted(found, key=os.path.getmtime)
    if args.newest_by == "ctime":
        return sorted(found, key=os.path.getctime)
    return sorted(found, key=lambda path: int(re.search(r"(?:model_|epoch=)(\d+)", path).group(1)))


def save(state, loss):
    diary.saving(state["step"])
    with open(os.path.join(args.folder, name_of(state["step"], loss)), "wb") as f:
        pickle.dump(state, f)
    for old in all_of_them()[: -args.keep]:
        os.remove(old)
    diary.saved(state["step"])


state = toy.fresh()
if all_of_them():
    newest = all_of_them()[-1]
    print("resuming from", os.path.basename(newest), flush=True)
    try:
        with open(newest, "rb") as f:
            state = pickle.load(f)
    except Exception as error:
        diary.torn(0, f"{newest}: {error}")
        raise
diary.began(state["step"], toy.content(state))
while state["step"] < args.steps:
    loss = toy.advance(state)
    diary.stepped(state["step"], toy.content(state))
    print(f"[{state['step']}/{args.steps}] loss={loss:.4f}", flush=True)
    if state["step"] % args.save_every == 0:
        save(state, loss)
diary.done(state["step"], toy.content(state))
