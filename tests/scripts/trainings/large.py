"""A large save, written in pieces with pauses, over the one before: most of the time a save is under way."""

import argparse
import hashlib
import os
import pickle
import struct
import time

import diary
import toy

PIECE = 4 << 20
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--megabytes", type=int, default=48)
parser.add_argument("--pause", type=float, default=0.02)
parser.add_argument("--path", default=os.path.join(os.environ.get("HEADWAY_CHECKPOINT_DIR", "."), "model.bin"))
args = parser.parse_args()


def save(state):
    """The state, ballast that goes with this step, and a hash of all of it at the end."""
    diary.saving(state["step"])
    raw, whole = pickle.dumps(state), hashlib.sha256()
    with open(args.path, "wb") as f:
        head = struct.pack("<QQ", len(raw), args.megabytes << 20) + raw
        f.write(head)
        whole.update(head)
        for number in range((args.megabytes << 20) // PIECE):
            piece = (struct.pack("<QQ", state["step"], number) * (PIECE // 16))[:PIECE]
            f.write(piece)
            whole.update(piece)
            time.sleep(args.pause if diary.CEILING else 0)
        f.write(whole.digest())
    diary.saved(state["step"])


def load():
    with open(args.path, "rb") as f:
        content = f.read()
    size, ballast = struct.unpack_from("<QQ", content)
    if len(content) != 16 + size + ballast + 32 or hashlib.sha256(content[:-32]).digest() != content[-32:]:
        raise ValueError(f"{len(content)} bytes, and not whole")
    return pickle.loads(content[16 : 16 + size])


state = toy.fresh()
if os.path.exists(args.path):
    try:
        state = load()
    except Exception as error:
        diary.torn(0, error)
        raise
diary.began(state["step"], toy.content(state))
while state["step"] < args.steps:
    loss = toy.advance(state)
    diary.stepped(state["step"], toy.content(state))
    print(f"step={state['step']} loss={loss:.4f}", flush=True)
    if state["step"] % args.save_every == 0:
        save(state)
diary.done(state["step"], toy.content(state))
