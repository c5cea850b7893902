"""A plain PyTorch loop that keeps its progress: restores, saves now and then and on a notice, and ends in time.

progress = Progress(model=model, optimizer=optimizer, save_every=500)
for step in progress.steps(10_000):
    ...
"""

from __future__ import annotations

import os
import random
import sys

from headway.training import files
from headway.training.progress import stop_requested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

ENDING = ".pt"
STOPPED = 143  # What a process ended by SIGTERM returns; any code will do, Headway knows why it ends.


class Progress:
    """Saves and restores everything that has a state_dict, and the states of all sources of chance."""

    def __init__(self, *, save_every: int = 0, directory: str | None = None, **parts: Any) -> None:
        for name, part in parts.items():
            if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
                raise TypeError(f"{name}: has no state_dict and load_state_dict")
        self.parts = parts
        self.save_every = save_every
        self.folder = directory or files.directory()
        self.metrics: dict[str, Any] = {}
        self._saved = -1

    def restore(self) -> int:
        """Load the checkpoint to go on from, and return the number of steps that are done; 0 at a fresh start."""
        import torch

        found = files.newest(self.folder, ENDING)
        if found is None:
            return 0
        step, path = found
        # Written by this very class: beside tensors it holds the states of Python's and NumPy's generators.
        state = torch.load(path, map_location="cpu", weights_only=False)
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        _set_chance(state["chance"])
        self._saved = step
        return step

    def save(self, done: int) -> None:
        """Keep the state after so many steps. On each node the first rank does it for all."""
        if done == self._saved:
            return
        self._saved = done
        if int(os.environ.get("LOCAL_RANK") or 0) != 0:
            return
        import torch

        state = {"parts": {name: part.state_dict() for name, part in self.parts.items()}, "chance": _chance()}
        files.save(self.folder, done, ENDING, lambda path: torch.save(state, path), self.metrics)

    def steps(self, total: int) -> Iterator[int]:
        """The steps that are left, from 0 to total - 1. After a notice: saves, and ends the process."""
        done = self.restore()
        while done < total:
            yield done
            done += 1
            if _any_rank(bool(stop_requested())):
                self.save(done)
                _leave_together()
                sys.exit(STOPPED)
            if self.save_every and done % self.save_every == 0:
                self.save(done)
        self.save(done)


def _any_rank(stop: bool) -> bool:
    """Whether any rank has heard it: all must leave the loop after the same step, or the others wait for ever."""
    import torch

    dist = torch.distributed
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return stop
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    heard = torch.tensor([int(stop)], device=device)
    dist.all_reduce(heard, op=dist.ReduceOp.MAX)
    return bool(heard.item())


def _leave_together() -> None:
    """Nobody ends before all have saved: the end of one rank may be taken for a failure."""
    import torch

    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def _chance() -> dict[str, Any]:
    import torch

    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _set_chance(state: dict[str, Any]) -> None:
    import torch

    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
