"""The step in a file's own content, where it is cheap to read."""

from __future__ import annotations

import json

from headway_agent.step_names import NamedStep

BYTES_MAX = 4 << 20


def step_of(path: str) -> NamedStep | None:
    """The step that a small JSON file says at its top."""
    if not path.endswith(".json"):
        return None
    try:
        with open(path, "rb") as file:
            said = json.loads(file.read(BYTES_MAX))
        for word, unit in (("global_step", "step"), ("step", "step"), ("epoch", "epoch")):
            if isinstance(said, dict) and type(said.get(word)) is int:
                return NamedStep(unit, said[word])
    except (OSError, ValueError):
        pass
    return None
