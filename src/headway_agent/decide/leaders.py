"""Which leader an agent believes when a server answers that is behind one that it has heard. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway_agent.decide.state import Flight, NodeState

OLDER_S = 10.0  # So long an older leader is not believed.


def went_back(state: NodeState, flight: Flight, now: float) -> bool:
    """Whether the server's database is an older one than before: restored, or a copy.

    A leader is silent before the next one leads. So an older one that answers a call which was made after the later one
    had answered was not replaced by it: it has another past. A copy may run beside the real one, so for a while, as
    long as the lease allows, it is waited for whether the later one answers after all.
    """
    if flight.sent_s <= state.leader_heard_s:
        return False
    if not state.older_since_s:
        state.older_since_s = now
    return now - state.older_since_s >= min(OLDER_S, state.granted_s / 4 or OLDER_S)
