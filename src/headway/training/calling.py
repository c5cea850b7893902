"""Runs one pickled call in a job and leaves what it returned, or raised, as a pickle in the output directory.

Used by headway.Executor, whose bundle brings this very file and cloudpickle along. A file of a call is one line of JSON
(the Python that wrote it; of an exception its type, message and trace, which outlive a pickle that nobody can load),
then the pickle.
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
SAID_MOST = 200_000  # Characters of a message or a trace.


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
    result = os.path.join(folder, RESULT)
    try:
        value = function(*args, **kwargs)
    except Interrupted:
        return _continue_later(function, args, kwargs, continued)
    except Exception as error:
        said = _said(error)
        sys.stderr.write(said["trace"])
        _leave_error(error, said, result)
        return 1
    finally:
        heard.clear()
    try:
        _leave({"value": value}, result)
    except Exception as error:
        refused = TypeError(f"the result cannot be pickled: {error}")
        _leave_error(refused, _said(refused), result)
    return 0


def load(path: str) -> Any:
    import pickle

    with open(path, "rb") as file:
        file.readline()
        return pickle.load(file)


def read_head(path: str) -> dict[str, Any]:
    """The line before a pickle."""
    with open(path, "rb") as file:
        found: dict[str, Any] = json.loads(file.readline())
    return found


def head(raised: dict[str, str] | None = None) -> bytes:
    """The line before a pickle: which Python wrote it, and what was raised, in words."""
    said = {"python": list(sys.version_info[:2]), **({"raised": raised} if raised else {})}
    return json.dumps(said).encode() + b"\n"


def _said(error: BaseException) -> dict[str, str]:
    """An exception in words: its type, its message and its trace."""
    import traceback

    try:
        message = str(error)
    except Exception as trouble:
        message = f"(its message cannot be shown: {type(trouble).__name__})"
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    trace = "".join(traceback.format_exception(kind, error, error.__traceback__))
    return {"type": name, "message": message[:SAID_MOST], "trace": trace[-SAID_MOST:]}


def _unfit(path: str) -> str:
    """Why this interpreter must not load the call; code that was pickled by value is tied to a minor version."""
    wrote = tuple(read_head(path)["python"])
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


def _leave_error(error: BaseException, said: dict[str, str], path: str) -> None:
    """Leave an exception; where it cannot be pickled, what it said is left alone."""
    try:
        _leave({"error": error}, path, said)
    except Exception:
        _leave({"error": None}, path, said)


def _leave(value: Any, path: str, raised: dict[str, str] | None = None) -> None:
    """Write a pickle whole."""
    import cloudpickle

    content = cloudpickle.dumps(value)
    fresh = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.tmp")
    with open(fresh, "wb") as file:
        file.write(head(raised) + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
