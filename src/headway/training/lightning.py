"""Lightning: a callback that saves now and then and on a notice, and the path to resume from.

trainer = Trainer(callbacks=[HeadwayCallback(save_every=500)])
trainer.fit(model, data, ckpt_path=resume_path())
"""

from __future__ import annotations

import importlib
import sys

from headway.training import chance, files, loaders, ranks
from headway.training.progress import listen_alone, reached, stop_requested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

ENDING = ".ckpt"
# The same library has two names; the one that the script uses is loaded already.
_NAME = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
_Callback: Any = importlib.import_module(_NAME).Callback


def resume_path(directory: str | None = None) -> str | None:
    """What to give as `ckpt_path`; None at a fresh start."""
    found = files.newest(files.directory(directory), ENDING)
    return found[1] if found else None


class HeadwayCallback(_Callback):  # type: ignore[misc]
    """Saves after every `save_every` steps and on a notice, with each rank's states of chance and place in its data."""

    def __init__(self, save_every: int = 0, directory: str | None = None) -> None:
        self.save_every = save_every
        self.folder = files.directory(directory)
        self._saved = -1
        self._due = False  # The epoch's last batch was the one to save after.
        self._batches: _Batches | None = None
        self._restored: list[dict[str, Any]] = []
        stop_requested()  # Hears the signal from here on.

    # --- what Lightning calls ---

    def state_dict(self) -> dict[str, Any]:
        """Called on all ranks, whoever saves a checkpoint; the first rank's is the one that is kept."""
        return {"ranks": ranks.gathered(self._batches.place() if self._batches is not None else None)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._restored = state_dict["ranks"]

    def on_sanity_check_start(self, trainer: Any, module: Any) -> None:
        listen_alone()

    def on_train_start(self, trainer: Any, module: Any) -> None:
        # Lightning would wait for all ranks in its handler, wherever each of them is, and then end without a save.
        listen_alone()
        mine = self._restored[ranks.rank()] if len(self._restored) == ranks.count() else None
        self._batches, self._restored = _Batches(trainer, mine), []
        self._watch(trainer)
        iter(trainer.fit_loop._data_fetcher)  # The first epoch's was made before anybody could note how it began.

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self._watch(trainer)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert self._batches is not None
        last = bool(trainer.is_last_batch)
        self._batches.done = 0 if last else batch_idx + 1
        self._batches.resumed = None
        step = int(trainer.global_step)
        if ranks.first_of_node():
            reached(step)
        stop = ranks.any_of(bool(stop_requested()))
        if (batch_idx + 1) % trainer.accumulate_grad_batches and not last:
            return  # Gradients that were gathered so far are in no checkpoint.
        due = stop or (self.save_every and step % self.save_every == 0)
        # Of an epoch that is whole validation is still to come, which may draw random numbers: it is saved after that.
        self._due = bool(due and last)
        if stop or (due and not last):
            self._save(trainer, step, again=self._due)
        if stop and not last:
            trainer.should_stop = True
            trainer.limit_val_batches = 0  # The grace is for saving.

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        if self._due:
            self._due = False
            self._save(trainer, int(trainer.global_step))
            trainer.should_stop = trainer.should_stop or ranks.any_of(bool(stop_requested()))

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self._save(trainer, int(trainer.global_step))

    # --- saving ---

    def _watch(self, trainer: Any) -> None:
        """Lightning may make its loaders anew in any epoch."""
        fetcher = trainer.fit_loop._data_fetcher
        if self._batches is not None and fetcher.combined_loader is not self._batches:
            self._batches.loader = fetcher.combined_loader
            fetcher.setup(self._batches)

    def _save(self, trainer: Any, step: int, again: bool = False) -> None:
        if step == self._saved:
            return
        self._saved = -1 if again else step
        if ranks.first_of_node():
            files.clear(self.folder, step, ENDING)
        ranks.meet()
        # Every rank takes part; mostly the first alone writes.
        trainer.save_checkpoint(files.draft(self.folder, step, ENDING))
        ranks.meet()
        if ranks.first_of_node():
            files.finish(self.folder, step, ENDING)


class _Batches:
    """Stands before Lightning's loader: notes how each epoch begins, and skips what was done of it."""

    def __init__(self, trainer: Any, resumed: dict[str, Any] | None) -> None:
        self.trainer = trainer
        self.loader: Any = None
        self.resumed = resumed  # Where this rank stood, until it has gone on from there.
        self.done = resumed["done"] if resumed else 0  # Batches of this epoch.
        self.begin: Any = None

    def place(self) -> dict[str, Any]:
        return {"done": self.done, "begin": self.begin, "chance": chance.take(self.loader)}

    def __iter__(self) -> Iterator[Any]:
        inner, was = self.loader, self.resumed
        loaders.set_epoch(inner, self.trainer.current_epoch)
        if was is not None:
            chance.put(was["begin"] if was["done"] else was["chance"], inner)
        self.begin = chance.take(inner)
        following = loaders.opened(inner)
        if was is not None and was["done"]:
            for _ in range(was["done"]):
                next(following)
            chance.put(was["chance"], inner)
        return following

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)
