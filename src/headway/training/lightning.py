"""Lightning: a callback that saves now and then and on a notice, and the path to resume from.

trainer = Trainer(callbacks=[HeadwayCallback(save_every=500)])
trainer.fit(model, data, ckpt_path=resume_path())
"""

from __future__ import annotations

import importlib
import sys

from headway.training import files
from headway.training.progress import stop_requested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENDING = ".ckpt"
# The same library has two names; the one that the script uses is loaded already.
_NAME = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
_Callback: Any = importlib.import_module(_NAME).Callback


def resume_path(directory: str | None = None) -> str | None:
    """What to give as `ckpt_path`; None at a fresh start."""
    found = files.newest(directory or files.directory(), ENDING)
    return found[1] if found else None


class HeadwayCallback(_Callback):  # type: ignore[misc]
    def __init__(self, save_every: int = 0, directory: str | None = None) -> None:
        self.save_every = save_every
        self.folder = directory or files.directory()
        self._saved = -1

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        step = int(trainer.global_step)
        # A notice reaches the ranks one by one; all must save and stop at the same step.
        if trainer.strategy.reduce_boolean_decision(bool(stop_requested()), all=False):
            self._save(trainer, step)
            trainer.should_stop = True
            trainer.limit_val_batches = 0  # The grace is for saving.
        elif self.save_every and step % self.save_every == 0:
            self._save(trainer, step)

    def on_train_end(self, trainer: Any, *args: Any) -> None:
        self._save(trainer, int(trainer.global_step))

    def _save(self, trainer: Any, step: int) -> None:
        if step == self._saved:
            return
        self._saved = step
        if trainer.world_size == 1:
            files.save(self.folder, step, ENDING, trainer.save_checkpoint)
            return
        # Every rank takes part, the first writes; each of the others has its own node's directory, or none.
        path = f"{self.folder}/step-{step:09d}{ENDING}"
        trainer.save_checkpoint(path)
        if trainer.local_rank == 0:
            from headway.training.progress import checkpoint

            checkpoint(step)
