"""A linear classifier on scikit-learn's digits, trained in small steps, that never loses one it could have kept.

    headway run --outputs output examples/digits/train.py

It saves every 200 steps, and at once when it is told that its end is near; the next attempt goes on from there. The
final model is the same, bit for bit, however often it was preempted: all chance comes from the seed and the step.
"""

import argparse
import json
import os
import pickle
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import headway


def save(model: SGDClassifier, done: int, accuracy: float) -> None:
    """Write the checkpoint under another name, then rename it: it is there whole or not at all."""
    folder = Path(os.environ.get("HEADWAY_CHECKPOINT_DIR", "checkpoints"))
    folder.mkdir(exist_ok=True)
    fresh = folder / ".state.tmp"
    fresh.write_bytes(pickle.dumps({"model": model, "done": done}))
    fresh.replace(folder / "state.pkl")
    headway.checkpoint(done, "state.pkl", metrics={"accuracy": accuracy})


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--steps", type=int, default=2000)
    given.add_argument("--lr", type=float, default=0.01)
    given.add_argument("--pause", type=float, default=0.0, help="seconds per step, to have something to watch")
    args = given.parse_args()
    seed = int(os.environ.get("HEADWAY_SEED", "0"))

    images, labels = load_digits(return_X_y=True)
    images = images / 16.0
    train, test = slice(0, 1500), slice(1500, None)

    resumed = headway.resume()
    if resumed:
        state = pickle.loads(Path(resumed.path("state.pkl")).read_bytes())
        model, done = state["model"], state["done"]
        print(f"resumed at step {done}", flush=True)
    else:
        model, done = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=args.lr, random_state=seed), 0

    accuracy = 0.0
    while done < args.steps:
        batch = np.random.default_rng([seed, done]).integers(0, 1500, size=64)
        model.partial_fit(images[train][batch], labels[train][batch], classes=np.arange(10))
        done += 1
        time.sleep(args.pause)
        if done % 50 == 0:
            accuracy = float(model.score(images[test], labels[test]))
            headway.log({"accuracy": accuracy}, step=done)
        notice = headway.stop_requested()
        if notice:
            save(model, done, accuracy)
            print(f"saved at step {done}: {notice.cause}", flush=True)
            sys.exit(1)
        if done % 200 == 0:
            save(model, done, accuracy)

    output = Path("output")
    output.mkdir(exist_ok=True)
    np.save(output / "weights.npy", np.vstack([model.coef_.T, model.intercept_]))
    (output / "result.json").write_text(json.dumps({"accuracy": accuracy, "steps": done}))
    print(f"accuracy {accuracy:.3f} after {done} steps", flush=True)


if __name__ == "__main__":
    main()
