"""Starting one rank with posix_spawn: its program found by its own PATH, its output straight to its files.

What cannot be started becomes an exit code (127, 126) and a sentence in the rank's own output, as a shell would do it.
"""

from __future__ import annotations

import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
SIGNALS_RESET = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
OUTPUT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class CannotStart(Exception):
    """The rank could not be started; the exit code is the one that a shell would give."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def start(rank: Mapping[str, Any], env: Mapping[str, str], before: Sequence[str] = ()) -> int:
    """Start a rank and return its pid. Changes the caller's working directory: call it from a single thread.

    `before`: a command that sets something in the rank's own process and then becomes the program that follows it.
    """
    try:
        _open_once(rank)
        return _start(rank, env, before)
    except CannotStart as problem:
        _say(rank["out"], str(problem))
        raise


def _open_once(rank: Mapping[str, Any]) -> None:
    """Fail with a sentence of ours where the output cannot be written; posix_spawn would only give a number."""
    directory = os.path.dirname(rank["out"])
    if not os.path.isdir(directory):
        raise CannotStart(126, f"headway: no directory for the output: {directory}")


def _start(rank: Mapping[str, Any], env: Mapping[str, str], before: Sequence[str]) -> int:
    argv = rank["argv"]
    try:
        os.chdir(rank["cwd"])
    except (OSError, ValueError) as error:
        from headway_agent.decide.outcomes import NO_ENTRY  # The keeper does without it otherwise.

        reason = getattr(error, "strerror", None) or str(error)
        raise CannotStart(126, f"{NO_ENTRY} {rank['cwd']}: {reason}") from None
    program = find_program(argv[0], env.get("PATH") or DEFAULT_PATH)
    try:
        if before:
            return _spawn(before[0], [*before, program, *argv[1:]], env, rank)
        try:
            return _spawn(program, argv, env, rank)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return _spawn("/bin/sh", ["/bin/sh", program, *argv[1:]], env, rank)
    except ValueError as error:
        raise CannotStart(126, f"headway: cannot start {argv[0]}: {error}") from None
    except OSError as error:
        raise CannotStart(*_sentence(argv[0], program, error)) from None


def _sentence(name: str, program: str, error: OSError) -> tuple[int, str]:
    if error.errno == errno.ENOENT:
        # The file is there, so it is its interpreter (the line after #!) that is not.
        return 127, f"headway: cannot start {name}: the interpreter that {program} names was not found"
    if error.errno == errno.E2BIG:
        return 126, f"headway: cannot start {name}: its arguments and environment are too large for this system"
    return 126, f"headway: cannot start {name}: {error.strerror}"


def find_program(name: str, path: str) -> str:
    """The file to run, as a shell would find it; CannotStart with 127 or 126 where there is none."""
    if "/" in name:
        candidates = [name]
    else:
        candidates = [os.path.join(folder or ".", name) for folder in path.split(":")]
    found = ""
    for candidate in candidates:
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            found = found or candidate
    if found:
        raise CannotStart(126, f"headway: not executable: {found}")
    if "/" in name and os.path.isdir(name):
        raise CannotStart(126, f"headway: not executable: {name} is a directory")
    raise CannotStart(127, f"headway: command not found: {name}")


def _spawn(program: str, argv: list[str], env: Mapping[str, str], rank: Mapping[str, Any]) -> int:
    actions: list[Any] = [
        (os.POSIX_SPAWN_OPEN, 0, rank.get("stdin") or "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, rank["out"], OUTPUT_FLAGS, 0o600),
    ]
    if rank.get("err"):
        actions.append((os.POSIX_SPAWN_OPEN, 2, rank["err"], OUTPUT_FLAGS, 0o600))
    else:
        actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
    return os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigmask=[], setsigdef=SIGNALS_RESET)


def _say(path: str, sentence: str) -> None:
    try:
        fd = os.open(path, OUTPUT_FLAGS | os.O_CLOEXEC, 0o600)
    except OSError:
        return  # The same sentence is in the outcome.
    try:
        os.write(fd, sentence.encode("utf-8", "surrogateescape") + b"\n")
    except OSError:
        pass  # A full disk: the outcome has the sentence.
    finally:
        os.close(fd)
