"""Backup and restore with a running server, by round trip: from SQLite, and from there into PostgreSQL."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.store import schema
from headway.store.sql import SqlStore
from tests.living import Living
from tests.servers.cluster import Postgres

WRITES = "for i in 1 2 3; do echo line $i; done; mkdir -p output; echo kept > output/file.txt"


@pytest.fixture
def living(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    made = Living(headway_home, tmp_path)
    yield made
    made.end()


@pytest.fixture
def other() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="headway-"))
    yield place
    Living(place, place).end()
    shutil.rmtree(place, ignore_errors=True)


def test_a_backup_of_a_running_server_comes_back_whole_in_either_database(
    living: Living, other: Path, postgres: Postgres, tmp_path: Path
) -> None:
    (tmp_path / "code.py").write_text("print('bundled')")
    written = living.submit("--outputs", "output", "--", "bash", "-c", WRITES)
    bundled = living.submit("--bundle", "code.py")
    assert [living.wait(each)["state"] for each in (written, bundled)] == ["succeeded", "succeeded"]
    living.submit("--", "sleep", "100")  # Something is under way.
    copy = tmp_path / "copy"
    told = json.loads(living.ok("server", "backup", str(copy), "--json"))
    assert told["rows"]["jobs"] == 3
    assert told["objects"] >= 4  # Two logs, an artifact, a bundle with its file.
    assert "is there already" in living.run("server", "backup", str(copy)).stderr

    # Into PostgreSQL, with another folder for the objects.
    there = {"HEADWAY_HOME": str(other), "HEADWAY_STORE_URL": postgres.database()}
    elsewhere = Living(other, tmp_path, there)
    elsewhere.ok("server", "restore", str(copy))
    assert elsewhere.log(written) == "line 1\nline 2\nline 3\n"
    assert elsewhere.log(bundled) == "bundled\n"
    elsewhere.ok("artifacts", "get", written, "-C", str(tmp_path / "got"))
    assert (tmp_path / "got/file.txt").read_text() == "kept\n"
    assert json.loads(elsewhere.ok("ps", "-a", "--json"))
    assert "another server runs" in elsewhere.run("server", "restore", str(copy)).stderr
    elsewhere.ok("server", "stop")
    assert "is not empty" in elsewhere.run("server", "restore", str(copy)).stderr

    # A copy that lacks something is refused before anything is written.
    lost = next(path for path in (copy / "objects/logs").rglob("*") if path.is_file())
    lost.unlink()
    empty = Living(other / "x", tmp_path, {"HEADWAY_HOME": str(other / "x")})
    refused = empty.run("server", "restore", str(copy))
    assert refused.returncode != 0
    assert "lacks 1 objects" in refused.stderr


def test_a_shared_database_of_an_older_layout_is_refused_and_migrated_on_request(
    other: Path, postgres: Postgres, tmp_path: Path
) -> None:
    from headway.store.migrate import migrate

    url = postgres.database()
    migrate(url, "r0003")
    living = Living(other, tmp_path, {"HEADWAY_HOME": str(other), "HEADWAY_STORE_URL": url})
    refused = living.run("server", "start", "--foreground")
    assert refused.returncode != 0
    assert 'has the layout "r0003"' in refused.stderr
    assert "headway server migrate" in refused.stderr
    assert schema.REVISION in living.ok("server", "migrate")
    SqlStore.open(url, migrating=False).close()
