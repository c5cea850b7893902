"""Headway: a managed training service. This file knows the version and where the names of the SDK are.

A light copy of it, with headway.training and nothing else, is put in the way of every job on a node; hence Python 3.8,
and no import that costs anything. Where the whole package is installed beside the copy, its other parts are found too.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # For editors and type checkers; _PLACES says the same to the interpreter.
    from typing import Any

    from headway.client.async_calls import AsyncExecutor, AsyncFunctionCall
    from headway.client.async_sdk import AsyncClient, AsyncJobHandle
    from headway.client.calls import CallFailed, Executor, FunctionCall, as_completed, job
    from headway.client.job_handle import JobHandle
    from headway.client.sdk import Client, submit
    from headway.core.errors import (
        BadInput,
        Conflict,
        HeadwayError,
        NotAllowed,
        NotFound,
        OperatorError,
        Unavailable,
        UserError,
    )
    from headway.training.progress import (
        Checkpointable,
        Notice,
        Resume,
        checkpoint,
        log,
        params,
        resume,
        stop_requested,
    )

if TYPE_CHECKING:
    __version__: str
_NUMBER = "0.1.0"  # Of the next release. What is installed from a build says more: hatch_build.py.

__all__ = [
    # Jobs.
    "submit", "Client", "JobHandle",
    # Functions as jobs.
    "job", "Executor", "FunctionCall", "as_completed",
    # The same for asyncio.
    "AsyncClient", "AsyncJobHandle", "AsyncExecutor", "AsyncFunctionCall",
    # What goes wrong.
    "HeadwayError", "UserError", "BadInput", "NotFound", "NotAllowed", "Conflict", "OperatorError", "Unavailable",
    "CallFailed",
    # Inside a job.
    "resume", "Resume", "checkpoint", "Checkpointable", "log", "params", "stop_requested", "Notice",
]  # fmt: skip

_PLACES = {
    **dict.fromkeys(("AsyncClient", "AsyncJobHandle"), "headway.client.async_sdk"),
    **dict.fromkeys(("AsyncExecutor", "AsyncFunctionCall"), "headway.client.async_calls"),
    **dict.fromkeys(("Client", "submit"), "headway.client.sdk"),
    "JobHandle": "headway.client.job_handle",
    **dict.fromkeys(("CallFailed", "Executor", "FunctionCall", "as_completed", "job"), "headway.client.calls"),
    **dict.fromkeys(
        (
            "BadInput", "Conflict", "HeadwayError", "NotAllowed", "NotFound", "OperatorError", "Unavailable",
            "UserError",
        ),
        "headway.core.errors",
    ),
    **dict.fromkeys(
        ("Checkpointable", "Notice", "Resume", "checkpoint", "log", "params", "resume", "stop_requested"),
        "headway.training.progress",
    ),
}  # fmt: skip

if not os.path.isdir(os.path.join(os.path.dirname(__file__), "client")):
    from pkgutil import extend_path

    __path__ = extend_path(__path__, __name__)


if not TYPE_CHECKING:  # A checker knows the names from above, and should complain of others.

    def __getattr__(name: str) -> Any:
        """`headway.submit` and its like are loaded when they are first asked for: importing headway stays cheap."""
        if name == "__version__":
            try:
                from headway import _version  # Only a build has it.
            except ImportError:
                return _NUMBER
            return _version.VERSION
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


def __dir__() -> list[str]:
    """The public names too, though they are not loaded yet."""
    return sorted({*globals(), *__all__})
