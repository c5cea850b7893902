"""What the agent's log says of its calls to the server: their ids, what they told of tasks, and what they were told.

The server repeats an id in the events that come of the call (control/state/requests.py makes the same one there).
"""

from __future__ import annotations

from headway_wire.kinds import Wrong
from headway_wire.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from headway_agent.node.directory import FactLog
    from headway_wire.sync import SyncRequest

NAMED_MOST = 20  # Tasks that a line of the log names.


class Story:
    def __init__(self, log: FactLog) -> None:
        self._log = log

    def told(self, sync: SyncRequest, hear: Callable[[Any], None]) -> Callable[[Any], None]:
        """Note a call that is about to be made; what is said while its answer is heard has its id."""
        request = f"{sync.node}:{sync.agent_epoch}.{sync.seq}"
        if sync.reports:
            tasks = [f"{each.task} {each.phase}" for each in sync.reports[:NAMED_MOST]]
            self._log.say("reported", tasks=tasks, request=request)

        def heard(result: Any) -> None:
            self._log.about(request)
            try:
                self._asked(result)
                hear(result)
            finally:
                self._log.about("")

        return heard

    def _asked(self, result: Any) -> None:
        reply = result[1] if isinstance(result, tuple) and result[0] == 200 else {}
        duties = [str(duty.get("task")) for duty in reply.get("duties") or ()]
        gone = [str(task) for task in reply.get("gone") or ()]
        if duties or gone:
            self._log.say("asked", duties=duties[:NAMED_MOST], gone=gone[:NAMED_MOST])


def read_reply(body: Any) -> Reply | str:
    """The reply that a server gave, or what is wrong with it."""
    try:
        return Reply.read(body)
    except Wrong as wrong:
        return f"what cannot be read: {wrong}"
