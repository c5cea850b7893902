"""Nothing that a run of the tests starts outlives it, however the run ends: a process beside it sees to that.

All temporary directories of a run lie in one, its ground. Whatever the tests start names it, on its command line or in
its environment (TMPDIR), and is ended with the run; so are network namespaces and small disks. Standard library only:
the process beside the run is this very file.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.waiting import wait_until

SHARED_TMP = "HEADWAY_TEST_SHARED_TMP"  # Names the directory for what several runs at once must agree on: locks.
WELL = b"well"  # The run says so when it ended by itself: then what is still ending has a moment for it.
ENDING_S = float(os.environ.get("HEADWAY_TEST_ENDING_S") or 5.0)
ROOT = Path(__file__).resolve().parents[1]


def shared_tmp() -> Path:
    """The machine's own directory for temporary files, also where this run has one of its own."""
    return Path(os.environ.get(SHARED_TMP) or tempfile.gettempdir())


class Guard:
    """The ground of one run, and the process that clears it."""

    def __init__(self) -> None:
        os.environ[SHARED_TMP] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(shared_tmp())
        # Short: the path of a Unix socket below it may have 107 bytes at most.
        self.ground = Path(tempfile.mkdtemp(prefix="hwt-", dir=shared_tmp()))
        self.ground.chmod(0o755)  # PostgreSQL and Slurm may run as other users.
        words = [sys.executable, "-S", "-m", "tests.leftovers", str(self.ground)]
        # In a session of its own: Ctrl-C is not meant for it.
        self._process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.ground)

    def end(self) -> list[str]:
        """Clear the ground. Returns the command lines of what the tests had left running."""
        tempfile.tempdir = None
        os.environ["TMPDIR"] = str(shared_tmp())
        return self._process.communicate(WELL.decode())[0].splitlines()


# --- the process beside the run -------------------------------------------------------------------------------------


def main(ground: str) -> None:
    well = sys.stdin.buffer.read() == WELL
    try:
        wait_until(lambda: not standing(ground), ENDING_S if well else 0.0)
    except AssertionError:
        for pid in standing(ground) if well else ():  # Else nobody is there to read it.
            print(pid, words_of(pid), flush=True)
    wait_until(lambda: not end(standing(ground)), what="the end of what the tests have left")
    for lab in Path(ground).glob("hwlab-*-*"):
        take_down(int(lab.name.split("-")[1]))
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in [mount for mount in mounts if mount.startswith(f"{ground}/")]:
        subprocess.run(["umount", "-l", mount], capture_output=True)
    shutil.rmtree(ground, ignore_errors=True)


def standing(ground: str) -> list[int]:
    """Every process that names the ground."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                said = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if os.fsencode(ground) in said and state not in "ZX":
                found.append(int(entry.name))
    return found


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "(gone)"


def end(pids: list[int]) -> list[int]:
    """Kill all of these; returns them."""
    for pid in pids:
        for sign in (signal.SIGKILL, signal.SIGCONT):
            try:
                os.kill(pid, sign)
            except OSError:
                pass
    return pids


def take_down(number: int) -> None:
    """The namespaces and the cable of a lab (netlab.py), unless another run has its number by now."""
    with open(shared_tmp() / f"headway-netlab-{number}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        remove_lab(number)


def remove_lab(number: int) -> None:
    """End all that runs in the lab of this number, and take it down."""
    listed = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]
    ours = [name for name in listed if name == f"hw{number}sw" or name.startswith(f"hw{number}h")]
    pids = lambda: [int(pid) for name in ours for pid in _ip("netns", "pids", name).split()]  # noqa: E731
    wait_until(lambda: not end(pids()), what=f"the end of everything in lab {number}")
    for name in ours:
        _ip("netns", "del", name)
    _ip("link", "del", f"hw{number}c")


def _ip(*words: str) -> str:
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    return subprocess.run(["ip", *words], capture_output=True, text=True, env=env).stdout


if __name__ == "__main__":
    main(sys.argv[1])
