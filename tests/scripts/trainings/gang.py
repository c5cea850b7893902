"""Several ranks, step by step together: the first saves for all, or each its part, under names of their own or one."""

import argparse
import os
import pickle

import diary
import toy

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=15)
parser.add_argument("--saves", choices=["first", "each", "own"], default="first")
parser.add_argument("--folder", default=os.environ.get("HEADWAY_CHECKPOINT_DIR", "checkpoints"))
args = parser.parse_args()
os.makedirs(args.folder, exist_ok=True)
rank = int(os.environ.get("RANK") or 0)
path = os.path.join(args.folder, f"snapshot_rank{rank}.pkl" if args.saves == "each" else "snapshot.pkl")

# Where the first saves for all, all have the same weights; else each has its own.
state = toy.fresh(0 if args.saves == "first" else rank)
if os.path.exists(path):
    try:
        with open(path, "rb") as f:
            state = pickle.load(f)
    except Exception as error:
        diary.torn(0, error)
        raise
ranks = toy.Gang()
# One that begins elsewhere than the others would wait for them for ever, or give another result.
if ranks.mean(float(state["step"])) != state["step"]:
    diary.torn(state["step"], "the ranks begin from different steps")
    raise SystemExit("the ranks begin from different steps")
diary.began(state["step"], toy.content(state))
while state["step"] < args.steps:
    pull = ranks.mean((state["step"] % 7 + rank) * 1e-4)
    loss = toy.advance(state, pull)
    diary.stepped(state["step"], toy.content(state))
    if rank == 0:
        print(f"step {state['step']} | loss {loss:.4f}", flush=True)
    if state["step"] % args.save_every == 0 and (rank == 0 or args.saves != "first"):
        diary.saving(state["step"])
        with open(path, "wb") as f:
            pickle.dump(state, f)
        diary.saved(state["step"])
diary.done(state["step"], toy.content(state))
