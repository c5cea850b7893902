"""A whole Headway in a private home: real server, agent, keeper and ranks, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.client.connection import embedded
from tests.waiting import wait_until

# A server that starts on a busy machine takes its time; who has met one waits as long for it to come back.
PATIENT = {"HEADWAY_AUTO_START_S_MAX": "180", "HEADWAY_SERVER_WAIT_S": "180"}
COMMAND_S_MAX = 600.0
HEADWAY = [sys.executable, "-m", "headway.cli.main"]


@dataclass
class Living:
    """A home in which commands are run, a place for scripts, and the means to end parts of it."""

    home: Path
    place: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        env = {**PATIENT, **os.environ, **self.env, **more.pop("env", {})}
        return subprocess.run(
            [*HEADWAY, *words], cwd=self.place, env=env, capture_output=True, text=True, timeout=COMMAND_S_MAX, **more
        )

    def ok(self, *words: str, **more: Any) -> str:
        done = self.run(*words, **more)
        assert done.returncode == 0, f"headway {' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def script(self, name: str, text: str) -> Path:
        path = self.place / name
        path.write_text(text)
        return path

    def submit(self, *words: str) -> str:
        return self.ok("run", "-d", "-o", "name", *words).strip()

    def job(self, job: str) -> dict[str, Any]:
        return dict(json.loads(self.ok("describe", job, "--json")))

    def wait(self, job: str) -> dict[str, Any]:
        self.run("wait", job)
        return self.job(job)

    def log(self, job: str, attempt: str = "last") -> str:
        return self.ok("logs", job, "--attempt", attempt)

    # --- processes ---

    def _pid(self, file: Path) -> int:
        try:
            said = json.loads(file.read_text())
        except (OSError, ValueError):
            return 0
        pid = int(said["pid"])
        return pid if start_of(pid) == int(said["start"]) else 0

    @property
    def server(self) -> int:
        return self._pid(self.home / "state/server.json")

    @property
    def agent(self) -> int:
        return self._pid(self.home / "state/nodes/local-1/agent.pid")

    @property
    def keeper(self) -> int:
        return self._pid(self.home / "state/nodes/local-1/keeper.pid")

    def kill(self, *pids: int, sign: int = signal.SIGKILL) -> None:
        for pid in pids:
            assert pid, "the process to kill is not there"
            os.kill(pid, sign)
        if sign == signal.SIGKILL:
            wait_until(lambda: all(start_of(pid) is None for pid in pids), what=f"the end of {pids}")

    def processes(self) -> list[int]:
        """Every process that belongs to this home, by its command line or environment."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                except OSError:
                    continue
                if os.fsencode(self.home) in said and start_of(int(entry.name)) is not None:
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        """End everything that was started here."""

        def gone() -> bool:
            for pid in self.processes():
                for sign in (signal.SIGKILL, signal.SIGCONT):
                    try:
                        os.kill(pid, sign)
                    except ProcessLookupError:
                        pass
            return not self.processes()

        wait_until(gone, what="the end of everything in this home")
        for child in embedded._children:  # Servers that the SDK has started from this very process.
            child.poll()


def start_of(pid: int) -> int | None:
    """When a process was started, in ticks since boot; None when it is gone or a zombie."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if words[0] in "ZX" else int(words[19])
