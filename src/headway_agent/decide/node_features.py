"""What a feature does on a node: what it says in syncs, and what it hears in replies.

Pure: a feature that does something with what it hears hands it on. The agent asks every feature of `MAKERS` and names
none; the simulator's agent does the same, so that a feature's words meet every fault that the others meet.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from headway_agent.decide.state import NodeState


class NodeFeature:
    """One feature on one node. What it says is said under its word, until the server's answer to it is heard."""

    word = ""

    def due(self, now: float) -> bool:
        """Whether there is something to say that shall not wait for the next call."""
        return False

    def say(self, state: NodeState, now: float) -> Any:
        """What to tell the server, as JSON; nothing for nothing. A call may be lost: say it until it is confirmed."""
        return None

    def hear(self, told: Any) -> None:
        """What the server says in this feature's word."""


MAKERS: list[Callable[[], NodeFeature]] = []
"""How the features of a node are made, at each start of its agent."""


def said(state: NodeState, now: float) -> dict[str, object]:
    """The words of all features for the next call."""
    found = {feature.word: feature.say(state, now) for feature in state.features}
    return {word: value for word, value in found.items() if value is not None}


def heard(state: NodeState, words: Mapping[str, object]) -> None:
    """Hand on what a reply says in words of features."""
    for feature in state.features:
        if words.get(feature.word):
            feature.hear(words[feature.word])


def any_due(state: NodeState, now: float) -> bool:
    return any(feature.due(now) for feature in state.features)
