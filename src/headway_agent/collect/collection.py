"""Collecting on a node: one thread, alive while there are tasks that are old enough to have something to tell.

A round looks at each task's files; between two rounds is a pause that grows with what a round costs. The last look at a
task is had before it is told how large its output is.
"""

from __future__ import annotations

import json
import os
import threading
import time

from headway_agent.node.directory import boottime_s, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, TypeVar

    from headway_agent.collect.status_server import StatusServer
    from headway_agent.collect.task_collector import TaskCollector
    from headway_agent.node.directory import FactLog, NodeDir
    from headway_wire.claim import Claim

    T = TypeVar("T")

ROUND_S = 2.0
ROUND_PART = 0.01  # Of the time that may go into rounds.
MORE_S = 0.05
SMALL_BYTES = 64 << 10
OUTPUTS = (".out", ".err")
SIGNS = (b"=", b":", b"{", b"loss", b"acc")
DONE, RULES, PLACE = "collected", "metric_rules.json", "collect.json"


class Collection:
    def __init__(self, node_dir: NodeDir | None = None, log: FactLog | None = None) -> None:
        self._node_dir, self._log = node_dir, log
        self._status: StatusServer | None = None
        self._lock = threading.Condition()
        self._looking = threading.Lock()  # One look at a time: a spool has one writer.
        self._tasks: dict[str, TaskCollector] = {}
        self._resumed: dict[str, int] = {}  # The step that each begins from: what was logged up to it is not its own.
        self._places: dict[str, str] = {}  # Where each task works, those too that are too young to be looked at.
        self._thread: threading.Thread | None = None

    def env(self, key: str) -> dict[str, str]:
        """What a training must know to post how far it is; tasks that set this themselves go first."""
        return self.status.env(key) if self._node_dir is not None else {}

    @property
    def status(self) -> StatusServer:
        if self._status is None:
            from headway_agent.collect.status_server import StatusServer  # Here: an idle node need not carry it.

            assert self._node_dir is not None
            self._status = StatusServer(self._node_dir.path, self._node_dir.task)
        return self._status

    def held(self, claim: Claim, directory: str, cwd: str) -> None:
        """Note the parameters that a task was given, which stand in its command or were named for it; and its rules."""
        self._places[claim.task] = cwd
        self._resumed[claim.task] = claim.resume.step if claim.resume else -1
        if claim.progress.metrics:
            write_whole(f"{directory}/{RULES}", [rule.show() for rule in claim.progress.metrics])
        given = dict(claim.progress.params)
        if claim.node_rank or not (given or any(word.startswith("--") or "=" in word for word in claim.argv[1:])):
            return
        from headway_agent.collect import parameters, points
        from headway_agent.collect.spool import Spool

        found = ((parameters.of_command(claim.argv), points.ARGUMENTS), (given, points.GIVEN))
        lines = [points.params_line(params, source, time.time(), 0, 0) for params, source in found if params]
        try:
            Spool(directory, claim.first_rank).append(b"".join(lines))
        except OSError as error:
            self._say("parameters not noted", task=claim.task, error=repr(error))

    def begin(self, key: str, directory: str, cwd: str, since: float) -> None:
        from headway_agent.collect.task_collector import TaskCollector  # Here: an idle node need not carry it.

        with self._lock:
            if key in self._tasks:
                return
            cwd, since, resumed = _noted(directory) or (cwd, since, self._resumed.get(key, -1))
            self._places[key] = cwd
            try:
                write_whole(f"{directory}/{PLACE}", [cwd, since, resumed])  # For an agent that finds it over.
            except OSError as error:
                self._say("where figures are looked for is not noted", task=key, error=repr(error))
            self._tasks[key] = TaskCollector(key, directory, cwd, since, resumed)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="collect", daemon=True)
                self._thread.start()
            self._lock.notify_all()

    def found_going(self) -> None:
        """An agent that has just started finds a task that may post to it."""
        if self._node_dir is not None:
            self.status.listen_again()

    def forget(self, key: str) -> None:
        if self._status is not None:
            self._status.forget(key)
        self._places.pop(key, None)
        self._resumed.pop(key, None)
        with self._lock:
            task = self._tasks.pop(key, None)
            self._lock.notify_all()
        if task is not None:
            task.close()

    def is_wanted(self, key: str, directory: str) -> bool:
        """Whether a task that is over has anything to look at a last time."""
        if os.path.exists(f"{directory}/{DONE}"):
            return False
        if key in self._tasks or _has_printed(directory):
            return True
        return any(os.path.exists(f"{directory}/{name}") for name in (PLACE, RULES))

    def finish(self, key: str, directory: str, then: Callable[[], T]) -> T:
        """Have the last look at a task, and go on; its output does not grow any more after it. Twice is once."""
        if self.is_wanted(key, directory):
            from headway_agent.collect.task_collector import TaskCollector

            with self._lock:
                task = self._tasks.pop(key, None)
                # Where an agent before us looked at it, files that it has not taken up may be those of others.
                shares = task is None or self._shares(task)
            task = task or TaskCollector(key, directory, *(_noted(directory) or ("", 0.0, -1)))
            with self._looking:
                if self._look(task, shares, final=True) and task.has_told:
                    with open(f"{directory}/{DONE}", "w"):
                        pass
                task.close()
        return then()

    def _shares(self, task: TaskCollector) -> bool:
        places = list(self._places.items())
        return task.in_place and any(cwd == task.cwd and key != task.key for key, cwd in places)

    def _work(self) -> None:
        while True:
            began_s = boottime_s()
            with self._lock:
                if not self._tasks:
                    self._thread = None
                    return
                tasks = [(task, self._shares(task)) for task in self._tasks.values()]
            for task, shares in tasks:
                with self._looking:
                    if task.key in self._tasks:
                        self._look(task, shares)
            took_s = boottime_s() - began_s
            pause_s = MORE_S if any(task.more for task, _ in tasks) else ROUND_S
            with self._lock:
                if self._tasks:
                    self._lock.wait(max(pause_s, took_s / ROUND_PART if pause_s == ROUND_S else took_s))

    def _look(self, task: TaskCollector, shares: bool, final: bool = False) -> bool:
        passed_over, troubles = task.passed_over, task.troubles
        try:
            task.look(boottime_s(), time.time(), shares, final, boottime_s)
        except Exception as error:  # Whatever a job has written: neither it nor others may suffer for it.
            self._say("figures not collected", task=task.key, error=repr(error))
            return False
        if task.passed_over > passed_over:
            self._say("more was printed than is read for figures", task=task.key, bytes=task.passed_over)
        for trouble in set(task.troubles) - set(troubles):
            self._say("figures not collected", task=task.key, error=trouble)
        return True

    def _say(self, fact: str, **more: object) -> None:
        if self._log is not None:
            self._log.say(fact, **more)


def _noted(directory: str) -> tuple[str, float, int] | None:
    """Where a task works, since when its files count, and from which step: as noted when it was first looked at."""
    try:
        with open(f"{directory}/{PLACE}") as file:
            cwd, since, resumed = json.load(file)
            return str(cwd), float(since), int(resumed)
    except (OSError, ValueError, TypeError):
        return None


def _has_printed(directory: str) -> bool:
    """Whether something that looks like a figure was printed, at first sight."""
    try:
        with os.scandir(directory) as entries:
            printed = [entry for entry in entries if entry.name.startswith("rank") and entry.name.endswith(OUTPUTS)]
            sizes = {entry.path: entry.stat().st_size for entry in printed}
        for path, size in sizes.items():
            if size > SMALL_BYTES:
                return True
            if size:
                with open(path, "rb") as file:
                    if any(map(file.read(SMALL_BYTES).__contains__, SIGNS)):
                        return True
    except OSError:
        pass
    return False
