"""A save that is several files: two in one folder, written over, or a folder of its own for each save."""

import argparse
import glob
import json
import os
import pickle
import shutil

import diary
import toy

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--layout", choices=["pair", "folder", "hidden"], default="pair")
parser.add_argument("--folder", default=os.environ.get("HEADWAY_CHECKPOINT_DIR", "checkpoints"))
args = parser.parse_args()
os.makedirs(args.folder, exist_ok=True)


def dump(value, *path):
    with open(os.path.join(args.folder, *path), "wb") as f:
        pickle.dump(value, f)


def read(*path):
    with open(os.path.join(args.folder, *path), "rb") as f:
        return pickle.load(f)


def save(state):
    diary.saving(state["step"])
    step = state["step"]
    if args.layout == "pair":
        dump({"epoch": step, "weights": state["weights"]}, "model.pkl")
        dump({"epoch": step, "momentum": state["momentum"]}, "optimizer.pkl")
    else:
        place = f"ckpt-{step}"
        os.makedirs(os.path.join(args.folder, place), exist_ok=True)
        for part in range(5):
            dump(state["weights"][part * 140 : part * 140 + 140], place, f"part-{part}.bin")
        dump(state["momentum"], place, "optimizer.bin")
        name = ".metadata" if args.layout == "hidden" else "config.json"
        with open(os.path.join(args.folder, place, name), "w") as f:
            json.dump({"step": step, "parts": 5}, f)
        for old in sorted(glob.glob(os.path.join(args.folder, "ckpt-*")), key=lambda p: int(p.split("-")[-1]))[:-2]:
            shutil.rmtree(old)
    diary.saved(step)


def load():
    if args.layout == "pair":
        if not os.path.exists(os.path.join(args.folder, "model.pkl")):
            return None
        model, optimizer = read("model.pkl"), read("optimizer.pkl")
        if model["epoch"] != optimizer["epoch"]:
            raise ValueError(f"model of {model['epoch']}, optimizer of {optimizer['epoch']}")
        return {"step": model["epoch"], "weights": model["weights"], "momentum": optimizer["momentum"]}
    folders = sorted(glob.glob(os.path.join(args.folder, "ckpt-*")), key=lambda p: int(p.split("-")[-1]))
    if not folders:
        return None
    name = ".metadata" if args.layout == "hidden" else "config.json"
    with open(os.path.join(folders[-1], name)) as f:
        told = json.load(f)
    weights = [
        each for part in range(told["parts"]) for each in read(os.path.basename(folders[-1]), f"part-{part}.bin")
    ]
    return {"step": told["step"], "weights": weights, "momentum": read(os.path.basename(folders[-1]), "optimizer.bin")}


try:
    state = load() or toy.fresh()
except Exception as error:
    diary.torn(0, error)
    raise
diary.began(state["step"], toy.content(state))
while state["step"] < args.steps:
    loss = toy.advance(state)
    diary.stepped(state["step"], toy.content(state))
    print(f"epoch {state['step']}: loss {loss:.4f}", flush=True)
    if state["step"] % args.save_every == 0:
        save(state)
diary.done(state["step"], toy.content(state))
