"""One call of one agent, as the server takes it: read with the words of headway_wire, or refused with a reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from headway.core.errors import BadInput
from headway_wire.kinds import Wrong, quoted, record_of
from headway_wire.sync import PROTOCOL, SyncRequest

SCHEMA: dict[str, Any] = record_of(SyncRequest).schema
"""The request as JSON Schema, for the API's own description."""


def read_sync(body: Mapping[str, object]) -> SyncRequest:
    """The call that this JSON says, or BadInput naming the word, what was expected, and what was found."""
    if body.get("protocol") != PROTOCOL:  # First: another one may mean other things by the same words.
        raise BadInput(
            f"agent speaks protocol {quoted(body.get('protocol'))}, this server {PROTOCOL}",
            "let the agent fetch /agent.pyz and start again",
        )
    try:
        return SyncRequest.read(body)
    except Wrong as wrong:
        raise BadInput(f"sync: {wrong}", "nothing of this call was taken") from None


def without_stored(request: SyncRequest) -> SyncRequest:
    """What a call says beside what it tells of storage. Its agent hears where storage is now, and tells it anew."""
    return dataclasses.replace(request, logs=(), checkpoints=(), artifacts=(), dumps=(), bad_checkpoints=())
