"""PostgreSQL goes away under people who have signed in: their commands wait and go on, and no log has a token."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from headway.client.sdk import Client
from headway.control.access.sealing import new_key_line
from headway.core.errors import HeadwayError, Unavailable
from tests.living import COMMAND_S_MAX, Living
from tests.servers.cluster import HEADWAY, TOKEN, Cluster, Postgres
from tests.waiting import PATIENCE_S, wait_until

PEOPLE = ("mel", "sam", "root1")
AWAY_S = 10.0
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
def team(nodes_of_another: dict[str, str], cluster: Callable[..., Cluster], tmp_path: Path) -> Team:
    keys = tmp_path / "secrets.keys"
    keys.touch(mode=0o600)
    keys.write_text(new_key_line())
    # Tokens are looked up with nearly every call, as with the calls of many people.
    several = cluster(2, **nodes_of_another, local_cpus=4, accounts="on", token_cache_s=0.05, secrets_key_file=keys)
    several.lead_of()
    made = Team(several)
    made.settle()
    return made


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


def test_people_go_on_and_no_log_has_a_token_when_postgresql_is_restarted(team: Team, postgres: Postgres) -> None:
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
        wrong = [each for done in asking for each in done.result(PATIENCE_S)]
    assert not wrong, wrong[:5]
    logs = {path: path.read_text(errors="replace") for path in team.log_files()}
    assert sum("store away" in text for text in logs.values()) >= 1, "the fault was felt"
    known = secrets_of(team)
    assert len(known) >= len(PEOPLE) + 3, known.keys()
    told = [f"{what} in {path}" for what, value in known.items() for path, text in logs.items() if value in text]
    assert not told
    for server in team.cluster.servers:
        assert "Traceback" not in server.log
        assert "locals" not in server.log


@contextmanager
def begun(team: Team, who: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on while the test does."""
    env = {**os.environ, **team.env(who)}
    place, pipe = team.cluster.user().place, subprocess.PIPE
    process = subprocess.Popen([*HEADWAY, *words], cwd=place, env=env, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def trouble(client: Client) -> HeadwayError | None:
    try:
        client.jobs()
    except HeadwayError as error:
        return error
    return None


def test_commands_wait_and_go_on_while_postgresql_is_away(team: Team, postgres: Postgres) -> None:
    back = team.cluster.root / "back"
    told: list[HeadwayError | None] = []
    script = f"echo one; until [ -e {back} ]; do sleep 0.1; done; echo two"
    with ExitStack() as stack:
        run = begun(team, "mel", "run", "--project", "vision", "--", "bash", "-c", script)
        following = stack.enter_context(run)
        assert following.stdout is not None
        assert following.stdout.readline() == "one\n"
        hurried = team.client("sam", patience_s=0.0)
        with postgres.away():
            wait_until(lambda: trouble(hurried), what="the fault to be felt")
            late = stack.enter_context(begun(team, "root1", "user", "add", "eve"))
            refused = stack.enter_context(begun(team, "sam", "user", "add", "mallory"))
            began_at = time.monotonic()
            while time.monotonic() - began_at < AWAY_S:
                told.append(trouble(hurried))
        assert late.wait(COMMAND_S_MAX) == 0, late.stderr and late.stderr.read()
        assert "not an admin" in refused.communicate(timeout=COMMAND_S_MAX)[1]
        back.touch()
        out, err = following.communicate(timeout=COMMAND_S_MAX)
    assert (following.returncode, out) == (0, "two\n"), err
    for error in (each for each in told if each is not None):
        assert isinstance(error, Unavailable), error
        for word in (str(postgres.data), "psycopg", "postgres:", "headway_"):
            assert word not in f"{error.message} {error.hint}", error.message
