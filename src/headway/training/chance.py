"""Everything that draws random numbers in a training: its states taken, and put back as they were.

Python's, NumPy's and torch's own generators, those of a data loader, and those that a script made for itself.
"""

from __future__ import annotations

import random
import sys

from headway.training import loaders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def take(loader: Any = None) -> dict[str, Any]:
    """The states of this process's generators, and of those with which the loader shuffles."""
    state: dict[str, Any] = {
        "python": random.getstate(),
        "loader": [each.get_state() for each in loaders.generators(loader)],
    }
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, keys.tolist(), *rest)  # In plain words: some load nothing else.
    torch = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        # Of this rank's own device alone: to ask the others would take memory on each of them.
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state()
    return state


def put(state: dict[str, Any], loader: Any = None) -> None:
    random.setstate(state["python"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    torch = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])
    for generator, was in zip(loaders.generators(loader), state["loader"]):
        generator.set_state(was)


def is_generator(part: Any) -> bool:
    return any(hasattr(part, name) for name in ("get_state", "getstate", "bit_generator"))


def state_of(generator: Any) -> Any:
    """Of a generator of torch, NumPy (of either kind) or Python."""
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state() if hasattr(generator, "get_state") else generator.getstate()


def set_state_of(generator: Any, state: Any) -> None:
    if hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.setstate(state)
