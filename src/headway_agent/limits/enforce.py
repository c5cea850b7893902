"""What is done when a task nears one of its limits or goes beyond it: say so, dump its stacks, write down why, stop it.

The judgement is in rules.py, the samples in sampler.py. Costs nothing until the first limited task is there. Why a
task was stopped lies in its directory, so that an agent that comes later names its end rightly.
"""

from __future__ import annotations

import errno
import json
import os

from headway_agent.decide.facts_and_acts import Dumped, LimitReached, Troubled
from headway_agent.decide.outcomes import first_failing
from headway_agent.node.directory import POLICIES_FILE, write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Sequence

    from headway_agent.decide.facts_and_acts import Fact
    from headway_agent.decide.outcomes import Exit
    from headway_agent.limits.rules import LimitVerdict, Watch
    from headway_agent.limits.sampler import UsageSampler
    from headway_agent.node.directory import NodeDir
    from headway_wire.claim import LogPolicy

LIMIT_FILE = "limit.json"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ROOM_BYTES = 4096


class LimitEnforcer:
    """`storage` makes a store of its own for this thread, which says where it put a thing.

    `post` hands a fact to the main loop.
    """

    def __init__(
        self,
        node_dir: NodeDir,
        storage: Callable[[], Callable[[str, bytes], str]],
        post: Callable[[Fact], None],
        environ: Mapping[str, str],
    ) -> None:
        self._node_dir, self._storage, self._post, self._environ = node_dir, storage, post, environ
        self._watcher: UsageSampler | None = None

    def watch(self, key: str, told: Mapping[str, Any]) -> None:
        """Begin to watch a task that the keeper has started, if there is anything to be watched."""
        from headway_agent.limits import rules as limit_rules
        from headway_agent.limits import sampler

        watch = limit_rules.Watch(
            key, told["limits"], tuple(told["pids"]), bool(told["grouped"]), float(told["grace_s"])
        )
        if watch.needed:
            if self._watcher is None:
                self._watcher = sampler.UsageSampler(self._node_dir.task, self._found)
            self._watcher.watch(watch)

    def forget(self, key: str) -> None:
        watch = self._watcher.forget(key) if self._watcher is not None else None
        for what in (*watch.warned, "end") if watch is not None else ():
            self._post(Troubled(f"{what} of {key}", ""))

    def _found(self, watch: Watch, verdict: LimitVerdict) -> None:
        if verdict.do == "warn":
            self._post(Troubled(f"{verdict.what} of {watch.task}", verdict.detail))
            return
        if verdict.dump:
            self._dump(watch, verdict)
        after = f"it is told to stop, and killed in {verdict.grace_s:g} s" if verdict.grace_s else "it is killed"
        self._post(Troubled(f"end of {watch.task}", f"{verdict.detail}: {after}"))
        said = json.dumps([verdict.cause, verdict.detail])
        try:
            write_durably(f"{self._node_dir.task(watch.task)}/{LIMIT_FILE}", said.encode())
        except OSError:
            pass  # It is gone, or the disk is full: it is stopped all the same.
        self._post(LimitReached(watch.task, verdict.cause, verdict.grace_s))

    def _dump(self, watch: Watch, verdict: LimitVerdict) -> None:
        import hashlib  # Here: an idle node need not carry it.

        from headway_agent.limits import stack_dump
        from headway_agent.node import processes

        pids = processes.descendants(watch.pids, processes.offspring())
        text = stack_dump.dump(pids, self._node_dir.task(watch.task), self._environ.get("PATH", ""))
        stacks = text.encode("utf-8", "replace")
        job, attempt, index = watch.task.split("/")
        key = f"jobs/{job}/{attempt}/dumps/{index}-{verdict.what}.txt"
        try:
            mark = self._storage()(key, stacks)
        except Exception as error:  # Storage that is away must not keep a stalled task alive.
            self._post(Troubled(f"dump of {watch.task}", f"its stack dump could not be stored: {error}"))
            return
        self._post(Dumped(watch.task, key, "stacks", len(stacks), hashlib.sha256(stacks).hexdigest(), mark))


def has_policies(directory: str) -> bool:
    return os.path.exists(f"{directory}/{POLICIES_FILE}")


def keep_policies(directory: str, rules: Sequence[LogPolicy]) -> None:
    """Write them down beside the task's output, for whichever agent sees its end."""
    write_durably(f"{directory}/{POLICIES_FILE}", json.dumps([rule.show() for rule in rules]).encode())


def marks_of(directory: str) -> dict[str, Any]:
    """What was noted about a task beside its exits: a limit that it went beyond, log policies that match."""
    marks: dict[str, Any] = {}
    try:
        with open(f"{directory}/{LIMIT_FILE}", "rb") as file:
            marks["limit"] = tuple(json.loads(file.read()))
    except (OSError, ValueError):
        pass  # It was not stopped for a limit.
    if has_policies(directory):
        from headway_agent.output import log_policies

        marks["policies"] = log_policies.matched(directory)
    return marks


def with_room(marks: object, directory: str, exits: Sequence[Exit]) -> dict[str, Any]:
    """The marks, and whether a task that failed by itself can have written what it had to say."""
    found = marks if isinstance(marks, dict) else {}
    failed = first_failing(exits)
    if failed is None or failed.ours or takes_more(directory):
        return found
    return dict(found, disk_full=directory)


def takes_more(directory: str) -> bool:
    """Whether more can be written where a task's output goes. It is tried: a quota shows in no count of free blocks."""
    probe = f"{directory}/room"
    try:
        fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error.errno not in NO_ROOM
    try:
        os.write(fd, b"\0" * ROOM_BYTES)
    except OSError as error:
        return error.errno not in NO_ROOM
    finally:
        os.close(fd)
        os.unlink(probe)
    return True
