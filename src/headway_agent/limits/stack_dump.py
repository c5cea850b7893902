"""What the processes of a stalled task are doing: the stacks of all Python ranks, as far as this machine shows them.

py-spy where it is on the PATH; else what the rank itself writes when asked (the SDK's faulthandler); else the kernel's
view. Never ends anything.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

SPY_S_MAX = 20.0
ANSWER_S_MAX = 1.0
THREADS_MAX = 64
DUMP_BYTES_MAX = 1 << 20


def dump(pids: Iterable[int], directory: str, path: str) -> str:
    """The stacks of these processes, one after the other."""
    spy = shutil.which("py-spy", path=f"{path}:{os.path.dirname(sys.executable)}")
    pieces = []
    for pid in pids:
        command = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
        if command:
            pieces.append(f"=== process {pid}: {command[:300]}\n{_one(pid, command, directory, spy)}")
    return "\n".join(pieces)[:DUMP_BYTES_MAX]


def _one(pid: int, command: str, directory: str, spy: str | None) -> str:
    if "python" not in os.path.basename(_link(f"/proc/{pid}/exe")) and "python" not in command.split(" ")[0]:
        return _kernel(pid)
    said = _by_spy(pid, spy) if spy else ""
    return said or _by_itself(pid, directory) or _kernel(pid)


def _by_spy(pid: int, spy: str) -> str:
    try:
        done = subprocess.run(
            [spy, "dump", "--pid", str(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=SPY_S_MAX,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _by_itself(pid: int, directory: str) -> str:
    """A rank that has registered faulthandler for SIGUSR2 has made this file; without it, the signal would end it."""
    file = f"{directory}/sdk/stacks-{pid}.txt"
    if not os.path.isfile(file):
        return ""
    before = os.path.getsize(file)
    try:
        os.kill(pid, signal.SIGUSR2)
    except OSError:
        return ""
    give_up_at = time.monotonic() + ANSWER_S_MAX
    while os.path.getsize(file) == before and time.monotonic() < give_up_at:
        time.sleep(0.05)
    return _read(file)[before:]


def _kernel(pid: int) -> str:
    lines = []
    for thread in sorted(_names(f"/proc/{pid}/task"))[:THREADS_MAX]:
        place = f"/proc/{pid}/task/{thread}"
        state = next((line for line in _read(f"{place}/status").splitlines() if line.startswith("State:")), "State: ?")
        waits = _read(f"{place}/wchan").strip()
        lines.append(f"thread {thread} ({_read(f'{place}/comm').strip()}): {state[6:].strip()}, in {waits or '?'}")
        lines += [f"    {line}" for line in _read(f"{place}/stack").splitlines()]
    return "\n".join(lines) + "\n"


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (OSError, ValueError):
        return ""
