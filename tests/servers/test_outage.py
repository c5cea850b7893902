"""PostgreSQL goes away under people who have signed in: no log has a token of theirs, or anybody's secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from headway.client.sdk import Client
from headway.control.sealing import new_key_line
from headway.core.errors import HeadwayError
from tests.living import Living
from tests.servers.cluster import TOKEN, Cluster, Postgres
from tests.waiting import PATIENCE_S

PEOPLE = ("mel", "sam", "root1")
SECRET = "a value that nobody may read"


@dataclass
class Team:
    """Two servers whose people have tokens of their own, and a secret that jobs use."""

    cluster: Cluster
    tokens: dict[str, str] = field(default_factory=dict)

    def settle(self) -> None:
        user = self.cluster.user()
        user.ok("project", "add", "vision")
        for name in PEOPLE:
            more = ["--admin"] if name == "root1" else []
            self.tokens[name] = user.ok("user", "add", name, "--project", "vision", *more, "-o", "name").strip()
        user.ok("secret", "set", "deep", "--project", "vision", input=SECRET)

    def env(self, who: str) -> dict[str, str]:
        return {**self.cluster.env, "HEADWAY_TOKEN": self.tokens[who]}

    def client(self, who: str, patience_s: float = 180.0) -> Client:
        return Client(self.env(who), patience_s=patience_s)

    def at_terminal(self, who: str) -> Living:
        return Living(self.cluster.root, self.cluster.user().place, self.env(who))

    def log_files(self) -> list[Path]:
        """All that servers, agents and keepers have written for operators to read."""
        found = [each.home / "log" for each in self.cluster.servers]
        return found + [each for each in self.cluster.root.rglob("*.log") if each.is_file()]


@pytest.fixture
def team(cluster: Callable[..., Cluster], tmp_path: Path) -> Iterator[Team]:
    keys = tmp_path / "secrets.keys"
    keys.touch(mode=0o600)
    keys.write_text(new_key_line())
    # Tokens are looked up with nearly every call, as with the calls of many people.
    several = cluster(2, local_nodes=1, local_cpus=4, accounts="on", token_cache_s=0.05, secrets_key_file=keys)
    several.lead_of()
    made = Team(several)
    made.settle()
    yield made


def busy(team: Team, who: str, over: Event) -> list[str]:
    """Ask one thing after another until it is over; returns what went wrong meanwhile."""
    client, wrong = team.client(who), []
    try:
        while not over.is_set():
            for ask in (client.jobs, client.server, client.nodes):
                try:
                    ask()
                except HeadwayError as error:
                    wrong.append(f"{who}: {type(error).__name__}: {error.message}")
    finally:
        client.close()
    return wrong


def secrets_of(team: Team) -> dict[str, str]:
    """Every token and secret that exists, by what it is."""
    found = {f"token of {name}": token for name, token in team.tokens.items()}
    nodes = {f"token of a node, {path}": path.read_text().strip() for path in team.cluster.root.rglob("token")}
    return {**found, **nodes, "the servers' token": TOKEN, "a secret's value": SECRET}


def test_no_log_has_a_token_when_postgresql_is_restarted_under_load(team: Team, postgres: Postgres) -> None:
    over = Event()
    with ThreadPoolExecutor(len(PEOPLE)) as pool:
        asking = [pool.submit(busy, team, who, over) for who in PEOPLE]
        try:
            user = team.at_terminal("mel")
            job = user.submit("--project", "vision", "--secret", "DEEP=deep", "--", "bash", "-c", "echo $DEEP; sleep 1")
            for _ in range(3):
                postgres.control("restart", "-m", "immediate")
                user.ok("ps")
            assert user.wait(job)["state"] == "succeeded"
        finally:
            over.set()
        assert all(done.result(PATIENCE_S) is not None for done in asking)
    logs = {path: path.read_text(errors="replace") for path in team.log_files()}
    assert sum("store away" in text for text in logs.values()) >= 1, "the fault was felt"
    known = secrets_of(team)
    assert len(known) >= len(PEOPLE) + 3, known.keys()
    told = [f"{what} in {path}" for what, value in known.items() for path, text in logs.items() if value in text]
    assert not told
    for server in team.cluster.servers:
        assert "Traceback" not in server.log
        assert "locals" not in server.log
