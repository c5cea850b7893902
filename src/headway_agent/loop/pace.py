"""When the server may be called again: at once where there is news, later where there is none, and later each time.

Whatever a server answers, and however fast, the pauses grow: none can make an agent call it without end.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Collection

    from headway_agent.decide.state import NodeState
    from headway_agent.node.directory import NodeDir
    from headway_agent.node.threads import BackgroundThread
    from headway_agent.server_link.http import Connection
    from headway_wire.reply import Reply

PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 5.0
IN_VAIN_S_MAX = 2.0  # To an agent of another version nothing is ever held, and it has work all the same.
AT_ONCE_MOST = 3  # So often a call that could have been held may be answered at once and bring nothing.
PATIENT_S = 1.0  # A call that was held for so long made no hurry.
AHEAD_S = 3600.0
OLDER_LEADER = (
    "this server leads with a smaller number than was heard before: is its database a restored one, or a copy?"
)
WENT_BACK = "the server's database was restored, or is a copy: this node takes it for the right one from now on"


class Line:
    """A connection to the server with the thread that waits on it, and the sync under way there."""

    def __init__(self, connection: Connection, courier: BackgroundThread) -> None:
        self.connection = connection
        self.courier = courier
        self.seq = 0
        self.sent_s = self.held_s = 0.0


class Pause:
    """A pause that grows from one failure to the next, and is nothing again after a success."""

    def __init__(self, least_s: float = PAUSE_S_MIN, most_s: float = PAUSE_S_MAX) -> None:
        self.least_s, self.most_s = least_s, most_s
        self.s = 0.0

    def longer(self, most_s: float | None = None) -> float:
        self.s = min(self.most_s if most_s is None else most_s, max(self.least_s, self.s * 2))
        return self.s

    def over(self) -> None:
        self.s = 0.0


class Pace:
    def __init__(self) -> None:
        self.at_s = 0.0
        self._unanswered = Pause()
        self._in_vain = Pause(PAUSE_S_MIN, IN_VAIN_S_MAX)
        self._at_once = 0

    def not_answered(self, now: float, most_s: float) -> float:
        """No answer, or one that does not count. Returns the pause."""
        pause_s = self._unanswered.longer(most_s)
        self.at_s = now + pause_s
        return pause_s

    def answered(self, now: float, held_s: float, took_s: float, brought: bool) -> None:
        """An answer that counts, to a call that the server might have held so long; did it bring anything?"""
        self._unanswered.over()
        self.at_s = 0.0
        if not held_s:
            return  # It brought news itself: how soon it was answered says nothing.
        if brought or took_s >= min(PATIENT_S, held_s / 2):
            self._at_once = 0
            self._in_vain.over()
            return
        self._at_once += 1
        if self._at_once > AT_ONCE_MOST:
            self.at_s = now + self._in_vain.longer()


def brings(reply: Reply, followed: Collection[str], features: Collection[str] = ()) -> bool:
    """Whether a reply says anything that its agent did not know. What is said in full or asked for again is no news."""
    if reply.full or reply.resend:
        return False
    told = reply.duties or reply.gone or reply.storage or reply.saved or any(map(reply.more.get, features))
    return bool(told) or set(reply.follow or ()) != set(followed)


def outnumber(state: NodeState, node_dir: NodeDir, newest: Any) -> bool:
    """Take a larger number than somebody who spoke in this node's name with one that no agent can have; or say no.

    An agent's number is the time at which it began, and this node's directory is locked by us: whoever has one from the
    future is not a later agent of this node.
    """
    if not isinstance(newest, int) or newest <= time.time() + AHEAD_S:
        return False
    state.agent_epoch = node_dir.raise_counter("agent.epoch", newest + 1)
    state.full_due = True
    return True
