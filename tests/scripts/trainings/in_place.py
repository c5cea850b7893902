"""The commonest habit there is: one snapshot, written over itself every so often."""

import argparse
import os
import pickle
import signal
import sys

import diary
import toy

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument(
    "--snapshot-path", default=os.path.join(os.environ.get("HEADWAY_CHECKPOINT_DIR", "."), "snapshot.pkl")
)
parser.add_argument("--rename", action="store_true", help="write beside it and rename")
parser.add_argument("--heed", action="store_true", help="save when told to end")
args = parser.parse_args()
if args.heed:
    signal.signal(signal.SIGTERM, lambda *_: diary.told.append(1))


def save(state):
    diary.saving(state["step"])
    path = args.snapshot_path + ".tmp" if args.rename else args.snapshot_path
    with open(path, "wb") as f:
        pickle.dump({"step": state["step"], "weights": state["weights"], "momentum": state["momentum"]}, f)
    if args.rename:
        os.replace(path, args.snapshot_path)
    diary.saved(state["step"])


state = toy.fresh()
if os.path.exists(args.snapshot_path):
    print("Loading snapshot", flush=True)
    try:
        with open(args.snapshot_path, "rb") as f:
            state = pickle.load(f)
    except Exception as error:
        diary.torn(0, error)
        raise
diary.began(state["step"], toy.content(state))
while state["step"] < args.steps:
    loss = toy.advance(state)
    diary.stepped(state["step"], toy.content(state))
    print(f"step {state['step']}/{args.steps} loss {loss:.4f}", flush=True)
    if state["step"] % args.save_every == 0 or diary.told:
        save(state)
    if diary.told:
        sys.exit(0)
diary.done(state["step"], toy.content(state))
