"""Hugging Face Accelerate: a loop that keeps its progress, with all that the accelerator has prepared.

model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
progress = Progress(accelerator, save_every=500)
for epoch in progress.epochs(10):
    for batch in progress.batches(loader):
        ...
"""

from __future__ import annotations

import os

from headway.training import files, ranks
from headway.training.loops import STOPPED, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

__all__ = ["STOPPED", "Progress"]
PLACE = "progress.pt"


class Progress(Loop):
    """Saves what the accelerator has prepared, and what was registered with it for checkpointing."""

    ending = ".accelerate"

    def __init__(self, accelerator: Any, save_every: int = 0, directory: str | None = None) -> None:
        super().__init__(save_every, directory)
        if accelerator.project_configuration.automatic_checkpoint_naming:
            raise ValueError("automatic_checkpoint_naming: names of its own cannot be found again; leave it off")
        self.accelerator = accelerator

    def batches(self, loader: Any, accumulate: int = 0) -> Iterator[Any]:
        return super().batches(loader, accumulate or self.accelerator.gradient_accumulation_steps)

    def _write(self, step: int, position: dict[str, Any], everyone: list[Any]) -> None:
        import torch

        if ranks.first_of_node():
            files.clear(self.folder, step, self.ending)
        ranks.meet()
        fresh = files.draft(self.folder, step, self.ending)
        self.accelerator.save_state(fresh)
        ranks.meet()  # Each rank writes a part: it is whole when the last of them is done.
        if ranks.first_of_node():
            torch.save({"position": position, "ranks": everyone}, os.path.join(fresh, PLACE))
            files.finish(self.folder, step, self.ending, self.metrics)

    def _read(self, path: str) -> tuple[dict[str, Any], list[Any]]:
        import torch

        self.accelerator.load_state(path)
        # Written by this very class: it holds the states of Python's and NumPy's generators.
        state = torch.load(os.path.join(path, PLACE), map_location="cpu", weights_only=False)
        return state["position"], state["ranks"]
