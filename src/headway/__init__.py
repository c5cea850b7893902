"""Headway: a managed training service. This file knows the version and where the names of the SDK are.

A light copy of it, with headway.training and nothing else, is put in the way of every job on a node; hence Python 3.8,
and no import that costs anything. Where the whole package is installed beside the copy, its other parts are found too.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "Client": "headway.client.sdk",
    "JobHandle": "headway.client.sdk",
    "submit": "headway.client.sdk",
    "Executor": "headway.client.calls",
    "as_completed": "headway.client.calls",
    "job": "headway.client.calls",
    "Checkpointable": "headway.training.progress",
    "Notice": "headway.training.progress",
    "Resume": "headway.training.progress",
    "checkpoint": "headway.training.progress",
    "log": "headway.training.progress",
    "params": "headway.training.progress",
    "resume": "headway.training.progress",
    "stop_requested": "headway.training.progress",
}

if not os.path.isdir(os.path.join(os.path.dirname(__file__), "client")):
    from pkgutil import extend_path

    __path__ = extend_path(__path__, __name__)


def __getattr__(name: str) -> Any:
    """`headway.submit` and its like are loaded when they are first asked for: importing headway stays cheap."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_PLACES[name])
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("headway"):
            raise AttributeError(f"headway.{name} needs the whole package: pip install headway") from error
        raise
    found = globals()[name] = getattr(module, name)  # Once: a training asks for `headway.log` at every step.
    return found
