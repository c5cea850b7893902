"""An agent that only takes its node and stays: enough to try how an engine starts, finds and releases agents.

It is packed as the `__main__.py` of a zipapp, and keeps the real one's command line and files.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
from pathlib import Path


def start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def main() -> int:
    word, options = sys.argv[1], dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    node_dir = Path(options["--node-dir"])
    pid_file = node_dir / "agent.pid"
    if word == "release":
        end(pid_file)
        return 0
    lock = open(node_dir / "agent.lock", "w")  # noqa: SIM115 (held until the end)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 3
    if (node_dir / "fail").exists():
        sys.exit("this node is made to fail")
    fresh = node_dir / "agent.pid.new"
    fresh.write_text(json.dumps({"pid": os.getpid(), "start": start_of(os.getpid())}))
    fresh.replace(pid_file)
    (node_dir / "begun.json").write_text(json.dumps({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}))
    signal.pause()
    return 0


def end(pid_file: Path) -> None:
    try:
        fact = json.loads(pid_file.read_text())
        handle = os.pidfd_open(fact["pid"])
        if start_of(fact["pid"]) == fact["start"]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [])
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    sys.exit(main())
