"""A small training job that needs only a Python (3.8 or newer): logistic regression by gradient descent.

It prints the loss of every step and keeps its weights in $HEADWAY_CHECKPOINT_DIR. Run it by itself, or let Headway
run it: `headway run examples/train.py --steps 30`.
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import os
import random
import time
from pathlib import Path

POINTS = 400
FEATURES = 8


def make_points(chance: random.Random) -> list[tuple[list[float], int]]:
    """Points on two sides of a hidden plane, a tenth of them on the wrong one."""
    plane = [chance.gauss(0, 1) for _ in range(FEATURES)]
    points = []
    for _ in range(POINTS):
        point = [chance.gauss(0, 1) for _ in range(FEATURES)]
        above = sum(map(operator.mul, point, plane)) > 0
        points.append((point, int(above != (chance.random() < 0.1))))
    return points


def descend(weights: list[float], points: list[tuple[list[float], int]], rate: float) -> tuple[list[float], float]:
    """One step of gradient descent over all points; returns the new weights and the loss before the step."""
    gradient = [0.0] * FEATURES
    loss = 0.0
    for point, label in points:
        guess = 1 / (1 + math.exp(-sum(map(operator.mul, weights, point))))
        loss -= math.log(guess if label else 1 - guess)
        for index, x in enumerate(point):
            gradient[index] += (guess - label) * x
    return [weights[i] - rate * gradient[i] / len(points) for i in range(FEATURES)], loss / len(points)


def save(folder: Path, step: int, weights: list[float]) -> None:
    """Write the checkpoint beside the old one and rename it: a reader never sees half of it."""
    draft = folder / "checkpoint.json.new"
    draft.write_text(json.dumps({"step": step, "weights": weights}))
    draft.replace(folder / "checkpoint.json")


def load(folder: Path) -> tuple[int, list[float]]:
    try:
        kept = json.loads((folder / "checkpoint.json").read_text())
    except FileNotFoundError:
        return 0, [0.0] * FEATURES
    return kept["step"], kept["weights"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--step-s", type=float, default=0.5, help="the least time a step takes, in seconds")
    parser.add_argument("--rate", type=float, default=0.5)
    asked = parser.parse_args()

    folder = Path(os.environ.get("HEADWAY_CHECKPOINT_DIR", "."))
    points = make_points(random.Random(7))
    first, weights = load(folder)
    print(f"pid {os.getpid()}, attempt {os.environ.get('HEADWAY_ATTEMPT', '-')}, from step {first + 1}", flush=True)
    for step in range(first + 1, asked.steps + 1):
        begin = time.monotonic()
        weights, loss = descend(weights, points, asked.rate)
        print(f"step {step:3d}  loss {loss:.4f}", flush=True)
        save(folder, step, weights)
        time.sleep(max(0.0, asked.step_s - (time.monotonic() - begin)))
    print("done", flush=True)


if __name__ == "__main__":
    main()
