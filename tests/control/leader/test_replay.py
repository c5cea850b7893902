"""A turn of the leader that was dumped is taken again elsewhere, and comes to the same commit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.control.leader import cycle
from headway.control.leader.replay import replay
from headway.control.leader.turn_dumps import TurnDumps
from headway.features.catalog import load
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Store
from headway.store.sql.store import SqlStore
from tests.api.serving import Serving
from tests.waiting import wait_until


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        opened = SqlStore.open(f"sqlite:///{tmp_path}/headway.db", layouts=load().layouts)
        yield opened
        opened.close()


@pytest.fixture
def server(tmp_path: Path, store: Store) -> Iterator[Serving]:
    serving = Serving(tmp_path / "storage", store)
    dumps = TurnDumps(tmp_path / "dumps", serving.cycle, serving.services.new_id)
    serving.services.new_id, serving.control._take_turn = dumps.new_id, dumps.turn
    with serving:
        yield serving


def dumped(place: Path) -> list[Path]:
    return sorted((place / "dumps").glob("*.turn"), key=lambda path: int(path.stem.rpartition(".")[2]))


def test_every_turn_of_a_story_comes_to_the_same_commit_again(server: Serving, tmp_path: Path) -> None:
    server.join("n1")
    first, waiting = server.submit(name="first"), server.submit(name="waiting", resources={"cpus": 8})
    server.start(f"{first}/1/0")
    server.ok("POST", f"/jobs/{waiting}/hold", {})
    ended = {"task": f"{first}/1/0", "phase": "ended", "outcome": {"exits": [[0, 0, 0]], "exit_code": 0}}
    server.sync("n1", reports=[ended])
    server.ok("POST", f"/jobs/{waiting}/stop", {})
    wait_until(lambda: server.ok("GET", f"/jobs/{waiting}")["state"] == "cancelled", what="the stop")
    replays = [replay(path) for path in dumped(tmp_path)]
    assert [each.lines() for each in replays if not each.same] == []
    said = "\n".join(line for each in replays for line in each.lines())
    for kind in ("NodeJoined", "JobSubmitted", "AttemptPlaced", "AttemptStarted", "JobCancelled"):
        assert kind in said
    done = subprocess.run(
        [sys.executable, "-m", "headway.control.leader.replay", str(dumped(tmp_path)[-1])],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("the same as it was recorded\n")


def test_a_turn_that_met_an_error_is_dumped_with_it(
    server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise ZeroDivisionError("a wrong plan")

    with monkeypatch.context() as mistaken:
        mistaken.setattr(cycle, "carry_out", broken)
        job = server.submit()
        wait_until(lambda: not server.control.alive, what="the end of a leader that knows nothing for sure any more")
    made = replay(dumped(tmp_path)[-1])
    assert made.raised_then == "ZeroDivisionError('a wrong plan')"
    assert made.raised is None, "the code of now does not have that error"
    assert made.lines()[-2:] == ["it was recorded otherwise:", "  raised ZeroDivisionError('a wrong plan')"]
    assert [each.name for each in map(replay, dumped(tmp_path)) if f"JobSubmitted {job}" in "".join(each.lines())]


def test_only_the_owner_reads_a_dump_and_it_holds_no_key(server: Serving, tmp_path: Path) -> None:
    server.cycle.secret = server.cycle.book.secret = b"the key of all gangs"
    server.submit()
    for path in dumped(tmp_path):
        assert path.stat().st_mode & 0o077 == 0
        assert b"the key of all gangs" not in path.read_bytes()
