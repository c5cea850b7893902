"""Hugging Face Trainer: a callback that saves on a notice and tells of every checkpoint, and the path to resume from.

args = TrainingArguments(output_dir=directory(), save_steps=500)
Trainer(..., args=args, callbacks=[HeadwayCallback()]).train(resume_from_checkpoint=resume_path())
"""

from __future__ import annotations

import importlib
import os
import re

from headway.training import progress, ranks
from headway.training.files import directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["HeadwayCallback", "directory", "resume_path"]
_Callback: Any = importlib.import_module("transformers").TrainerCallback


def resume_path(folder: str | None = None) -> str | None:
    """What to give as `resume_from_checkpoint`; None at a fresh start."""
    folder = folder or directory()
    resumed = progress.resume()
    steps = [int(match.group(1)) for match in map(re.compile(r"checkpoint-(\d+)\Z").match, os.listdir(folder)) if match]
    steps = [step for step in steps if resumed is None or step <= resumed.step]
    return os.path.join(folder, f"checkpoint-{max(steps)}") if steps else None


class HeadwayCallback(_Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        progress.stop_requested()  # Hears the signal from here on.

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        if ranks.first_of_node():
            progress.reached(state.global_step)
        # A notice reaches the ranks one by one; all must save and stop after the same step.
        if ranks.any_of(bool(progress.stop_requested())):
            control.should_save = True
            control.should_training_stop = True
            control.should_evaluate = False
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        ranks.meet()  # Each rank writes a part: it is whole when the last of them is done.
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if ranks.first_of_node() and os.path.isdir(path):
            progress.checkpoint(state.global_step, os.path.abspath(path))
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> Any:
        numbers = {name: value for name, value in (logs or {}).items() if isinstance(value, (int, float))}
        if numbers and state.is_world_process_zero:
            progress.log(numbers, step=state.global_step)
        return control
