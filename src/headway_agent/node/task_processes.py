"""The processes of each task, by the variables that they were started with, and whether one has ended meanwhile.

Asked only where a file's own format cannot tell whether it is whole: its close may have come with its writer's death.
"""

from __future__ import annotations

from headway_agent.node import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    Born = tuple[int, int]  # pid, and when it was born: a pid may be given again.

TAG = "HEADWAY_TASK"


class TaskProcesses:
    def __init__(self) -> None:
        self._tasks: dict[Born, str] = {}  # Of every process that was seen; empty for a stranger.
        self._alive: dict[str, set[Born]] = {}
        self._leaders: dict[Born, str] = {}  # Of these, the leaders of their sessions: each rank is one.

    def has_one_ended(self, task: str) -> bool:
        """Whether a process of this task has ended since the last call (or is about to)."""
        self._look()
        alive = {born for born, whose in self._tasks.items() if whose == task}
        before, self._alive[task] = self._alive.get(task, set()), alive
        return bool(before - alive)

    def meet(self, task: str) -> bool:
        """Note the processes of a task of which nothing is known yet. Whether that was so."""
        if task in self._alive:
            return False
        self.has_one_ended(task)
        return True

    def leaders(self, task: str) -> int:
        """How many of its ranks were alive at the last look."""
        return sum(whose == task for whose in self._leaders.values())

    def forget(self, task: str) -> None:
        self._alive.pop(task, None)

    def _look(self) -> None:
        there: dict[Born, str] = {}
        leaders: dict[Born, str] = {}
        for seen in processes.scan():
            if seen.exiting:
                continue  # Its files may be closed already.
            born = (seen.pid, seen.start)
            known = self._tasks.get(born)
            there[born] = processes.tags(seen.pid).get(TAG, "") if known is None else known
            if seen.pid == seen.session and there[born]:
                leaders[born] = there[born]
        self._tasks, self._leaders = there, leaders
