"""A whole server in this process, behind real HTTP: memory store, storage folder, control thread; agents are played."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.api.app import create_app
from headway.api.web.follower_proxy import LeaderStanding
from headway.api.web.http_server import http_server
from headway.api.web.services import Hub, Services
from headway.control.access.sealing import KeyRing
from headway.control.leader.cycle import Cycle
from headway.control.leader.election import Away
from headway.control.leader.thread import ControlThread
from headway.control.state.feature import Features
from headway.core.model import Pool
from headway.features.catalog import load
from headway.settings import Settings
from headway.storage.folder import FolderStorage
from headway.storage.protocol import Storage
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Store
from tests.builders import ENGINES
from tests.waiting import PATIENCE_S, wait_until

TOKEN = "secret"


class Answer:
    def __init__(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.status, self.headers, self.data = status, headers, data

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Serving:
    def __init__(
        self,
        folder: Path,
        store: Store | None = None,
        price: float = 0.0,
        storage: Storage | None = None,
        features: Features | None = None,
        **words: Any,
    ) -> None:
        self.store = store or MemoryStore()
        self.storage = storage or FolderStorage(folder)
        # A test that plays a node may be slow at it.
        self.settings = Settings(tick_every_s=0.1, **{"silent_after_s": 3600.0, "claim_within_s": 3600.0, **words})
        hub = Hub()
        pool = Pool("local", "local", nodes_min=1, lease_s=86400.0, price_per_hour=price)
        lead = self.store.take_lead("test", "", time.time(), 3600.0)
        assert lead is not None
        features = features or load()
        self.cycle = Cycle(
            self.store,
            self.settings,
            [pool],
            lead.epoch,
            time.monotonic(),
            hub.publish,
            engines=ENGINES,
            features=features,
        )
        self.control = ControlThread(self.cycle, lambda: None)
        numbers = itertools.count(1)
        self.services = Services(
            self.settings, self.store, self.storage, self.control, hub, TOKEN, b"", "", lambda: f"j{next(numbers)}",
            time.time(), time.time, time.monotonic, {"version": "0"},
            ring=KeyRing(folder.with_name(f"{folder.name}.keys")), features=features,
        )  # fmt: skip
        self._listen()

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._server = http_server(
            create_app(self.services), lambda: None, lambda: None, self.settings, self.services.has_sockets
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)

    def __enter__(self) -> Serving:
        self.control.start()
        self._thread.start()
        wait_until(lambda: self._server.started, what="the server")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.finish()
        self._thread.join(timeout=PATIENCE_S)
        self.control.stop()

    # --- as a user ---
    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {"Authorization": f"Bearer {TOKEN}", **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, f"/api/v1{path}", body)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.data[:500]!r}"
        return answer.json if answer.data else None

    def submit(self, **words: Any) -> str:
        job = {"command": ["python", "train.py"], "resources": {"cpus": 0.1}, **words}
        return str(self.ok("POST", "/jobs", {"job": job})["job"]["id"])

    # --- as an agent ---
    def sync(self, node: str = "n1", **words: Any) -> Any:
        body = {"protocol": 1, "node": node, "pool": "local", "boot_id": "b", "agent_epoch": 1, "wait_s": 0, **words}
        answer = self.ask("POST", "/agent/sync", body)
        assert answer.status == 200, answer.data
        return answer.json

    def join(self, node: str = "n1") -> None:
        self.sync(node, full=True, facts={"cpus": 8, "memory_bytes": 2**40})

    def duties(self, node: str = "n1") -> dict[str, Any]:
        """What the node shall do, by task, all of it."""
        return {each["task"]: each for each in self.sync(node, duties_digest="none")["duties"]}

    def until(self, node: str, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The duties of a node once they are as wanted."""

        def look() -> dict[str, Any] | None:
            duties = self.duties(node)
            return duties if found(duties) else None

        answer = wait_until(look, what="the duties")
        assert answer is not None
        return answer

    def start(self, task: str, node: str = "n1") -> Any:
        """See that a task is asked for, and claim it; returns the claim."""
        claim = self.until(node, lambda duties: task in duties)[task]
        self.sync(node, reports=[{"task": task, "phase": "claimed", "address": "h", "port": 1}])
        return claim

    def end(self, task: str, node: str = "n1", **outcome: Any) -> None:
        self.sync(node, reports=[{"task": task, "phase": "ended", "outcome": {"exit_code": 0, **outcome}}])

    def save(self, task: str, step: int, files: dict[str, bytes], node: str = "n1", **words: Any) -> str:
        """Put a checkpoint into storage as an agent does, and report it; returns its key."""
        job, attempt, index = task.split("/")
        entries = []
        for number, (path, content) in enumerate(files.items()):
            part = f"jobs/{job}/{attempt}/parts/{index}-{step}-{number}"
            self.storage.put(part, content)
            parts = [{"key": part, "offset": 0, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}]
            entries.append({"path": path, "size": len(content), "mode": 0o644, "parts": parts})
        key = f"jobs/{job}/{attempt}/checkpoints/{step}-{index}.json"
        self.storage.put(key, json.dumps({"version": 1, "step": step, "files": entries}).encode())
        size = sum(map(len, files.values()))
        said = {"task": task, "step": step, "how": "renamed", "key": key, "bytes": size, "files": len(files), **words}
        reply = self.sync(node, checkpoints=[said])
        assert reply["checkpoints_safe"] == {task: [step]}
        return key


class Follower(Serving):
    """A second server on the store and storage of one that leads: it answers, or passes on."""

    def __init__(self, leader: Serving) -> None:
        self.store, self.storage, self.settings = leader.store, leader.storage, leader.settings
        self.services = replace(
            leader.services, control=Away(lambda: leader.url), hub=Hub(), standing=LeaderStanding(False, leader.url)
        )
        self._listen()

    def __enter__(self) -> Follower:
        self._thread.start()
        wait_until(lambda: self._server.started, what="the follower")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.finish()
        self._thread.join(timeout=PATIENCE_S)
