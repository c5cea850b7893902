"""The processes of each task, by the variables that they were started with, and whether one has ended meanwhile.

Asked only where a file's own format cannot tell whether it is whole: its close may have come with its writer's death.
"""

from __future__ import annotations

from headway_agent import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    Born = tuple[int, int]  # pid, and when it was born: a pid may be given again.

TAG = "HEADWAY_SDK_DIR"


class TaskProcesses:
    def __init__(self) -> None:
        self._sdk_dirs: dict[Born, str] = {}  # Of every process that was seen.
        self._alive: dict[str, set[Born]] = {}

    def has_one_ended(self, directory: str) -> bool:
        """Whether a process of the task in this directory has ended since the last call (or is about to)."""
        self._look()
        mine = f"{directory}/sdk"
        alive = {born for born, sdk_dir in self._sdk_dirs.items() if sdk_dir == mine}
        before, self._alive[mine] = self._alive.get(mine, set()), alive
        return bool(before - alive)

    def forget(self, directory: str) -> None:
        self._alive.pop(f"{directory}/sdk", None)

    def _look(self) -> None:
        there: dict[Born, str] = {}
        for seen in processes.scan():
            born = (seen.pid, seen.start)
            known = self._sdk_dirs.get(born)
            there[born] = processes.tags(seen.pid).get(TAG, "") if known is None else known
        self._sdk_dirs = there
