"""Backup and restore with a running server, by round trip: from SQLite and a folder, from PostgreSQL and a bucket."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.store.protocol import Batch
from headway.store.sql import schema
from headway.store.sql.store import SqlStore
from tests.buckets import seaweed
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
    assert (tmp_path / "got/output/file.txt").read_text() == "kept\n"
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


def test_a_backup_from_postgresql_and_a_bucket_names_what_is_lost_and_copies_the_rest(
    living: Living, other: Path, postgres: Postgres, tmp_path: Path
) -> None:
    bucket, below = seaweed(), tmp_path.name
    living.env |= {"HEADWAY_STORE_URL": postgres.database(), "HEADWAY_LOCAL_NODES": "1"}
    living.env |= bucket.settings(living.home, f"{below}-a")
    jobs = [living.submit("--outputs", "output", "--", "bash", "-c", f"{WRITES}; echo {name}") for name in "abc"]
    assert [living.wait(each)["state"] for each in jobs] == ["succeeded"] * 3
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    assert json.loads(living.ok("server", "backup", str(whole), "--json"))["problems"] == {}

    # One object of storage is lost, another is damaged: both are named, and all others are copied.
    storage, store = bucket.open(f"{below}-a"), SqlStore.open(living.env["HEADWAY_STORE_URL"], migrating=False)
    lost, damaged = (store.logs(job)[-1] for job in jobs[:2])
    storage.put("logs/n1/damaged", b"y" * damaged.end)
    store.commit(Batch(drop_logs=[damaged], move_logs=[replace(damaged, key="logs/n1/damaged", key_offset=0)]))
    storage.put("logs/n1/lost", b"z")
    store.commit(Batch(drop_logs=[lost], move_logs=[replace(lost, key="logs/n1/lost", key_offset=0)]))
    storage.delete(["logs/n1/lost"])
    store.close()
    told = living.run("server", "backup", str(torn))
    assert told.returncode == 1
    assert "2 objects that the database names are missing or damaged" in told.stdout
    assert "missing: logs/n1/lost" in told.stdout
    assert "damaged: logs/n1/damaged" in told.stdout
    assert living.run("server", "backup", str(tmp_path / "again"), "--allow-missing").returncode == 0
    living.ok("server", "stop")

    # Back into another PostgreSQL and another place of the bucket.
    elsewhere = Living(other, tmp_path, {"HEADWAY_HOME": str(other), "HEADWAY_STORE_URL": postgres.database()})
    elsewhere.env |= bucket.settings(tmp_path, f"{below}-b")
    assert "3 jobs" in elsewhere.ok("server", "restore", str(whole))
    assert [elsewhere.log(job) for job in jobs] == [f"line 1\nline 2\nline 3\n{name}\n" for name in "abc"]
    elsewhere.ok("artifacts", "get", jobs[0], "-C", str(tmp_path / "got"))
    assert (tmp_path / "got/output/file.txt").read_text() == "kept\n"
    elsewhere.ok("server", "stop")

    # The torn one only when asked for; and what is not there is said where it would stand.
    elsewhere.env |= {"HEADWAY_STORE_URL": postgres.database(), **bucket.settings(tmp_path, f"{below}-c")}
    refused = elsewhere.run("server", "restore", str(torn))
    assert refused.returncode != 0
    assert "lacks 1 objects" in refused.stderr
    assert "storage had lost them when it was made" in refused.stderr
    assert "missing: logs/n1/lost" in elsewhere.ok("server", "restore", str(torn), "--allow-missing")
    for job in jobs[:2]:
        assert "storage has lost or damaged them" in elsewhere.ok("logs", job)
    assert elsewhere.log(jobs[2]).endswith("c\n")
    elsewhere.ok("server", "stop")


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
