"""Whoever takes the server's port while it is down learns no token and has nothing run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headway.control.access.sealing import KeyRing
from headway.control.access.signing_keys import signer_of
from tests.impostors import Impostor
from tests.living import Living
from tests.waiting import wait_until


@pytest.fixture
def living(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    made = Living(headway_home, tmp_path)
    yield made
    made.end()


@contextmanager
def an_impostor(living: Living, prize: Path, seal: str = "") -> Iterator[Impostor]:
    port = urlsplit(json.loads((living.home / "state/server.json").read_text())["url"]).port
    assert port
    made = Impostor(port, prize, seal)
    try:
        yield made
    finally:
        made.end()


def test_an_impostor_on_the_servers_port_gets_no_token_and_nothing_run(living: Living, tmp_path: Path) -> None:
    job = living.submit("--", "sleep", "1000")
    wait_until(lambda: living.job(job)["state"] == "running", what="the job to run")
    agent, prize = living.agent, tmp_path / "prize"
    living.ok("server", "stop")
    with an_impostor(living, prize, "ab" * 32) as impostor:
        wait_until(lambda: len(impostor.heard) >= 4, what="the agent to call the impostor")
        assert impostor.paths == {"/agent/hello"}, "nothing is told to whoever has not proven himself"
        token = signer_of(KeyRing(living.home / "config/secrets.keys").keys()).token_for("local-1")
        assert token.partition(".")[2] not in impostor.everything
        assert "Bearer" not in impostor.everything
        # Nor does a command hand the private token over.
        living.ok("ps")  # Which starts the server, elsewhere.
        assert (living.home / "state/token").read_text().strip() not in impostor.everything
        log = (living.home / "state/nodes/local-1/agent.log").read_text()
        assert "does not prove to be the server of this node" in log
        pauses = [json.loads(line)["again_in_s"] for line in log.splitlines() if "again_in_s" in line]
        assert pauses == sorted(pauses)
        assert len(set(pauses)) > 1
        # Nor where it is told to call that very address, as people do with a server on a port of its own.
        refused = living.run("ps", env={"HEADWAY_SERVER_URL": impostor.url})
        assert refused.returncode != 0
        assert "does not prove to be this home's server" in refused.stderr
        assert (living.home / "state/token").read_text().strip() not in impostor.everything
    assert not prize.exists()
    living.ok("server", "restart")
    wait_until(lambda: living.job(job)["state"] == "running", what="the server to hear of the job again")
    done = living.submit("--", "true")
    assert living.wait(done)["state"] == "succeeded"
    assert living.agent == agent
    url = json.loads((living.home / "state/server.json").read_text())["url"]
    living.ok("ps", env={"HEADWAY_SERVER_URL": url})
    assert [each["number"] for each in living.job(job)["attempts"]] == [1]
    assert not prize.exists()
    living.ok("stop", job, "--grace", "0")
