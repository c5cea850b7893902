"""What steps count and how people read them. It imports nothing: every list of jobs on the command line needs it.

Which steps are kept, and which one is resumed from, is in files/checkpoints.py.
"""

from __future__ import annotations

STEP = "step"
UNITS = (STEP, "epoch", "save")  # From the finest count to that of a job which tells nothing of how far it is.


def named(step: int, unit: str = STEP) -> str:
    """A step as people read it: `step 1200`, `epoch 6`, or `save 3` where saves were only counted."""
    return f"{unit or STEP} {step}"


def explain_resume(step: int | None, unit: str = STEP) -> str:
    """From where an attempt goes on; empty for one that begins with nothing."""
    return f"goes on from {named(step, unit)}" if step is not None else ""
