"""Inside a job: tell of a checkpoint and of steps, find where to resume, hear a notice, log metrics, read parameters.

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
# Read once: between two steps of a training each look at the environment costs as much as writing a line.
_places: tuple[str, str, str] | None = None
# The end of a line of metrics, where this process is another rank than the file is of.
_line_end = "}\n"
# The metrics' file, while it is open: its descriptor, device and inode, and until when it need not be looked at again.
_metrics = (-1, 0, 0)
_sure_until = 0.0
# Where the newest step is noted, once a helper has: a page of memory that outlives the process.
_note: Any = None
# Names of metrics as they stand in a line.
_names: dict[str, str] = {}
NAMES_MAX = 10_000
NOTE_BYTES = 42
SURE_S = 0.5
HIGH_FD = 512


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
    file = _where()[1]
    if file and os.access(file, os.F_OK):
        return _read_notice(file)
    return Notice("signal", None) if _signalled else None


def log(metrics: Mapping[str, Any] | None = None, step: int | None = None, **more: Any) -> None:
    """Record metrics of a step: `headway.log({"loss": loss}, step=step)`. Without a step: one more than the last."""
    global _last_step
    if metrics is not None:
        if not hasattr(metrics, "keys"):
            said = f"{metrics!r:.80}"
            raise TypeError(f"log: expected names and values, not {said}; a step is given as step={said}")
        more = {**metrics, **more}
    if type(step) is not int or step < 0:
        step = _next_step(step)
    _last_step = step
    if not (_places or _where())[2]:
        return
    # By hand and in one place: it is done at every step, and by then none of it is in the processor's caches.
    line = ""
    for name, value in more.items():
        if type(value) is not float or value - value:
            value = plain(value)
        line += (_names.get(name) or _name(name)) + (repr(value) if type(value) is float else _json(value)) + ","
    now = time.time()
    data = f'{{"s":{step},"t":{now!r},"m":{{{line[:-1]}}}{_line_end}'.encode()
    if now < _sure_until:
        try:
            os.write(_metrics[0], data)
            return
        except OSError:
            pass
    _write_metrics(data, now)


def reached(step: int) -> None:
    """Note that so many steps are done. For helpers, at every step: it is a write to memory, and wakes nobody.

    The agent reads it now and then, and when the process has ended, however it did.
    """
    global _note
    if _note is None:
        _note = _open_note()
    if _note:
        _note[:NOTE_BYTES] = b"%020d %020d\n" % (step, step)


def _open_note() -> Any:
    """The note's memory; nothing outside a job, and where it cannot be had."""
    folder = _where()[0]
    if not folder:
        return b""
    import mmap

    try:
        os.makedirs(folder, exist_ok=True)
        fd = os.open(os.path.join(folder, "reached"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return b""
    try:
        os.write(fd, b"\n" * NOTE_BYTES)  # Room on the disk is taken here: later it could not be refused.
        return mmap.mmap(fd, NOTE_BYTES)
    except (OSError, ValueError):
        return b""
    finally:
        os.close(fd)


def _next_step(step: Any) -> int:
    """A step that was given as something else than a plain number, or not at all."""
    if step is not None:
        return _whole(step)
    resumed = os.environ.get("HEADWAY_RESUME_STEP")
    return (int(resumed) if _last_step < 0 and resumed else _last_step) + 1


def _name(name: Any) -> str:
    if len(_names) >= NAMES_MAX:
        _names.clear()
    made = _names[name] = _json(str(name)) + ":"
    return made


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


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


def _where() -> tuple[str, str, str]:
    """The folder of the SDK's files, the file of a notice, and that of metrics; empty outside a job."""
    global _places, _line_end
    if _places is None:
        look = os.environ.get
        metrics = look("HEADWAY_METRICS_FILE") or ""
        rank = look("RANK") or ""
        # A launcher in the job (torchrun, mpirun) has made several ranks of the one that it was started as.
        if rank.isdigit() and os.path.basename(metrics).partition(".")[0] != f"rank{rank}":
            _line_end = f',"r":{int(rank)}}}\n'
        _places = (look("HEADWAY_SDK_DIR") or "", look("HEADWAY_NOTICE_FILE") or "", metrics)
    return _places


def _append(name: str, told: Mapping[str, Any]) -> None:
    """One line in one write: ranks that share the file cannot tear each other's."""
    folder = _where()[0]
    if not folder:
        return
    try:
        fd = _open_to_append(os.path.join(folder, name))
    except OSError:
        return  # A full or broken disk must not end the training; the files themselves are still seen.
    try:
        os.write(fd, _json(told).encode() + b"\n")
    except OSError:
        pass
    finally:
        os.close(fd)


def _open_to_append(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o600)


def _write_metrics(data: bytes, now: float) -> None:
    """Into a file that stays open: opening it anew takes longer than writing a line.

    Whether it still is that file must be looked at: a script may close what it does not know, and another file may then
    have its number. Numbers are given from the lowest on, so one that is high is safe for the next moment.
    """
    global _metrics, _sure_until
    fd, device, inode = _metrics
    try:
        if fd < 0 or not _is_file(fd, device, inode):
            fd = _raised(_open_to_append(_where()[2]))
            found = os.fstat(fd)
            _metrics = (fd, found.st_dev, found.st_ino)
        _sure_until = now + SURE_S if fd >= HIGH_FD else 0.0
        os.write(fd, data)
    except OSError:
        pass  # A full or broken disk must not end the training.


def _is_file(fd: int, device: int, inode: int) -> bool:
    try:
        found = os.fstat(fd)
    except OSError:
        return False  # Closed by somebody.
    return found.st_ino == inode and found.st_dev == device and found.st_nlink > 0


def _raised(fd: int) -> int:
    """The same file with a high number, where the limit of open files allows one."""
    import fcntl

    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    except OSError:
        return fd
    os.close(fd)
    return high


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
    if not _listening:
        _listening = True
        _hear(also_instead_of_others=False)


def listen_alone() -> None:
    """Hear the notice's signal instead of a library that would end the training by itself, or wait for other ranks."""
    _hear(also_instead_of_others=True)


def _hear(also_instead_of_others: bool) -> None:
    if not os.environ.get("HEADWAY_JOB_ID"):
        return
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        return
    for name in {"SIGTERM", os.environ.get("HEADWAY_NOTICE_SIGNAL") or "SIGTERM"}:
        number = getattr(signal, name, None)
        if number is not None and (also_instead_of_others or signal.getsignal(number) is signal.SIG_DFL):
            signal.signal(number, lambda got, frame: _signalled.append((time.time(), got)))
