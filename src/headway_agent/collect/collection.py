"""Collecting on a node: one thread, alive while there are tasks that are old enough to have something to tell.

A round looks at each task's files; between two rounds is a pause that grows with what a round costs. The last look at a
task is had before it is told how large its output is.
"""

from __future__ import annotations

import os
import threading
import time

from headway_agent.node.directory import boottime_s

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
DONE = "collected"


class Collection:
    def __init__(self, node_dir: NodeDir | None = None, log: FactLog | None = None) -> None:
        self._node_dir, self._log = node_dir, log
        self._status: StatusServer | None = None
        self._lock = threading.Condition()
        self._looking = threading.Lock()  # One look at a time: a spool has one writer.
        self._tasks: dict[str, TaskCollector] = {}
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

    def held(self, claim: Claim, directory: str) -> None:
        """Note the parameters that a task was given, which stand in its command or were named for it."""
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

    def begin(self, key: str, directory: str, cwd: str, since: float, resume_step: int = -1) -> None:
        from headway_agent.collect.task_collector import TaskCollector  # Here: an idle node need not carry it.

        with self._lock:
            if key in self._tasks:
                return
            self._tasks[key] = TaskCollector(key, directory, cwd, since, resume_step)
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
        with self._lock:
            self._tasks.pop(key, None)
            self._lock.notify_all()

    def is_wanted(self, key: str, directory: str) -> bool:
        """Whether a task that is over has anything to look at a last time."""
        if os.path.exists(f"{directory}/{DONE}"):
            return False
        return key in self._tasks or _has_printed(directory)

    def finish(self, key: str, directory: str, then: Callable[[], T]) -> T:
        """Have the last look at a task, and go on; its output does not grow any more after it. Twice is once."""
        if self.is_wanted(key, directory):
            from headway_agent.collect.task_collector import TaskCollector

            with self._lock:
                task = self._tasks.pop(key, None)
                shares = self._shares(task) if task is not None else False
            task = task or TaskCollector(key, directory, "", 0.0)
            with self._looking:
                if self._look(task, shares, final=True) and task.has_told:
                    with open(f"{directory}/{DONE}", "w"):
                        pass
        return then()

    def _shares(self, task: TaskCollector) -> bool:
        return task.in_place and any(each.cwd == task.cwd and each is not task for each in self._tasks.values())

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
        passed_over = task.passed_over
        try:
            task.look(boottime_s(), time.time(), shares, final, boottime_s)
        except Exception as error:  # Whatever a job has written: neither it nor others may suffer for it.
            self._say("figures not collected", task=task.key, error=repr(error))
            return False
        if task.passed_over > passed_over:
            self._say("more was printed than is read for figures", task=task.key, bytes=task.passed_over)
        return True

    def _say(self, fact: str, **more: object) -> None:
        if self._log is not None:
            self._log.say(fact, **more)


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
