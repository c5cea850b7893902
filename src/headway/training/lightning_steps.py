"""Lightning asks installed packages for callbacks; in a job it gets one from here that notes each step.

Its own bar says nothing where no terminal is, and its scripts need not be changed for this. The entry points that lead
here stand beside the copy of the SDK that every job finds, and name this file as a module of its own there
(engines/agent_zip.py): one that is not found would end the training.
"""

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def for_lightning() -> list[Any]:
    return _callbacks("lightning.pytorch")


def for_pytorch_lightning() -> list[Any]:
    """The same library has two names, and the callbacks of one are none for the other."""
    return _callbacks("pytorch_lightning")


def _callbacks(library: str) -> list[Any]:
    if not os.environ.get("HEADWAY_SDK_DIR"):
        return []
    try:
        from headway.training.progress import reached
        from headway.training.ranks import first_of_node
    except ImportError:
        return []  # What a job brings under our name goes first, and may be older, or something else.
    base: Any = importlib.import_module(library).Callback

    class HeadwaySteps(base):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:
            if first_of_node():
                reached(int(trainer.global_step))

    return [HeadwaySteps()]
