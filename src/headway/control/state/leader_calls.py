"""What others may ask of the leader while it works: its troubles, which nodes it hears, and a command done."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from headway.control.state.transaction import Command
from headway.core.model import NodeId


class HeardNode(Protocol):
    """A node as the leader hears it."""

    @property
    def agent_epoch(self) -> int: ...
    @property
    def silent(self) -> bool: ...


class Hearing(Protocol):
    """What the cycle knows that is in no store."""

    @property
    def troubles(self) -> dict[str, str]: ...
    @property
    def sessions(self) -> Mapping[NodeId, HeardNode]: ...


class Control(Protocol):
    """What is needed of the control thread."""

    @property
    def cycle(self) -> Hearing: ...

    def do(self, command: Command) -> Future[Any]: ...
