"""One PostgreSQL for all tests of this process; servers, nodes and directories are each test's own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.cluster import Cluster, Postgres, start_postgres
from tests.system_users import local_nodes_of_another


@pytest.fixture(scope="package")
def postgres() -> Iterator[Postgres]:
    started = start_postgres()
    yield started
    started.end()


@pytest.fixture
def nodes_of_another() -> Iterator[dict[str, str]]:
    with local_nodes_of_another() as settings:
        yield settings


@pytest.fixture
def cluster(postgres: Postgres) -> Iterator[Callable[..., Cluster]]:
    """Makes a cluster with so many servers and settings; it is gone after the test."""
    made: list[Cluster] = []

    def make(servers: int, config: str = "", **settings: object) -> Cluster:
        given = {f"HEADWAY_{name.upper()}": str(value) for name, value in settings.items()}
        fresh = Cluster(Path(tempfile.mkdtemp(prefix="headway-")), postgres.database(), given, config=config)
        fresh.root.chmod(0o711)  # Local nodes may be another user's.
        made.append(fresh)
        fresh.add(servers)
        return fresh

    yield make
    for each in made:
        each.end()
        shutil.rmtree(each.root, ignore_errors=True)
