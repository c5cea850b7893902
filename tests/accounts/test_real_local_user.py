"""Where people sign in, jobs on the server's own machine run as another system user, who can read none of its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import Living
from tests.system_users import a_place_for_nodes, a_system_user
from tests.waiting import wait_until

pytestmark = pytest.mark.real

# What a member would try: the files by their names, and the server's memory.
STEAL = """
id -un
for each in state/token state/server.json config/secrets.keys config/config.toml data/headway.db; do
  cat "$0/$each"
done
for each in /proc/[0-9]*/environ; do cat "$each"; done
true
"""


@pytest.fixture
def person() -> Iterator[str]:
    with a_system_user() as name:
        yield name


@pytest.fixture
def shared(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    made = Living(headway_home, tmp_path, {"HEADWAY_ACCOUNTS": "on"})
    # Everybody may come as far as the home itself, as to /var/lib/headway.
    for place in (headway_home, headway_home.parent):
        place.chmod(0o711)
    yield made
    made.end()


@pytest.fixture
def nodes() -> Iterator[str]:
    with a_place_for_nodes() as place:
        yield place


def secrets_of(living: Living) -> list[str]:
    token = (living.home / "state/token").read_text().strip()
    keys = [line.split()[1] for line in (living.home / "config/secrets.keys").read_text().splitlines()]
    return [token, *keys]


def test_local_nodes_are_off_unless_asked_for_and_then_need_a_user(shared: Living) -> None:
    shared.ok("server", "start")
    assert json.loads(shared.ok("pool", "ls", "--json"))["pools"] == []
    refused = shared.run("pool", "set", "local", "engine=local", "nodes=1")
    assert refused.returncode != 0
    assert "could read its keys and tokens" in refused.stderr
    shared.ok("server", "stop")
    for more, says in (
        ({}, "could read its keys and tokens"),
        ({"HEADWAY_LOCAL_USER": "nobody-of-this-name"}, "there is no system user"),
        ({"HEADWAY_LOCAL_USER": "root"}, "root"),
    ):
        refused = shared.run("server", "start", "--foreground", env={"HEADWAY_LOCAL_NODES": "1", **more})
        assert refused.returncode != 0
        assert says in refused.stderr


def test_a_user_who_can_read_the_servers_files_is_refused_by_name(person: str, shared: Living) -> None:
    shared.ok("server", "start")
    shared.ok("server", "stop")
    keys = shared.home / "config/elsewhere.keys"
    asked = {"HEADWAY_LOCAL_NODES": "1", "HEADWAY_LOCAL_USER": person, "HEADWAY_TLS_KEY_FILE": str(shared.home / "key")}
    asked["HEADWAY_TLS_CERT_FILE"] = asked["HEADWAY_TLS_KEY_FILE"]
    (shared.home / "key").write_text("private")
    (shared.home / "key").chmod(0o644)
    refused = shared.run("server", "start", "--foreground", env=asked)
    assert refused.returncode != 0
    assert f'"{person}" can read {shared.home / "key"}' in refused.stderr
    assert not keys.exists()


def test_a_members_job_cannot_print_the_servers_token(person: str, nodes: str, shared: Living) -> None:
    shared.env |= {"HEADWAY_LOCAL_NODES": "1", "HEADWAY_LOCAL_USER": person, "HEADWAY_LOCAL_DIR": nodes}
    shared.ok("server", "start")
    shared.ok("project", "add", "vision")
    mel = shared.ok("user", "add", "mel", "--project", "vision", "-q").strip().splitlines()[-1]
    member = {
        "HEADWAY_TOKEN": mel,
        "HEADWAY_SERVER_URL": json.loads((shared.home / "state/server.json").read_text())["url"],
    }
    (shared.place / "code.py").write_text("")
    done = shared.run("run", "--bundle", "--", "sh", "-c", STEAL, str(shared.home), env=member)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert person in said.splitlines()
    assert "Permission denied" in said
    for secret in secrets_of(shared):
        assert secret not in said
    assert "hwn_" not in said
    # The job works as any other: what it writes is kept, though the server's folder is not its user's.
    words = ("run", "-d", "-o", "name", "--bundle", "--outputs", "out", "--", "sh", "-c", "mkdir out; id -un > out/who")
    job = shared.ok(*words, env=member).strip()
    assert shared.wait(job)["state"] == "succeeded"
    shared.ok("artifacts", "get", job, "-C", str(shared.place / "got"))
    (kept,) = (shared.place / "got").rglob("who")
    assert kept.read_text().strip() == person
    assert f"nothing of the server's can be read by {person}" in shared.run("doctor").stdout

    # Restarted, the server finds its node again; let go, nothing of it stays.
    shared.ok("server", "restart")
    wait_until(
        lambda: [each["state"] for each in json.loads(shared.ok("nodes", "--json"))["nodes"]] == ["up"], what="it"
    )
    (shared.home / "state/token").chmod(0o600)
    shared.ok("server", "stop")


def test_the_same_job_prints_it_where_one_person_has_the_machine_to_themselves(
    headway_home: Path, tmp_path: Path
) -> None:
    """So the test above can fail; and nothing changes for who shares nothing."""
    alone = Living(headway_home, tmp_path)
    try:
        done = alone.run("run", "--", "sh", "-c", STEAL, str(alone.home))
        assert secrets_of(alone)[0] in done.stdout
    finally:
        alone.end()
