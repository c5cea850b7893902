"""Keras: a callback that saves now and then and on a notice, and the model to resume from.

model, first_epoch = resume(build)
model.fit(x, y, initial_epoch=first_epoch, epochs=20, callbacks=[..., HeadwayCallback()])
"""

from __future__ import annotations

import importlib
import os
import pickle

from headway.training import chance, files
from headway.training.progress import reached, stop_requested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

ENDING = ".headway"  # A directory: the model, and where the training stood.
MODEL, PLACE = "model.keras", "place.pkl"
_keras: Any = importlib.import_module("keras")
_Callback: Any = _keras.callbacks.Callback


def resume(build: Callable[[], Any], directory: str | None = None) -> tuple[Any, int]:
    """The model of the checkpoint with its optimizer, and the epoch to begin with; else a new one, and 0."""
    model, found = build(), files.newest(files.directory(directory), ENDING)
    if found is None:
        return model, 0
    path = os.path.join(found[1], MODEL)
    if model.built:
        if model.optimizer is not None and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(path)
    else:  # It would be built by its first batch: too late to be given weights.
        model = _keras.models.load_model(path)
    return model, int(_place(found[1])["epoch"])


class HeadwayCallback(_Callback):  # type: ignore[misc]
    """Saves after every `save_every` epochs or `save_every_steps` steps, and on a notice. Give it last.

    An epoch that was cut short goes on after the batch that was its last: those before are read again, in the same
    order, and skipped. Where Keras runs on another backend than torch, that epoch is begun anew instead.
    """

    def __init__(self, save_every: int = 1, directory: str | None = None, save_every_steps: int = 0) -> None:
        super().__init__()
        self.save_every = save_every
        self.save_every_steps = save_every_steps
        self.folder = files.directory(directory)
        self._within = True  # Whether it can go on within an epoch.
        self._done = 0  # Batches, in all epochs.
        self._saved = -1
        self._epoch = 0
        self._begin: Any = None  # The states of chance with which this epoch began.
        self._restored: dict[str, Any] | None = None
        self._skip = 0  # So many batches of this epoch are done already.
        self._train: Any = None

    # --- what Keras calls ---

    def on_train_begin(self, logs: Any = None) -> None:
        self._within = _keras.backend.backend() == "torch"
        found = files.newest(self.folder, ENDING)
        place = _place(found[1]) if found else None
        if place is not None and place["iterations"] == int(self.model.optimizer.iterations):
            self._restored, self._done, self._saved = place, place["done"], place["done"]
            _assign(_seeds(self.model), place["seeds"])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        place, self._skip = self._restored, 0
        if place is not None and place["epoch"] == epoch:
            self._skip = place["batch"]
            chance.put(place["begin"] if self._skip else place["chance"])
        self._begin = chance.take()
        if place is not None and self._skip:
            _assign(_metrics(self.model), place["metrics"])
            self._train, self.model.train_function = self.model.train_function, self._not_again
        else:
            self._restored = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._skip:
            if batch + 1 == self._skip:
                self._go_on()
            return
        self._done += 1
        reached(self._done)
        stop = bool(stop_requested())
        if self._within and (stop or (self.save_every_steps and self._done % self.save_every_steps == 0)):
            self._save(self._epoch, batch + 1)
        if stop:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        whole = not self.model.stop_training or (self.params or {}).get("epochs") == epoch + 1
        if whole and (epoch + 1) % max(1, self.save_every) == 0:
            self._save(epoch + 1, 0)

    # --- saving and going on ---

    def _not_again(self, *data: Any) -> Any:
        """Instead of a step that was done before: what the metrics were when the epoch was cut short."""
        return self.model.get_metrics_result()

    def _go_on(self) -> None:
        """The last of the batches that were done is skipped: from here on everything is as it was then."""
        place, self._restored, self._skip = self._restored, None, 0
        self.model.train_function = self._train
        if place is not None:
            chance.put(place["chance"])

    def _save(self, epoch: int, batch: int) -> None:
        if self._done == self._saved:
            return
        self._saved, model = self._done, self.model
        place: dict[str, Any] = {"epoch": epoch, "batch": batch, "done": self._done}
        place["iterations"] = int(model.optimizer.iterations)
        place.update(begin=self._begin, chance=chance.take(), seeds=_values(_seeds(model)))
        place["metrics"] = _values(_metrics(model))

        def write(path: str) -> None:
            os.makedirs(path, exist_ok=True)
            model.save(os.path.join(path, MODEL))
            with open(os.path.join(path, PLACE), "wb") as file:
                pickle.dump(place, file)

        files.save(self.folder, self._done, ENDING, write)


def _place(path: str) -> dict[str, Any]:
    # Written by this very module.
    with open(os.path.join(path, PLACE), "rb") as file:
        place: dict[str, Any] = pickle.load(file)
    return place


def _seeds(model: Any) -> list[Any]:
    """The states of the layers' own generators: Keras does not save them with the weights."""
    weights = {id(each) for each in model.weights}
    return [each for each in model.variables if id(each) not in weights]


def _metrics(model: Any) -> list[Any]:
    return list(model.metrics_variables)


def _values(variables: list[Any]) -> list[Any]:
    return [_keras.ops.convert_to_numpy(each) for each in variables]


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values):
        variable.assign(value)
