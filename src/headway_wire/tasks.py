"""How a task is named on the wire: its job, attempt and index, with slashes between them.

The attempt in it is the fence: what is told of an older one changes nothing.
"""

from __future__ import annotations

PATTERN = r"([!-.0-~]{1,100})/(0|[1-9][0-9]{0,8})/(0|[1-9][0-9]{0,5})"


def task_key(job: str, attempt: int, index: int) -> str:
    return f"{job}/{attempt}/{index}"


def split_key(key: str) -> tuple[str, int, int]:
    """The job, the attempt and the index that a key names. Raises ValueError for anything else."""
    job, attempt, index = key.split("/")
    return job, int(attempt), int(index)
