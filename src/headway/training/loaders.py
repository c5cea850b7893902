"""What shuffles inside a data loader: samplers may lie in each other, and each may have a generator and an epoch."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


def opened(loader: Any) -> Iterator[Any]:
    """The loader's batches. Its workers are deaf to the signal of a notice, which goes to all processes of a job:
    they would end at once, and the rank with them, before it could save.
    """
    names = (
        {"SIGTERM", os.environ.get("HEADWAY_NOTICE_SIGNAL") or "SIGTERM"} if os.environ.get("HEADWAY_JOB_ID") else ()
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in names])
    try:
        following: Iterator[Any] = iter(loader)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return following


def generators(loader: Any) -> list[Any]:
    """The generators of a loader and of its samplers, each once, in an order that is always the same."""
    found: list[Any] = []
    for place in _places(loader):
        generator = getattr(place, "generator", None)
        if hasattr(generator, "get_state") and not any(generator is each for each in found):
            found.append(generator)
    return found


def set_epoch(loader: Any, epoch: int) -> None:
    """Tell all who shuffle by the number of the epoch."""
    for place in _places(loader):
        if hasattr(place, "set_epoch"):
            place.set_epoch(epoch)


def _places(loader: Any) -> list[Any]:
    places = list(getattr(loader, "flattened", [loader]))  # Lightning has several in one.
    for place in places:
        for name in ("sampler", "batch_sampler"):
            inner = getattr(place, name, None)
            if inner is not None and not any(inner is each for each in places):
                places.append(inner)
    return places
