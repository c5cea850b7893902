"""Points that nodes have sent: each is counted once and kept once, wherever the server is ended."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from headway.control.jobs.commands import ForgetJob, Submit
from headway.control.state.feature import LeaderOffice
from headway.control.state.transaction import Command
from headway.features.catalog import load
from headway.features.metrics import indexer, rules
from headway.features.metrics.indexer import Indexer
from headway.features.metrics.point_reader import PointReader
from headway.features.metrics.tables import CHUNKS, SERIES, STREAMS, Series
from headway.storage.folder import FolderStorage
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Store
from headway.store.sql.store import SqlStore
from tests.builders import a_spec
from tests.control.leading import Leader
from tests.store import test_postgres


class Crash(BaseException):
    """The process ends here."""


class Place:
    """A leader, a storage folder with the points of one node, and an indexer that a test runs by hand."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.storage = store, FolderStorage(folder)
        self.leader = Leader(store)
        self.cycle = self.leader.cycle
        self.packs = self.names = 0
        self.crash_before: Callable[[str], bool] = lambda step: False
        self.leader.join()
        self.restart()

    def restart(self) -> None:
        self.indexer = Indexer(LeaderOffice(self.store, self, self, None, {}), lambda: self.leader.now, self._name)
        self.indexer.look_back()

    def _name(self) -> str:
        self.names += 1
        return f"{self.names:04x}"

    def _step(self, name: str) -> None:
        if self.crash_before(name):
            raise Crash(name)

    # --- what the indexer needs of the control thread and of the storage, with a place to crash before each step ---
    def do(self, command: Command) -> Future[Any]:
        self._step(type(command).__name__)
        return self.leader.do(command)

    def put(self, key: str, data: bytes) -> None:
        self._step("put")
        self.storage.put(key, data)

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        return self.storage.get(key, start, end)

    def delete(self, keys: list[str]) -> None:
        self.storage.delete(keys)

    # --- what happens there ---
    def submit(self, job: str = "j1") -> None:
        self.leader.do(Submit((a_spec(cpus=0.01),), "ada", lambda: job)).result()
        self.leader.tick()
        self.leader.sync(reports=[{"task": f"{job}/1/0", "phase": "claimed"}])

    def ship(self, data: bytes, job: str = "j1", rank: int = 0, stream: str = "logged", lose: bool = False) -> None:
        self.packs += 1
        key, start = f"logs/n1/1-{self.packs}", self.store.log_ends(job, 1, 0).get((rank, stream), 0)
        if not lose:
            self.storage.put(key, data)
        where = {"rank": rank, "stream": stream, "start": start, "end": start + len(data), "crc32": zlib.crc32(data)}
        self.leader.sync(logs=[{"task": f"{job}/1/0", **where, "key": key, "key_offset": 0}])

    def end(self, job: str = "j1") -> None:
        self.leader.sync(reports=[{"task": f"{job}/1/0", "phase": "ended", "outcome": {"exit_code": 0}}])

    def round(self) -> None:
        for said in self.leader.said:
            self.indexer.heard(said.logs)
        self.leader.said.clear()
        due, self.indexer._heard = list(self.indexer._heard), {}
        self.indexer.count(due)
        self.indexer.pack()

    # --- what there is ---
    def rows(self, job: str = "j1") -> list[Series]:
        return [row for row in self.store.rows(SERIES) if row.job == job]

    def values(self, name: str = "x", job: str = "j1", rank: int = 0) -> list[float]:
        (row,) = [row for row in self.rows(job) if (row.name, row.rank) == (name, rank)]
        (found,) = PointReader(self.store, self.storage).points([row], 10**6)
        assert row.count == len(found), "the row and the points differ"
        return found.values.tolist()

    def chunks(self) -> int:
        return len(self.store.rows(CHUNKS))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = f"sqlite:///{tmp_path}/headway.db" if request.param != "postgresql" else test_postgres.new_database()
    store: Store = MemoryStore() if request.param == "memory" else SqlStore.open(url, layouts=load().layouts)
    yield Place(store, tmp_path / "storage")
    store.close()


def lines(*values: float, name: str = "x", **more: Any) -> bytes:
    return b"".join(
        json.dumps({"s": int(value), "t": 1e9 + value, "m": {name: value}, **more}).encode() + b"\n" for value in values
    )


def test_points_are_counted_as_they_come_and_read_before_they_are_packed(place: Place) -> None:
    place.submit()
    place.ship(lines(1, 2))
    place.round()
    place.ship(lines(3))
    place.round()
    assert place.values() == [1.0, 2.0, 3.0]
    assert place.chunks() == 0
    (row,) = place.rows()
    assert (row.count, row.last, row.first_step, row.last_step) == (3, 3.0, 1, 3)


def test_half_a_line_waits_for_its_rest_and_counts_at_the_end_without_one(place: Place) -> None:
    place.submit()
    whole = lines(1, 2)
    place.ship(whole[:-10])
    place.round()
    assert place.values() == [1.0]
    place.ship(whole[-10:-1])
    place.round()
    assert place.values() == [1.0]
    place.end()
    place.round()
    assert place.values() == [1.0, 2.0]


def test_an_attempt_that_is_over_is_packed_and_its_output_leaves_the_log_index(place: Place) -> None:
    place.submit()
    place.ship(lines(1, 2))
    place.ship(lines(5, f="stdout", name="y"), stream="metrics")
    place.round()
    place.end()
    place.round()
    assert place.store.logs("j1") == []
    assert place.chunks() == 2
    assert (place.values(), place.values("y")) == ([1.0, 2.0], [5.0])
    place.round()
    assert not place.indexer._open


def test_few_points_are_kept_in_the_database_and_many_in_an_object(place: Place) -> None:
    for job, many in (("j1", 5), ("j2", 5000)):
        told = [value + math.sin(value) for value in range(many)]
        place.submit(job)
        place.ship(lines(*told), job)
        place.end(job)
        place.round()
        assert place.values(job=job) == told
    assert [kept.key.split("/")[1] for kept in place.storage.list("jobs")] == ["j2"]


@pytest.mark.parametrize("step", ["CountPoints", "put", "PackPoints", "MergeChunks"])
def test_wherever_the_server_ends_each_point_is_there_once(
    place: Place, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "IN_ROW_BYTES_MAX", 300 if step == "MergeChunks" else 0)
    monkeypatch.setattr(indexer, "PACK_PIECES", 2)
    monkeypatch.setattr(indexer, "MERGE_FROM", 2)
    place.submit()
    crashed = 0
    for number in range(12):
        place.ship(lines(2 * number, 2 * number + 1))
        left = [number % 3]

        def now(name: str, left: list[int] = left) -> bool:
            left[0] -= name == step
            return name == step and left[0] == -1

        place.crash_before = now
        try:
            place.round()
        except Crash:
            crashed += 1
            place.crash_before = lambda name: False
            place.restart()
            place.round()
    place.crash_before = lambda name: False
    assert crashed
    place.end()
    place.round()
    assert place.values() == [float(value) for value in range(24)]


def test_what_another_server_has_counted_meanwhile_is_not_counted_again(place: Place) -> None:
    place.submit()
    place.ship(lines(1))
    place.round()
    other = Indexer(LeaderOffice(place.store, place, place, None, {}))
    place.ship(lines(2))
    other.count([("j1", 1)])
    place.ship(lines(3))
    place.round()
    assert place.values() == [1.0, 2.0, 3.0]


def test_small_chunks_become_one_and_their_objects_go_a_while_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "IN_ROW_BYTES_MAX", 0)
    monkeypatch.setattr(indexer, "PACK_PIECES", 1)
    monkeypatch.setattr(indexer, "MERGE_FROM", 4)
    place.submit()
    for number in range(16):
        place.ship(lines(number))
        place.round()
    assert [chunk.level for chunk in place.store.rows(CHUNKS)] == [2]
    assert place.values() == [float(value) for value in range(16)]
    place.leader.now += indexer.REST_S + 1
    place.round()
    assert len(list(place.storage.list("jobs"))) == 1


def test_many_names_take_several_commits_and_all_are_there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "SLICE_SERIES", 50)
    place.submit()
    place.ship(b"".join(lines(1.0, name=f"n{number}") for number in range(500)) + lines(2.0, name="n7"))
    place.round()
    assert len(place.rows()) == 500
    assert place.values("n7") == [1.0, 2.0]


def test_names_beyond_the_limit_are_counted_as_left_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "NAMES_MAX", 5)
    place.submit()
    place.ship(b"".join(lines(1.0, name=f"n{number}") for number in range(8)))
    place.round()
    place.end()
    place.round()
    (stream,) = place.store.rows(STREAMS)
    assert (len(place.rows()), stream.points, stream.left_out) == (5, 5, 3)


def test_what_storage_has_lost_is_said_and_the_rest_is_there(place: Place) -> None:
    place.submit()
    place.ship(lines(1))
    place.ship(lines(2), lose=True)
    place.ship(lines(3))
    place.round()
    (stream,) = place.store.rows(STREAMS)
    assert stream.lost_bytes == len(lines(2))
    assert place.values() == [1.0, 3.0]
    place.end()
    place.round()
    assert place.values() == [1.0, 3.0]


def test_a_job_that_is_forgotten_takes_its_points_along(place: Place) -> None:
    place.submit()
    place.ship(lines(1))
    place.round()
    place.end()
    place.leader.do(ForgetJob("j1", "ada")).result()
    place.round()
    assert place.rows() == place.store.rows(STREAMS) == place.store.rows(CHUNKS) == []


def test_what_is_not_a_number_and_odd_names_are_kept_by_every_store(place: Place) -> None:
    place.submit()
    for name in ("__proto__", "x" * 10_000, "größe/\u2028", "nul\0"):
        place.ship(
            json.dumps({"m": {name: "nan"}}).encode() + b"\n" + json.dumps({"m": {name: "-inf"}}).encode() + b"\n"
        )
    place.ship(b'{"m": {"x": NaN}}\n')
    place.round()
    place.end()
    place.round()
    rows = {row.name: row for row in place.rows()}
    assert len(rows) == 5
    assert (rows["__proto__"].nans, rows["__proto__"].min) == (1, -math.inf)
    assert (rows["x"].last, rows["x"].min) == (None, None)
    assert [str(value) for value in place.values("__proto__")] == ["nan", "-inf"]


def test_logs_do_not_show_points(place: Place) -> None:
    from headway.control.views.jobs import log_story

    place.submit()
    place.ship(lines(1))
    place.ship(b"hello\n", stream="out")
    (attempt,) = log_story(place.store, place.store.jobs(["j1"])[0])["attempts"]
    assert [file["stream"] for file in attempt["files"]] == ["out"]
