"""Keras: a callback that saves now and then and on a notice, and the model to resume from.

model, first_epoch = resume(build)
model.fit(x, y, initial_epoch=first_epoch, epochs=20, callbacks=[HeadwayCallback()])
"""

from __future__ import annotations

import importlib
import json
import os

from headway.training import files
from headway.training.progress import stop_requested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

ENDING = ".headway"  # A directory: the model, and where the training stood.
_Callback: Any = importlib.import_module("keras").callbacks.Callback


def resume(build: Callable[[], Any], directory: str | None = None) -> tuple[Any, int]:
    """The model of the checkpoint with its optimizer, and the epoch to begin with; else a new one, and 0."""
    found = files.newest(directory or files.directory(), ENDING)
    if found is None:
        return build(), 0
    with open(os.path.join(found[1], "progress.json")) as file:
        stood = json.load(file)
    model = importlib.import_module("keras").models.load_model(os.path.join(found[1], "model.keras"))
    return model, int(stood["epoch"])


class HeadwayCallback(_Callback):  # type: ignore[misc]
    """Saves after every `save_every` epochs, and on a notice. An epoch that was cut short is begun anew."""

    def __init__(self, save_every: int = 1, directory: str | None = None) -> None:
        super().__init__()
        self.save_every = save_every
        self.folder = directory or files.directory()
        self._cut_short = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if stop_requested():
            # Keras leaves the epoch after this batch, and tells of its end: there it is saved.
            self.model.stop_training = True
            self._cut_short = batch + 1 != (self.params or {}).get("steps")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.model.stop_training or (epoch + 1) % max(1, self.save_every) == 0:
            self._save(epoch if self._cut_short else epoch + 1)

    def _save(self, epoch: int) -> None:
        model = self.model

        def write(path: str) -> None:
            os.makedirs(path, exist_ok=True)
            model.save(os.path.join(path, "model.keras"))
            with open(os.path.join(path, "progress.json"), "w") as file:
                json.dump({"epoch": epoch}, file)

        files.save(self.folder, int(model.optimizer.iterations), ENDING, write)
