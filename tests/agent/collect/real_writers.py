"""Writes event files with the real libraries, and what they must say, into the directory that is named to it."""

from __future__ import annotations

import json
import math
import sys


def main(place: str) -> None:
    import torch
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(f"{place}/run")
    for step in range(300):
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_scalar("new", step / 7, step, new_style=True)
        writer.add_scalar("double", step / 7, step, new_style=True, double_precision=True)
    writer.add_scalar("loss", math.nan, 1 << 40)
    writer.add_scalar("loss", math.inf, 300)
    writer.add_histogram("weights", torch.rand(1000), 3)
    writer.add_image("picture", torch.rand(3, 64, 64), 3)
    writer.add_text("words", "hello", 1)
    writer.close()
    with SummaryWriter(f"{place}/tuned") as writer:
        writer.add_hparams({"lr": 0.1, "optimizer": "adam", "amp": True}, {"hparam/acc": 0.75}, run_name="session")
    accumulator = EventAccumulator(f"{place}/run", size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    said = {tag: [[e.step, e.value] for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    with open(f"{place}/said.json", "w") as file:
        json.dump(said, file)


if __name__ == "__main__":
    main(sys.argv[1])
