"""Runs one pickled call in a job and leaves what it returned, or raised, as a pickle in the output directory.

Used by headway.Executor, whose bundle brings this very file and cloudpickle along. A file of a call is one line of JSON
(the Python that wrote it), then the pickle.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RESULT = "result.pkl"
CONTINUED = "call.pkl"  # In the checkpoint directory: what the next attempt calls instead.
AGAIN = 99  # "Requeue me".
REFUSED = 2


class Interrupted(BaseException):
    """Raised in the call by the notice's signal; not an Exception, so that no call swallows it by mistake."""


def main(path: str) -> int:
    folder = os.environ.get("HEADWAY_OUTPUT_DIR") or "output"
    os.makedirs(folder, exist_ok=True)
    checkpoints = os.environ.get("HEADWAY_CHECKPOINT_DIR") or ""
    continued = os.path.join(checkpoints, CONTINUED)
    refusal = _unfit(path)
    if refusal:
        sys.stderr.write(f"headway: {refusal}\n")
        return REFUSED
    function, args, kwargs = load(continued if checkpoints and os.path.exists(continued) else path)
    heard = _listen(function) if checkpoints else []
    try:
        told: dict[str, Any] = {"value": function(*args, **kwargs)}
    except Interrupted:
        return _continue_later(function, args, kwargs, continued)
    except Exception as error:
        import traceback

        told = {"error": error, "trace": traceback.format_exc()}
        sys.stderr.write(told["trace"])
    finally:
        heard.clear()
    _leave(told, os.path.join(folder, RESULT))
    return 1 if "error" in told else 0


def load(path: str) -> Any:
    import pickle

    with open(path, "rb") as file:
        file.readline()
        return pickle.load(file)


def head() -> bytes:
    """The line before a pickle: which Python wrote it."""
    return json.dumps({"python": list(sys.version_info[:2])}).encode() + b"\n"


def _unfit(path: str) -> str:
    """Why this interpreter must not load the call; code that was pickled by value is tied to a minor version."""
    with open(path, "rb") as file:
        wrote = tuple(json.loads(file.readline())["python"])
    if wrote != sys.version_info[:2]:
        mine, theirs = ".".join(map(str, sys.version_info[:2])), ".".join(map(str, wrote))
        return f"the call was pickled by Python {theirs}, and this is Python {mine}: use the same minor version"
    return ""


def _listen(function: Any) -> list[bool]:
    """Let a notice interrupt the call, where the call can say how to go on; else it is left to the call itself."""
    listening = [True]
    if not callable(getattr(function, "checkpoint", None)):
        return listening
    import signal

    def interrupt(number: int, frame: Any) -> None:
        if listening:
            listening.clear()
            raise Interrupted

    for name in {"SIGTERM", os.environ.get("HEADWAY_NOTICE_SIGNAL") or "SIGTERM"}:
        signal.signal(getattr(signal, name), interrupt)
    return listening


def _continue_later(function: Any, args: Any, kwargs: Any, path: str) -> int:
    """Ask the call how to go on, keep that as a checkpoint, and ask to be queued again."""
    following = function.checkpoint(*args, **kwargs)
    if following is None:
        return AGAIN  # Once more from the beginning.
    call = following if isinstance(following, tuple) else (following, args, kwargs)
    _leave(call, path)
    from headway.training.progress import checkpoint, resume

    before = resume()
    checkpoint(before.step + 1 if before else 1, path)
    return AGAIN


def _leave(value: Any, path: str) -> None:
    """Write a pickle whole; what cannot be pickled becomes an error that can."""
    import cloudpickle

    try:
        content = cloudpickle.dumps(value)
    except Exception as error:
        if not isinstance(value, dict):
            raise
        content = cloudpickle.dumps({"error": TypeError(f"the result cannot be pickled: {error}"), "trace": ""})
    fresh = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.tmp")
    with open(fresh, "wb") as file:
        file.write(head() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
