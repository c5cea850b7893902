"""Thousands of damaged syncs with a node's own token: whatever they say, the writer lives, and honest work goes on.

On real databases: what a store in memory takes, they may not. `HEADWAY_FUZZ_SYNCS` makes more of them.
"""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from headway.control.jobs.commands import Submit
from headway.control.leader.cycle import Cycle
from headway.control.leader.thread import ControlThread
from headway.control.nodes.sync import StaleAgent
from headway.core.errors import BadInput, HeadwayError, NotAllowed, Unavailable, Unfinished
from headway.core.model import Pool, State
from headway.core.protocol import read_sync
from headway.features.catalog import load
from headway.settings import Settings
from headway.store.sql.store import SqlStore
from tests.builders import a_spec
from tests.store.test_postgres import server

SYNCS = int(os.environ.get("HEADWAY_FUZZ_SYNCS", "3000"))
NOW = int(time.time())
T = "j0/1/0"
PIECE = {"task": T, "rank": 0, "stream": "out", "start": 0, "end": 5, "key": "logs/n1/1-1", "key_offset": 0, "crc32": 7}
OUTCOME = {"exit_code": 1, "signal": 9, "rank": 0, "cause": "user_code", "detail": "x", "log_bytes": 5, "unkept": "y"}
ME: dict[str, Any] = {
    "protocol": 1, "node": "n1", "pool": "local", "boot_id": "b", "agent_epoch": NOW, "agent_version": "v", "seq": 0,
    "leader_epoch": 1, "full": False, "reports_digest": "0" * 16, "duties_digest": "none", "marks": True,
    "storage": "", "wait_s": 0,
}  # fmt: skip
HONEST: list[dict[str, Any]] = [
    {**ME, "full": True, "facts": {"cpus": 64, "memory_bytes": 2**40, "gpus": 0, "address": "10.0.0.1"}},
    {**ME, "reports": [{"task": T, "phase": "claimed", "address": "10.0.0.1", "port": 29500}]},
    {**ME, "reports": [{"task": T, "phase": "running", "stays": {"outcome": OUTCOME, "left_s": 3}}]},
    {**ME, "reports": [{"task": T, "phase": "ended", "outcome": {**OUTCOME, "failed_ago_s": 2.5}}]},
    {**ME, "reports": [{"task": T, "phase": "failed_prepare", "cause": "input_missing", "detail": "gone"}]},
    {**ME, "reports": [{"task": T, "phase": "preparing", "detail": "42 %"}]},
    {**ME, "troubles": [{"what": "logs", "detail": "wait"}]},
    {**ME, "logs": [PIECE], "steps": {T: 7}},
    {**ME, "checkpoints": [{"task": T, "step": 5, "how": "renamed", "key": "jobs/j0/1/checkpoints/5.json", "bytes": 9,
                            "files": 1, "metrics": {"loss": 0.5}, "unit": "epoch", "found": "a"}]},
    {**ME, "artifacts": [{"task": T, "path": "m.bin", "keys": ["jobs/j0/1/output/m.bin"], "size": 3, "sha256": "a"}]},
    {**ME, "dumps": [{"task": T, "key": "jobs/j0/1/dumps/a", "what": "w", "size": 3, "sha256": "a"}]},
    {**ME, "bad_checkpoints": [{"task": T, "key": "jobs/j0/1/checkpoints/5.json", "detail": "hash"}]},
    {**ME, "notice": {"cause": "reclaimed", "seconds_left": 30}},
]  # fmt: skip
HOSTILE: list[Any] = [
    2**31, 2**62, 2**63, 2**64, 10**30, 10**400, -1, -(2**63), -(2**70), 0, 1e308, -1e308, 0.1, float("nan"),
    float("inf"), True, False, None, "", "\ud800", "a\udfffb", "\0", "a\0b", "x" * 70_000, "\U0001f4a3", "1", "NaN",
    "../../etc/passwd", "j0/1/0", "j0/1/-1", "j0/-1/0", "j0/1/99999999999999999999", "//", "\u0661/1/0", [], {}, [[]],
    [None], {"a": 1}, {"\ud800": 1}, {"\0": 0.5}, [7] * 300, NOW + 86400, NOW + 10**10,
]  # fmt: skip


def damaged(chance: Random) -> dict[str, Any]:
    """An honest call in which one to three things are wrong."""
    body = copy.deepcopy(chance.choice(HONEST))
    for _ in range(chance.randint(1, 3)):
        place: Any = body
        while True:
            key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], dict | list) or not place[key] or chance.random() < 0.2:
                break
            place = place[key]
        act = chance.random()
        if act < 0.1:
            del place[key]
            if not body:
                return body
        elif act < 0.2 and isinstance(place, list):
            place.extend([place[key]] * chance.randint(1, 50))
        elif act < 0.3 and isinstance(place, dict):
            place[chance.choice(["task", "\ud800", "\0", "key", "a" * 5000])] = place.pop(key)
        else:
            place[key] = copy.deepcopy(chance.choice(HOSTILE))
    return body


@pytest.fixture(params=["sqlite", "postgresql"])
def control(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControlThread]:
    url = f"sqlite:///{tmp_path}/headway.db"
    if request.param == "postgresql":
        name = f"fuzzed_{os.getpid()}_{tmp_path.name}".lower()
        with psycopg.connect(server(), autocommit=True) as admin:
            admin.execute(f'CREATE SCHEMA "{name}"'.encode())
        query = {"options": f"-csearch_path={name}"}
        url = sa.make_url(server()).update_query_dict(query).render_as_string(hide_password=False)
    store = SqlStore.open(url, layouts=load().layouts)
    lead = store.take_lead("s1", "", time.time(), 3600.0)
    assert lead is not None
    ended: list[str] = []
    cycle = Cycle(store, Settings(), [Pool("local", "local")], lead.epoch, time.monotonic(), lambda said: None)
    thread = ControlThread(cycle, lambda: ended.append("ended"))
    thread.start()
    yield thread
    thread.stop()
    assert not ended, "no error of a command ends the writer"
    store.close()


def call(control: ControlThread, body: dict[str, Any]) -> dict[str, Any]:
    request = read_sync(json.loads(json.dumps(body)))
    if request.node != "n1":
        raise NotAllowed("the door lets a node's token speak for that node only")
    return control.sync(request).result(timeout=300).show()


def test_no_damaged_sync_ends_the_writer_or_shuts_an_honest_agent_out(control: ControlThread) -> None:
    chance, refused, taken, epoch = Random(12), 0, 0, NOW
    ids = iter(f"j{number}" for number in range(10_000))
    for number in range(SYNCS):
        if number % 100 == 0:  # New work, so that there is always something that a call may be about.
            epoch = join(control, epoch)
            control.do(Submit((a_spec(),), "ada", lambda: next(ids))).result(timeout=300)
        body = damaged(chance)
        if body.get("agent_epoch") == NOW:
            body["agent_epoch"] = epoch
        text = (
            json.dumps(body).replace("j0/1/0", f"j{number // 100}/1/0").replace("jobs/j0/", f"jobs/j{number // 100}/")
        )
        try:
            call(control, json.loads(text))
            taken += 1
        except (Unfinished, Unavailable) as error:
            raise AssertionError(f"{error.message}: {text[:2000]}") from None
        except StaleAgent as stale:
            epoch = stale.newest + 1  # As the node's own agent does.
        except HeadwayError:
            refused += 1
        assert control.alive, text[:2000]
    assert refused > SYNCS / 5, "the damage is felt"
    assert taken > SYNCS / 10, "and not everything is refused before it is read"
    began = [job for job in control.cycle.store.jobs([f"j{number}" for number in range(SYNCS // 100)]) if job.number]
    assert len(began) > SYNCS / 200, "what was said was about tasks that were there"
    works_again(control)


def join(control: ControlThread, epoch: int) -> int:
    """The node's own agent says all that it has, with a larger number than whoever spoke in its name."""
    try:
        call(control, {**HONEST[0], "agent_epoch": epoch})
    except StaleAgent as stale:
        epoch = stale.newest + 1
        call(control, {**HONEST[0], "agent_epoch": epoch})
    return epoch


def works_again(control: ControlThread) -> None:
    """The node's own agent takes work again, whatever was said in its name."""
    me = {**ME, "agent_epoch": join(control, NOW)}
    control.do(Submit((a_spec(),), "ada", lambda: "last")).result(timeout=300)
    deadline = time.monotonic() + 300
    while "last" not in {job.id for job in control.cycle.store.unfinished() if job.state is State.STARTING}:
        assert time.monotonic() < deadline
        call(control, me)
    told = call(control, {**me, "reports": [{"task": "last/1/0", "phase": "claimed"}]})
    assert told["duties_digest"]
    assert control.cycle.store.jobs(["last"])[0].state is State.RUNNING


def test_an_agents_number_from_far_ahead_is_refused(control: ControlThread) -> None:
    with pytest.raises(BadInput, match=r"agent_epoch: .* is more than ten years ahead of this server's clock"):
        call(control, {**HONEST[0], "agent_epoch": NOW + 20 * 365 * 86400})
    call(control, {**HONEST[0], "agent_epoch": NOW + 86400})
    with pytest.raises(StaleAgent) as stale:
        call(control, HONEST[0])
    assert stale.value.newest == NOW + 86400
    call(control, {**HONEST[0], "agent_epoch": stale.value.newest + 1})


class Unsavable:
    """A command whose words no database can hold, as if one had slipped through all checks."""

    def __init__(self, size: int) -> None:
        self.size = size

    def apply(self, tx: Any) -> None:
        from headway.core.job.events import Event
        from headway.core.model import Node, Resources

        tx.say(Event("NodeJoined", tx.now, data={}))
        tx.save_node(Node("n7", "local", Resources(1.0, self.size, 0)))


def test_a_command_that_the_database_cannot_hold_fails_alone_and_what_came_with_it_is_saved(
    control: ControlThread,
) -> None:
    wait: list[Any] = []
    gathered = threading.Event()
    control.run(lambda cycle: print(gathered.wait(300)))  # So that all of them share a commit.
    for number in range(3):
        wait.append(control.do(Submit((a_spec(),), "ada", lambda number=number: f"s{number}")))
        wait.append(control.do(Unsavable(2**80)))
    gathered.set()
    for number, each in enumerate(wait):
        if number % 2:
            with pytest.raises(Unfinished, match="Unsavable met something unexpected"):
                each.result(timeout=300)
        else:
            each.result(timeout=300)
    assert {job.id for job in control.cycle.store.unfinished()} == {"s0", "s1", "s2"}
    assert "n7" not in control.cycle.book.nodes or not control.cycle.doubtful
    works_again(control)


class Stumbling:
    def apply(self, tx: Any) -> None:
        raise RuntimeError("nobody foresaw this")


def test_an_error_that_nobody_foresaw_fails_its_command_and_no_other(control: ControlThread) -> None:
    with pytest.raises(Unfinished, match="RuntimeError"):
        control.do(Stumbling()).result(timeout=300)

    def trip(cycle: Cycle) -> None:
        raise RuntimeError("between two turns")

    failed: list[BaseException] = []
    control.run(trip, failed.append)
    works_again(control)
    assert [type(error) for error in failed] == [Unfinished]
