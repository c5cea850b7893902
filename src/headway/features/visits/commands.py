"""Visits: somebody wants a shell, a command or a port where a job runs.

That somebody came is an event of the job, and stays. Who waits at which door is in doors.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.control.state.transaction import Transaction
from headway.core.errors import BadInput, Conflict, NotFound
from headway.core.job.events import Event
from headway.core.model import Job, JobId, NodeId, Phase, State, Task
from headway.features.visits.doors import PendingVisits
from headway_wire.reply import PORT, VisitCall
from headway_wire.tasks import task_key

COMMAND_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class VisitRequest:
    """What a visitor wants: a command (none: a shell) in a terminal or not, or a port; at one rank, or at the first."""

    kind: str
    command: tuple[str, ...] = ()
    rank: int | None = None
    port: int = 0
    terminal: Mapping[str, Any] = field(default_factory=dict)  # tty, rows, columns, term


@dataclass(frozen=True, slots=True)
class OpenVisit:
    """Ring at the door of the node where the job (or the rank that was asked for) runs; answers with that node."""

    job: JobId
    visit: str
    ask: VisitRequest
    user: str

    def apply(self, tx: Transaction) -> NodeId:
        job = tx.book.jobs.get(self.job)
        if job is None or job.state not in (State.RUNNING, State.STOPPING):
            raise Conflict(f"job {self.job} does not run", f"headway why {self.job} says where it is")
        task = _task_of(job, self.ask.rank)
        call = self._call(task_key(job.id, job.number, task.index))
        PendingVisits.of(tx.book).ring(task.node, call, tx.now)
        tx.book.touched.add(task.node)
        data = {"attempt": job.number, "node": task.node, "user": self.user, "visit": self.ask.kind}
        if self.ask.kind == "port":
            data["port"] = self.ask.port
        elif self.ask.command:
            data["command"] = " ".join(self.ask.command)[:COMMAND_SHOWN_MAX]
        tx.say(Event("JobVisited", tx.now, job.id, data=data))
        return task.node

    def _call(self, task: str) -> VisitCall:
        ask = self.ask
        wanted = {"port": ask.port} if ask.kind == PORT else {"command": ask.command}
        return VisitCall(self.visit, task, ask.kind, rank=ask.rank, **wanted, **ask.terminal)


def shown(ask: VisitRequest) -> str:
    """What a visitor wants, for the audit log."""
    if ask.kind == "port":
        return f"port {ask.port}"
    return " ".join(ask.command)[:COMMAND_SHOWN_MAX] or "a shell"


def _task_of(job: Job, rank: int | None) -> Task:
    assert job.attempt is not None
    ranks = job.spec.ranks_per_node
    if rank is not None and not 0 <= rank < ranks * len(job.attempt.tasks):
        raise NotFound(f"job {job.id} has no rank {rank}", f"it has ranks 0 to {ranks * len(job.attempt.tasks) - 1}")
    going = [task for task in job.attempt.tasks if task.phase is Phase.GOING]
    wanted = going if rank is None else [task for task in going if task.index == rank // ranks]
    if not wanted:
        raise Conflict(f"nothing of job {job.id} runs there any more")
    return wanted[0]


def read_ask(body: Mapping[str, Any]) -> VisitRequest:
    """What the request asks for, checked."""
    kind = body.get("kind", "exec")
    if kind not in ("exec", "port"):
        raise BadInput(f'kind: "{str(kind)[:80]}" is neither exec nor port')
    command = body.get("command") or []
    if not isinstance(command, list) or not all(isinstance(word, str) and "\0" not in word for word in command):
        raise BadInput("command: expected a list of words")
    if sum(len(word) for word in command) > 100_000:
        raise BadInput("command: at most 100,000 characters are taken", "put it into a file")
    port = _whole(body, "port", 1, 65_535) or 0
    if kind == "port" and not port:
        raise BadInput("port: none is given")
    terminal: dict[str, Any] = {}
    if body.get("tty"):
        term = str(body.get("term") or "xterm")[:64]
        terminal = {"tty": True, "term": term if term.replace("-", "").replace(".", "").isalnum() else "xterm"}
        terminal |= {name: _whole(body, name, 1, 10_000) or least for name, least in (("rows", 24), ("columns", 80))}
    return VisitRequest(kind, tuple(command), _whole(body, "rank", 0, 10**7), port, terminal)


def _whole(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadInput(f'{name}: "{str(value)[:80]}" is not a whole number from {least} to {most}')
    return value
