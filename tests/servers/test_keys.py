"""A copy of the database opens nothing: the keys that sign are in a file beside it. With real servers."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from headway.control.access.sealing import KeyRing
from headway.control.access.signing_keys import house_of_before, signer_of
from headway.core.access.tokens import LABELS, NODE, derived
from headway.core.errors import OperatorError
from headway.features.catalog import load
from headway.features.secrets.tables import SECRETS
from headway.store.sql.store import SqlStore
from tests.living import Living
from tests.servers.cluster import Postgres
from tests.waiting import wait_until

NODE_NAME = "local-1"


@pytest.fixture
def living(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    made = Living(headway_home, tmp_path)
    yield made
    made.end()


def url_of(living: Living) -> str:
    return str(json.loads((living.home / "state/server.json").read_text())["url"])


def asked(living: Living, token: str, path: str = "/agent.pyz") -> int:
    """What the server answers to whoever shows this token."""
    where = urlsplit(url_of(living))
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def signed(key: bytes, kind: str, name: str) -> str:
    import hmac

    def text(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    return f"{kind}_{text(name.encode())}.{text(hmac.digest(key, f'{kind}:{name}'.encode(), 'sha256'))}"


def readings(value: object) -> Iterator[bytes]:
    """All that one value of a database could be as a key."""
    if isinstance(value, bytes):
        yield value
    text = str(value)
    yield text.encode()
    for read in (bytes.fromhex, base64.b64decode, base64.urlsafe_b64decode):
        try:
            yield read(text + "=" * (-len(text) % 4) if read is not bytes.fromhex else text)
        except ValueError:
            continue


def forged(values: Iterable[object]) -> Iterator[str]:
    """Tokens that whoever has these values could make: as they are, or made from them as our keys are."""
    for value in {each for each in values if len(str(each)) >= 12}:
        yield str(value)
        for key in readings(value):
            for kind in (NODE, "hws", "hwe"):
                yield signed(key, kind, NODE_NAME)
            for kind, label in LABELS.items():
                yield signed(derived(key, label), kind, NODE_NAME)


def values_of_sqlite(path: Path) -> list[object]:
    with sqlite3.connect(path) as copy:
        tables = [row[0] for row in copy.execute("select name from sqlite_master where type = 'table'")]
        return [value for table in tables for row in copy.execute(f'select * from "{table}"') for value in row]


def check_nothing_opens(living: Living, values: list[object]) -> None:
    keys = KeyRing(living.home / "config/secrets.keys").keys()
    tokens = [each for each in forged(values) if each.isascii() and each.isprintable()]
    assert len(tokens) > 50
    assert [each for each in tokens if signer_of(keys).bearer(each)] == []
    assert {asked(living, each) for each in tokens[:: len(tokens) // 50]} == {401}
    # The same attempts with the key file: this test can fail.
    own = list(forged([next(iter(keys.values()))]))
    assert [each for each in own if each.isascii() and signer_of(keys).bearer(each)] != []
    assert 200 in {asked(living, each) for each in own if each.isascii()}


def test_nothing_in_a_copy_of_sqlite_signs_what_the_server_accepts(living: Living, tmp_path: Path) -> None:
    job = living.submit("--", "true")
    assert living.wait(job)["state"] == "succeeded"
    living.ok("secret", "set", "hf", input="hf_abcdefgh\n")
    copy = tmp_path / "copy"
    shutil.copytree(living.home / "data", copy)
    values = values_of_sqlite(copy / "headway.db")
    check_nothing_opens(living, values)

    # Nor is a key in the files themselves, in whatever spelling.
    raw = b"".join(path.read_bytes() for path in sorted(copy.rglob("headway.db*")))
    for key in KeyRing(living.home / "config/secrets.keys").keys().values():
        for spelled in (key, key.hex().encode(), base64.b64encode(key)):
            assert spelled not in raw
    assert (living.home / "config/secrets.keys").stat().st_mode & 0o777 == 0o600

    # Restored elsewhere, without the key file, it is a server of its own: nothing that it signs is good here.
    backup = tmp_path / "backup"
    living.ok("server", "backup", str(backup))
    with tempfile.TemporaryDirectory(prefix="headway-") as place:
        thief = Living(Path(place), tmp_path, {"HEADWAY_HOME": place})
        try:
            thief.ok("server", "restore", str(backup))
            thief.ok("ps")
            stolen = signer_of(KeyRing(Path(place) / "config/secrets.keys").keys()).token_for(NODE_NAME)
            assert asked(thief, stolen) == 200
            assert asked(living, stolen) == 401
            store = SqlStore.open(f"sqlite:///{copy / 'headway.db'}", layouts=load().layouts)
            (secret,) = store.rows(SECRETS)
            store.close()
            with pytest.raises(OperatorError, match="does not have"):
                KeyRing(Path(place) / "config/secrets.keys").open(secret)
        finally:
            thief.end()


def test_nothing_in_a_dump_of_postgresql_signs_what_the_server_accepts(living: Living, postgres: Postgres) -> None:
    store_url = postgres.database()
    living.env |= {"HEADWAY_STORE_URL": store_url, "HEADWAY_LOCAL_NODES": "1"}
    assert living.wait(living.submit("--", "true"))["state"] == "succeeded"
    with psycopg.connect(store_url) as connection:
        named = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        dumped = [connection.execute(f'select * from "{name}"'.encode()).fetchall() for (name,) in named]
    check_nothing_opens(living, [value for row in itertools.chain(*dumped) for value in row])

    # Another server of this database needs the same file, and is told so.
    with tempfile.TemporaryDirectory(prefix="headway-") as place:
        other = Living(Path(place), Path(place), {**living.env, "HEADWAY_HOME": place})
        refused = other.run("server", "start", "--foreground")
        assert refused.returncode != 0
        assert "there is no key file" in refused.stderr
        (Path(place) / "config").mkdir(exist_ok=True)
        with open(Path(place) / "config/secrets.keys", "w") as file:
            subprocess.run(["chmod", "600", file.name], check=True)
            file.write(other.ok("secret", "new-key"))
        refused = other.run("server", "start", "--foreground")
        assert refused.returncode != 0
        assert "with which the servers of this database sign" in refused.stderr


def test_the_key_of_a_database_of_before_is_moved_out_and_its_nodes_go_on(living: Living) -> None:
    job = living.submit("--", "sleep", "1000")
    wait_until(lambda: living.job(job)["state"] == "running", what="the job to run")
    living.ok("server", "stop")
    old = bytes(range(32))
    database = living.home / "data/headway.db"
    store = SqlStore.open(f"sqlite:///{database}")
    for name in ("key-check", "house"):
        store.put_shared_value(name, "")
    store.put_shared_value("node-tokens", old.hex())
    store.close()
    living.ok("server", "start")
    store = SqlStore.open(f"sqlite:///{database}")
    assert store.shared_value("node-tokens") == ""
    assert store.shared_value("house") == house_of_before(old)
    store.close()
    assert old.hex().encode() not in b"".join(path.read_bytes() for path in database.parent.glob("headway.db*"))
    # A node's token of before is good for a while; a server's is good for nothing, nor is the old key for new uses.
    assert asked(living, signed(old, NODE, NODE_NAME)) == 200
    assert asked(living, signed(old, "hws", "thief"), "/api/v1/jobs") == 401
    assert asked(living, signed(derived(old, LABELS[NODE]), NODE, NODE_NAME)) == 401
    assert living.job(job)["state"] == "running"
    living.ok("stop", job, "--grace", "0")


def sealed_by(living: Living) -> list[str]:
    """The ids of the keys that sign and are accepted."""
    return [line.split()[0] for line in (living.home / "config/secrets.keys").read_text().splitlines()]


def test_keys_are_rotated_under_a_running_job_and_old_ones_open_nothing(living: Living) -> None:
    living.ok("secret", "set", "hf", input="hf_abcdefgh\n")
    job = living.submit("--", "sleep", "1000")
    wait_until(lambda: living.job(job)["state"] == "running", what="the job to run")
    agent, (before,) = living.agent, sealed_by(living)
    stolen = signer_of(KeyRing(living.home / "config/secrets.keys").keys()).token_for(NODE_NAME)
    assert asked(living, stolen) == 200
    living.ok("server", "rotate-keys")
    assert sealed_by(living)[1:] == [before]
    assert asked(living, stolen) == 200, "good until the rotation is finished"
    wait_until(lambda: living.run("server", "rotate-keys", "--finish").returncode == 0, what="nodes with new tokens")
    assert len(sealed_by(living)) == 1
    wait_until(lambda: asked(living, stolen) == 401, what="the old token to be refused")
    done = living.submit("--secret", "HF=hf", "--", "sh", "-c", "test $HF = hf_abcdefgh")
    assert living.wait(done)["state"] == "succeeded"
    assert (living.agent, living.job(job)["state"]) == (agent, "running")
    living.ok("server", "restart")
    assert living.wait(living.submit("--", "true"))["state"] == "succeeded"
    assert [each["number"] for each in living.job(job)["attempts"]] == [1]
    living.ok("stop", job, "--grace", "0")


def test_a_nodes_token_can_be_revoked_and_the_node_goes_on_with_another(living: Living) -> None:
    job = living.submit("--", "sleep", "1000")
    wait_until(lambda: living.job(job)["state"] == "running", what="the job to run")
    agent = living.agent
    stolen = signer_of(KeyRing(living.home / "config/secrets.keys").keys()).token_for(NODE_NAME)
    assert asked(living, stolen) == 200
    assert "it is handed a new one" in living.ok("nodes", "revoke", NODE_NAME)
    assert asked(living, stolen) == 401
    assert living.wait(living.submit("--", "true"))["state"] == "succeeded"
    assert (living.agent, living.job(job)["state"]) == (agent, "running")
    living.ok("server", "restart")
    assert asked(living, stolen) == 401, "for good"
    assert living.wait(living.submit("--", "true"))["state"] == "succeeded"
    assert "no node" in living.run("nodes", "revoke", "nobody-1").stderr
    living.ok("stop", job, "--grace", "0")
