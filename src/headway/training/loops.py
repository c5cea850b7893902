"""A training loop that keeps its place: which epoch, which batch of it, and all states of chance of every rank.

What a checkpoint consists of is for those who inherit to say: pytorch.py, accelerate.py, sharded.py.
"""

from __future__ import annotations

import sys

from headway.training import chance, files, loaders, ranks
from headway.training.progress import reached, stop_requested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

STOPPED = 143  # What a process ended by SIGTERM returns; any code will do, Headway knows why it ends.


class Loop:
    """Saves every `save_every` steps and on a notice; then the process ends, on all ranks after the same step."""

    ending = ""

    def __init__(self, save_every: int = 0, directory: str | None = None) -> None:
        self.save_every = save_every
        self.folder = files.directory(directory)
        self.metrics: dict[str, Any] = {}
        self.done = 0  # Steps, in all epochs.
        self.epoch = 0
        self.batch = 0  # Of this epoch's batches, those that are done.
        self._saved = -1
        self._looked = False
        self._loader: Any = None
        self._begin: Any = None  # The states of chance with which this epoch's batches began,
        self._before: Any = None  # and with which the newest batch was asked for.
        self._restored: Any = None  # What this rank had by then, until the next epoch.

    # --- what the subclasses know ---

    def _write(self, step: int, position: dict[str, Any], everyone: list[Any]) -> None:
        """Keep the training's state, where it stands, and what each rank has of its own. Called on every rank."""
        raise NotImplementedError

    def _read(self, path: str) -> tuple[dict[str, Any], list[Any]]:
        """Put the training's state back, and return the position and what each rank had."""
        raise NotImplementedError

    def _own(self) -> dict[str, Any]:
        """What this rank has that others do not have."""
        return {"chance": chance.take(self._loader), "begin": self._begin, "before": self._before}

    def _take_back(self, own: dict[str, Any]) -> None:
        chance.put(own["chance"])
        self._restored = own

    # --- saving and restoring ---

    def restore(self) -> int:
        """Load the checkpoint to go on from, and return the number of steps that are done; 0 at a fresh start."""
        self._looked = True
        found = files.newest(self.folder, self.ending)
        steps = ranks.gathered(found[0] if found else 0)
        if len(set(steps)) > 1:
            raise RuntimeError(f"the ranks begin from different steps: {steps}")
        if found is None:
            return 0
        position, everyone = self._read(found[1])
        self.done, self.epoch, self.batch = (int(position[name]) for name in ("done", "epoch", "batch"))
        if ranks.count() == len(everyone):
            self._take_back(everyone[ranks.rank()])
        else:
            sys.stderr.write(
                f"headway: the checkpoint is of {len(everyone)} ranks, and there are {ranks.count()}: "
                "random numbers, and the order of this epoch's batches, begin anew\n"
            )
        self._saved = self.done
        return self.done

    def _restore_once(self) -> None:
        if not self._looked:
            self.restore()

    def save(self, done: int | None = None) -> None:
        """Keep the state after so many steps. All ranks call it after the same step."""
        self.done = self.done if done is None else done
        if self.done == self._saved:
            return
        self._saved = self.done
        position = {"done": self.done, "epoch": self.epoch, "batch": self.batch}
        self._write(self.done, position, ranks.gathered(self._own()))

    # --- the loops ---

    def steps(self, total: int) -> Iterator[int]:
        """The steps that are left, from 0 to total - 1. After a notice: saves, and ends the process."""
        self._restore_once()
        while self.done < total:
            yield self.done
            self.done += 1
            self._tell()
            self._after_step()
        self.save()

    def epochs(self, total: int) -> Iterator[int]:
        """The epochs that are left, from 0 to total - 1; of the first of them, `batches` gives those that are left."""
        self._restore_once()
        while self.epoch < total:
            yield self.epoch
            self.epoch, self.batch, self._begin, self._before, self._restored = self.epoch + 1, 0, None, None, None
        self.save()

    def batches(self, loader: Any, accumulate: int = 1) -> Iterator[Any]:
        """This epoch's batches, without those that are done: they are read once more, in the same order, and skipped.

        Saves, and ends after a notice, only when gradients of `accumulate` batches have been used up.
        """
        self._restore_once()
        loaders.set_epoch(loader, self.epoch)
        self._loader = loader
        following = self._skipped(loader) if self.batch else self._begun(loader)
        while True:
            self._before = chance.take(loader)
            try:
                batch = next(following)
            except StopIteration:
                break
            yield batch
            self.batch, self.done = self.batch + 1, self.done + 1
            self._tell()
            if self.batch % accumulate == 0:
                self._after_step()
        if self.batch % accumulate:
            self._after_step()

    def _begun(self, loader: Any) -> Iterator[Any]:
        self._begin = chance.take(loader)
        return loaders.opened(loader)

    def _skipped(self, loader: Any) -> Iterator[Any]:
        """The epoch's batches after those that are done, with every generator as it was then."""
        if self._restored is None:  # Of another number of ranks: nothing of it holds.
            following = self._begun(loader)
            for _ in range(self.batch):
                next(following, None)
            return following
        self._begin = self._restored["begin"]
        chance.put(self._begin, loader)
        following = loaders.opened(loader)
        for _ in range(self.batch - 1):
            next(following, None)
        # Some loaders read one batch ahead, and with it may draw what belongs to it.
        chance.put(self._restored["before"], loader)
        next(following, None)
        chance.put(self._restored["chance"], loader)
        return following

    def _tell(self) -> None:
        if ranks.first_of_node():
            reached(self.done)

    def _after_step(self) -> None:
        if ranks.any_of(bool(stop_requested())):
            self.save()
            ranks.meet()
            sys.exit(STOPPED)
        if self.save_every and self.done % self.save_every == 0:
            self.save()
