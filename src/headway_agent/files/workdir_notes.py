"""What is noted of a task's working directory: where it is, since when files count as the job's, what was found there.

The note lies in the task's own directory, so that an agent that starts anew knows it. workdir.py does the looking.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field

from headway_agent.node.directory import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

NOTE = "workdir.json"
CLOCK_REALTIME_COARSE = 5  # Files are dated by it or by a finer one, which is up to a tick (10 ms) ahead of it.
TICK_S = 0.001


@dataclass
class Note:
    cwd: str
    since_ns: int  # What was changed later is the job's. In place that is since its first attempt began.
    dirs: Sequence[str] = ()  # Asked for: kept whole.
    found: Sequence[Sequence[str]] = ()  # Pattern and framework of each.
    shared: list[list[int]] = field(default_factory=list)  # When other jobs ran there too: from, and until (0: still).


def read(directory: str) -> Note | None:
    try:
        with open(os.path.join(directory, NOTE)) as file:
            return Note(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def write(directory: str, note: Note) -> None:
    write_whole(os.path.join(directory, NOTE), asdict(note))


def turning_point_ns() -> int:
    """A time between all that was written before the call and all that is written after it; may wait for a tick."""
    now_ns = time.time_ns()
    while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= now_ns:
        time.sleep(TICK_S)
    return now_ns


def is_in_place(directory: str, cwd: str) -> bool:
    """Whether the task works in a directory of its user, not in one that was made for it."""
    return not (cwd + "/").startswith(directory + "/")
