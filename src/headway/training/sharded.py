"""Training with a model spread over the ranks (FSDP, `fully_shard`): each rank saves its share, by torch's own format.

fully_shard(model)
progress = Progress(model=model, optimizer=optimizer, save_every=500)
for epoch in progress.epochs(10):
    for batch in progress.batches(loader):
        ...
"""

from __future__ import annotations

import os

from headway.training import files, ranks
from headway.training.loops import STOPPED
from headway.training.pytorch import Progress as _Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["STOPPED", "Progress"]
PLACE = "progress.pt"  # Beside the shares: the parts that every rank has alike, and where the training stood.


class Progress(_Progress):
    """Of `model` and `optimizer` each rank saves its share; other parts are the same on all ranks."""

    ending = ".sharded"

    def __init__(
        self, *, model: Any, optimizer: Any, save_every: int = 0, directory: str | None = None, **parts: Any
    ) -> None:
        super().__init__(save_every=save_every, directory=directory, **parts)
        self.model, self.optimizer = model, optimizer

    def _write(self, step: int, position: dict[str, Any], everyone: list[Any]) -> None:
        import torch
        import torch.distributed.checkpoint as shares

        if ranks.first_of_node():
            files.clear(self.folder, step, self.ending)
        ranks.meet()
        fresh = files.draft(self.folder, step, self.ending)
        shares.save(self._shares(), checkpoint_id=fresh)  # Returns when every rank has written its own.
        if ranks.first_of_node():
            parts = {name: part.state_dict() for name, part in self.parts.items()}
            torch.save({"parts": parts, "position": position, "ranks": everyone}, os.path.join(fresh, PLACE))
            files.finish(self.folder, step, self.ending, self.metrics)

    def _read(self, path: str) -> tuple[dict[str, Any], list[Any]]:
        import torch.distributed.checkpoint as shares
        from torch.distributed.checkpoint.state_dict import set_state_dict

        loaded = self._shares()
        shares.load(loaded, checkpoint_id=path)
        set_state_dict(
            self.model, self.optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"]
        )
        return super()._read(os.path.join(path, PLACE))

    def _shares(self) -> dict[str, Any]:
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}
