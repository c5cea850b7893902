"""Inside a job: tell of a checkpoint, find the one to resume from, hear a notice, log metrics, read parameters.

Outside a job each of these does nothing, or says that there is nothing. What travels stands in the files of
$HEADWAY_SDK_DIR, which the agent reads; see docs/explanation/keeping-progress.md.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping

# When a signal told of the end, and its number; a list, so that the handler only appends.
_signalled: list[tuple[float, int]] = []
_listening = False
_last_step = -1
# By path: its descriptor, and the device and inode that it was opened on.
_files: dict[str, tuple[int, tuple[int, int]]] = {}


class Resume:
    """Where this attempt goes on: the step that the checkpoint was saved at, and the directory that holds it."""

    __slots__ = ("dir", "step")

    def __init__(self, step: int, dir: str) -> None:
        self.step = step
        self.dir = dir

    def __fspath__(self) -> str:
        return self.dir

    def __repr__(self) -> str:
        return f"Resume(step={self.step}, dir={self.dir!r})"

    def path(self, *names: str) -> str:
        """A file in the checkpoint."""
        return os.path.join(self.dir, *names)


class Notice:
    """The end is near. Always true; `seconds_left` counts down, and is None where nobody said how long."""

    __slots__ = ("_ends_at", "cause")

    def __init__(self, cause: str, ends_at: float | None) -> None:
        self.cause = cause
        self._ends_at = ends_at

    @property
    def seconds_left(self) -> float | None:
        return None if self._ends_at is None else max(0.0, self._ends_at - time.time())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Notice(cause={self.cause!r}, seconds_left={self.seconds_left})"


class Checkpointable:
    """A call that can be interrupted: on a notice `checkpoint` is asked what to call in the next attempt.

    Any object with `__call__` and `checkpoint` will do; this class only names the two. By default the object itself, as
    it is by then, is called again with the same arguments.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        return self


def checkpoint_dir() -> str | None:
    """The directory whose files become checkpoints; None outside a job."""
    return os.environ.get("HEADWAY_CHECKPOINT_DIR") or None


def checkpoint(step: int, path: Any = None, metrics: Mapping[str, Any] | None = None) -> None:
    """Tell that the checkpoint of a step is complete: `path`, or all that lies in the checkpoint directory.

    A relative path is one in the checkpoint directory. What an absolute path names elsewhere is copied there first.
    """
    step = _whole(step)
    folder = checkpoint_dir()
    if folder is None:
        return
    inner = "." if path is None else _inside(os.fspath(path), folder)
    told: dict[str, Any] = {"step": step, "path": inner, "at": time.time(), "newest_ns": _newest_ns(folder, inner)}
    if metrics:
        told["metrics"] = {str(name): plain(value) for name, value in metrics.items()}
    _append("declared.jsonl", told)


def resume() -> Resume | None:
    """The checkpoint to go on from; None at a fresh start, and outside a job."""
    step, folder = os.environ.get("HEADWAY_RESUME_STEP"), checkpoint_dir()
    if not step or folder is None:
        return None
    return Resume(int(step), folder)


def stop_requested() -> Notice | None:
    """The notice that this job will be ended soon, or None. Cheap enough to ask at every step.

    From the first call on, the signal that comes with a notice no longer ends the process: save, then end by yourself.
    """
    _listen()
    file = os.environ.get("HEADWAY_NOTICE_FILE")
    if file:
        try:
            os.stat(file)
        except OSError:
            pass
        else:
            return _read_notice(file)
    return Notice("signal", None) if _signalled else None


def log(metrics: Mapping[str, Any] | None = None, step: int | None = None, **more: Any) -> None:
    """Record metrics of a step: `headway.log({"loss": loss}, step=step)`. Without a step: one more than the last."""
    global _last_step
    if metrics is not None and not hasattr(metrics, "keys"):
        raise TypeError(f"log: expected names and values, not {metrics!r:.80}; a step is given as step={metrics!r:.80}")
    if step is None:
        if _last_step < 0 and os.environ.get("HEADWAY_RESUME_STEP"):
            _last_step = int(os.environ["HEADWAY_RESUME_STEP"])
        step = _last_step + 1
    _last_step = _whole(step)
    told: dict[str, Any] = {str(name): plain(value) for name, value in {**(metrics or {}), **more}.items()}
    told["step"] = _last_step
    told["at"] = time.time()
    _append("metrics.jsonl", told)


def params(**defaults: Any) -> dict[str, Any]:
    """The job's parameters over the given defaults: `headway.params(lr=0.1)["lr"]`."""
    text = os.environ.get("HEADWAY_PARAMS")
    if not text:
        return defaults
    import json

    return {**defaults, **json.loads(text)}


def plain(value: Any) -> Any:
    """A number out of whatever a library calls one; what is not finite as text, since JSON has no word for it."""
    item = getattr(value, "item", None)
    if callable(item):
        value = item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        return plain(float(value))
    except (TypeError, ValueError):
        return str(value)


def _whole(step: Any) -> int:
    step = plain(step)
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"step: {step!r} is not a whole number from 0 on")
    return step


def _inside(path: str, folder: str) -> str:
    """The path relative to the checkpoint directory; what lies elsewhere is brought there under its own name."""
    there = os.path.realpath(folder)
    # Not relative to the working directory: an old file of that name, left there, would take the place of the new one.
    full = os.path.realpath(os.path.join(there, path))
    if not os.path.exists(full):
        raise FileNotFoundError(
            f"no checkpoint {path!r} in {folder}; give an absolute path for one that lies elsewhere"
        )
    if full == there:
        return "."
    if full.startswith(there + os.sep):
        return os.path.relpath(full, there)
    name = os.path.basename(full)
    _bring(full, os.path.join(there, name))
    return name


def _newest_ns(folder: str, inner: str) -> int:
    """When the newest of these files was last written: what is written after that is not part of what is told."""
    top = os.path.join(folder, inner)
    newest = 0
    for path in [top] if not os.path.isdir(top) else _files_below(top):
        try:
            newest = max(newest, os.lstat(path).st_mtime_ns)
        except OSError:
            pass  # Removed by another rank just now.
    return newest


def _files_below(top: str) -> Iterator[str]:
    for above, _, names in os.walk(top):
        for name in names:
            yield os.path.join(above, name)


def _bring(source: str, target: str) -> None:
    """Copy so that the target is there whole or not at all. Names with a dot before them count as half-written."""
    import shutil

    folder, name = os.path.split(target)
    fresh = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    if os.path.isdir(source):
        shutil.copytree(source, fresh)
        if os.path.isdir(target):
            old = os.path.join(folder, f".{name}.{os.getpid()}.old.tmp")
            os.rename(target, old)
            os.rename(fresh, target)
            shutil.rmtree(old)
            return
    else:
        shutil.copyfile(source, fresh)
    os.rename(fresh, target)


def _append(name: str, told: Mapping[str, Any]) -> None:
    """One line in one write: ranks that share the file cannot tear each other's."""
    folder = os.environ.get("HEADWAY_SDK_DIR")
    if not folder:
        return
    import json

    line = json.dumps(told).encode() + b"\n"
    try:
        os.write(_opened(os.path.join(folder, name)), line)
    except OSError:
        pass  # A full or broken disk must not end the training; the files themselves are still seen.


def _opened(path: str) -> int:
    """The file, open for appending. It stays open: opening it anew takes longer than writing the line.

    Whether it still is that file is looked at each time: a script may close what it does not know, and its next file
    then has the same number.
    """
    fd, was = _files.get(path, (-1, None))
    if was is not None:
        try:
            now = os.fstat(fd)
            if (now.st_dev, now.st_ino) == was and now.st_nlink:
                return fd
        except OSError:
            pass  # Closed by somebody.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, flags, 0o600)
    made = os.fstat(fd)
    _files[path] = (fd, (made.st_dev, made.st_ino))
    return fd


def _read_notice(file: str) -> Notice:
    import json

    try:
        with open(file, "rb") as said:
            told = json.loads(said.read())
        left = told.get("seconds_left")
        begun = float(told.get("at") or os.stat(file).st_mtime)
        return Notice(str(told.get("cause") or "stop"), None if left is None else begun + float(left))
    except (OSError, ValueError, TypeError, AttributeError):
        return Notice("stop", None)


def _listen() -> None:
    """Hear the notice's signal, where nobody else does: unheard, it would end the process before it could save."""
    global _listening
    if _listening:
        return
    _listening = True
    if not os.environ.get("HEADWAY_JOB_ID"):
        return
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        return
    for name in {"SIGTERM", os.environ.get("HEADWAY_NOTICE_SIGNAL") or "SIGTERM"}:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda got, frame: _signalled.append((time.time(), got)))
