"""One turn of the agent: in which order facts are decided on, files kept, output shipped, orders given and calls made.

Pure, as decide.py is: how a task is held or a call travels is its host's. The agent's process is one host (agent.py),
the simulator's machine another.
"""

from __future__ import annotations

from collections import deque

from headway_agent.decide import node_features
from headway_agent.decide.decide import (
    Answered,
    EndAgent,
    Forget,
    Go,
    Hold,
    Lease,
    NotAnswered,
    Stop,
    Superseded,
    Upgrade,
    decide,
    next_call,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from headway_agent.decide.decide import Act, Fact, NodeState
    from headway_wire.reply import Reply

    class AgentHost(Protocol):
        def alive(self) -> bool: ...
        def now_s(self) -> float: ...
        def hold(self, act: Hold) -> None: ...
        def go(self, act: Go) -> None: ...
        def stop(self, act: Stop) -> None: ...
        def forget(self, task: str) -> None: ...
        def lease(self, act: Lease) -> None: ...
        def keep(self, act: Act) -> None: ...
        def upgrade(self, version: str) -> None: ...
        def end(self, reason: str) -> None: ...
        def leave(self) -> None: ...
        def keep_progress(self) -> None: ...
        def ship(self) -> None: ...
        def flush(self) -> None: ...
        def may_call(self) -> bool: ...
        def call(self) -> None: ...


class AgentTurn:
    def __init__(self, host: AgentHost, state: NodeState) -> None:
        self.host, self.state = host, state
        self._facts: deque[Fact] = deque()
        self.deciding = False

    def happened(self, fact: Fact) -> None:
        """Decide about a fact, and perform what follows. Acts may bring further facts; they wait for their turn."""
        self._facts.append(fact)
        if self.deciding:
            return
        self.deciding = True
        try:
            while self._facts and self.host.alive():
                for act in decide(self.state, self._facts.popleft(), self.host.now_s()):
                    self._perform(act)
        finally:
            self.deciding = False

    def take(self) -> None:
        """What is done after something was heard."""
        self.host.keep_progress()
        self.host.ship()
        self.host.flush()  # Before the call: what the server hears of a claim must outlive this process.
        while self.host.alive() and self.host.may_call() and next_call(self.state, self.host.now_s()):
            self.host.call()

    def answered(self, seq: int, reply: Reply) -> bool:
        """The server's answer to a call; says whether it counts. That of a leader who was replaced does not."""
        if reply.leave and not self.state.tasks:
            self.host.leave()
        self.happened(Answered(reply, seq))
        if reply.leader_epoch < self.state.leader_epoch:
            return False
        node_features.heard(self.state, reply.more)
        return True

    def not_answered(self, seq: int, superseded: bool = False) -> None:
        self.happened(Superseded() if superseded else NotAnswered(seq))

    def _perform(self, act: Act) -> None:
        host = self.host
        if isinstance(act, Hold):
            host.hold(act)
        elif isinstance(act, Go):
            host.go(act)
        elif isinstance(act, Stop):
            host.stop(act)
        elif isinstance(act, Forget):
            host.forget(act.task)
        elif isinstance(act, Lease):
            host.lease(act)
        elif isinstance(act, Upgrade):
            host.upgrade(act.version)
        elif isinstance(act, EndAgent):
            host.end(act.reason)
        else:
            host.keep(act)
