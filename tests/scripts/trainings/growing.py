"""One file that grows by a record at each save; the last whole record counts."""

import argparse
import base64
import json
import os
import pickle
import zlib

import diary
import toy

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--held", action="store_true", help="keep the file open, and flush")
parser.add_argument("--path", default=os.path.join(os.environ.get("HEADWAY_CHECKPOINT_DIR", "."), "history.jsonl"))
args = parser.parse_args()


def records():
    with open(args.path) as f:
        for line in f:
            try:
                said = json.loads(line)
                raw = base64.b64decode(said["state"])
            except ValueError:
                continue  # A line that was cut off: the one before it counts.
            if zlib.crc32(raw) == said["crc"]:
                yield raw


state = toy.fresh()
if os.path.exists(args.path):
    for raw in records():
        state = pickle.loads(raw)
diary.began(state["step"], toy.content(state))
held = open(args.path, "a") if args.held else None  # noqa: SIM115
while state["step"] < args.steps:
    loss = toy.advance(state)
    diary.stepped(state["step"], toy.content(state))
    print("iteration", state["step"], "loss", round(loss, 4), flush=True)
    if state["step"] % args.save_every == 0:
        diary.saving(state["step"])
        raw = pickle.dumps(state)
        line = {"step": state["step"], "crc": zlib.crc32(raw), "state": base64.b64encode(raw).decode()}
        f = held or open(args.path, "a")  # noqa: SIM115
        f.write(json.dumps(line) + "\n")
        f.flush() if held else f.close()
        diary.saved(state["step"])
diary.done(state["step"], toy.content(state))
