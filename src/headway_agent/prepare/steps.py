"""What must be there before a task can be claimed: its code, its data, its packages, its last checkpoint.

One list of steps, each done only where the claim asks for it, on a thread of its own: a task that asks for nothing
never comes here. The steps are in code.py, inputs.py, environments.py; the last is whatever `Site.restore` does.
"""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import dataclass, field

from headway_wire import causes
from headway_wire.claim import NO_PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Sequence

    from headway_agent.node.threads import Inbox
    from headway_agent.objects.read import Stored
    from headway_agent.server_link.http import ServerHome
    from headway_wire.claim import Claim, Program

AT_ONCE_MAX = 16  # Threads; most of them wait for the network or for each other.


class StepFailed(Exception):
    """It cannot be prepared, here or elsewhere. The cause is one of the server's."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class NotHere(Exception):
    """It cannot be prepared on this node, or not now; another one may do better. A cause says that it is in the job."""

    def __init__(self, detail: str, cause: str = "") -> None:
        super().__init__(detail)
        self.cause = cause


class UnusableCheckpoint(Exception):
    """The checkpoint to restore is not what its manifest says, or is gone."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(detail)
        self.key = key
        self.detail = detail


class Unwanted(Exception):
    """The task was given back meanwhile."""


@dataclass
class Site:
    """What a node has to prepare with."""

    cache_dir: str
    objects: Stored
    environ: Mapping[str, str]
    restore: Callable[[Work], None] | None = None
    home: ServerHome | None = None  # The server, for what is asked of it alone.


@dataclass
class Prepared:
    """What the steps have found out, for the launch."""

    cwd: str = ""  # Where the command runs; empty: where the claim says.
    env: dict[str, str] = field(default_factory=dict)
    python: str = ""  # Takes the place of a `python` at the head of the command.


@dataclass
class Work:
    """One task being prepared. `say` tells what is being done; `wanted` is false once nobody wants it any more."""

    claim: Claim
    directory: str
    site: Site
    say: Callable[[str], None] = lambda detail: None
    wanted: Callable[[], bool] = lambda: True
    prepared: Prepared = field(default_factory=Prepared)

    @property
    def key(self) -> str:
        return self.claim.task

    @property
    def asked(self) -> Program:
        return self.claim.progress

    @property
    def place(self) -> str:
        """The directory that holds the code: the unpacked bundle, or where the command runs in place."""
        return f"{self.directory}/work" if self.asked.bundle else self.claim.workdir

    def check(self) -> None:
        if not self.wanted():
            raise Unwanted


def _bundle(work: Work) -> None:
    from headway_agent.prepare import code

    code.unpack(work)


def _inputs(work: Work) -> None:
    from headway_agent.prepare import inputs

    inputs.provide(work)


def _secrets(work: Work) -> None:
    from headway_agent.prepare import secrets

    secrets.provide(work)


def _environment(work: Work) -> None:
    from headway_agent.prepare import environments

    environments.provide(work)


def _restore(work: Work) -> None:
    assert work.site.restore is not None
    work.site.restore(work)


# The words of `progress` that ask for a step, what is said meanwhile, and who does it.
STEPS: Sequence[tuple[Sequence[str], str, Callable[[Work], None]]] = (
    (("bundle", "subdir"), "unpacks the bundle", _bundle),
    (("inputs", "volumes"), "fetches its inputs", _inputs),
    (("environment",), "builds the environment", _environment),
    (("secrets",), "asks for its secrets", _secrets),
)


def needed(claim: Claim) -> bool:
    return claim.resume is not None or any(_asks(claim.progress, words) for words, _, _ in STEPS)


def _asks(program: Program, words: Sequence[str]) -> bool:
    return any(getattr(program, word) != getattr(NO_PROGRAM, word) for word in words)


def prepare(work: Work) -> Prepared:
    """Do what the claim asks for, and return what was found out. Raises what is named above."""
    for words, said, step in STEPS:
        if _asks(work.asked, words):
            work.check()
            work.say(said)
            step(work)
    if work.claim.resume is not None and work.site.restore is not None:
        work.check()
        work.say("restores its checkpoint")
        _restore(work)
    work.check()
    return work.prepared


def check_workdir(path: str) -> None:
    """See that ranks could run there. What may pass (a server of files that does not answer) stays an OSError."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise NotHere(f"there is no {path}", causes.WORKDIR_MISSING) from None
    except PermissionError:
        raise NotHere(f"the agent's user may not enter {path}", causes.PERMISSION_DENIED) from None
    if not stat.S_ISDIR(found.st_mode):
        raise NotHere(f"{path} is not a directory", causes.WORKDIR_MISSING)
    if not os.access(path, os.X_OK):
        raise NotHere(f"the agent's user may not enter {path}", causes.PERMISSION_DENIED)


def said_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__


def cache_dir(node_path: str, environ: Mapping[str, str]) -> str:
    """Beside the node's directory: nodes of one machine share it."""
    return environ.get("HEADWAY_AGENT_CACHE_DIR") or os.path.join(os.path.dirname(node_path), "cache")


class Preparations:
    """Threads that prepare, a bounded number; they end when there is nothing to do."""

    def __init__(self, inbox: Inbox, at_once_max: int = AT_ONCE_MAX) -> None:
        self._inbox = inbox
        self._at_once_max = at_once_max
        self._lock = threading.Lock()
        self._jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._threads = 0

    def begin(self, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Do the job on a thread; its result, or what it raised, is handed to `then` in the main loop."""
        with self._lock:
            self._jobs.append((job, then))
            if self._threads >= self._at_once_max:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="prepare", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._threads -= 1
                    return
                job, then = self._jobs.pop(0)
            try:
                result = job()
            except Exception as error:
                result = error
            self._inbox.put(then, result)
