"""A plain PyTorch loop that keeps its progress: restores, saves now and then and on a notice, and ends in time.

progress = Progress(model=model, optimizer=optimizer, save_every=500)
for epoch in progress.epochs(10):
    for batch in progress.batches(loader):
        ...
"""

from __future__ import annotations

from headway.training import chance, files, ranks
from headway.training.loops import STOPPED, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["STOPPED", "Progress"]


class Progress(Loop):
    """Saves and restores everything that has a state_dict, and the states of all sources of chance on every rank.

    What has a state_dict is the same on all ranks, as with DistributedDataParallel. A generator of random numbers is
    each rank's own.
    """

    ending = ".pt"

    def __init__(self, *, save_every: int = 0, directory: str | None = None, **parts: Any) -> None:
        super().__init__(save_every, directory)
        self.parts = {name: part for name, part in parts.items() if hasattr(part, "load_state_dict")}
        self.generators = {name: part for name, part in parts.items() if name not in self.parts}
        for name, part in self.generators.items():
            if not chance.is_generator(part):
                raise TypeError(f"{name}: has no state_dict and load_state_dict")

    def _own(self) -> dict[str, Any]:
        return {**super()._own(), "generators": {name: chance.state_of(each) for name, each in self.generators.items()}}

    def _take_back(self, own: dict[str, Any]) -> None:
        super()._take_back(own)
        for name, state in own["generators"].items():
            chance.set_state_of(self.generators[name], state)

    def _write(self, step: int, position: dict[str, Any], everyone: list[Any]) -> None:
        import torch

        # On every rank, though one alone writes them: of some parts all must bring their share.
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        for name, state in parts.items():
            _refuse_shares(name, state)
        if ranks.first_of_node() and ranks.rank() == 0:
            state = {"parts": parts, "position": position, "ranks": everyone}
            files.save(self.folder, step, self.ending, lambda path: torch.save(state, path), self.metrics)
        elif ranks.first_of_node():
            files.finish(self.folder, step, self.ending, self.metrics)

    def _read(self, path: str) -> tuple[dict[str, Any], list[Any]]:
        import torch

        # Written by this very class: beside tensors it holds the states of Python's and NumPy's generators.
        state = torch.load(path, map_location="cpu", weights_only=False)
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        return state["position"], state["ranks"]


def _refuse_shares(name: str, state: Any) -> None:
    """Of a model that is spread over the ranks, one rank has a part only."""
    for each in state.values() if isinstance(state, dict) else ():
        if hasattr(each, "full_tensor"):
            raise TypeError(f"{name}: is spread over the ranks; use Progress from headway.training.sharded")
