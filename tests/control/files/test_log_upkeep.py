"""Old logs leave, small pieces are joined, loose objects are deleted, and nothing that is named ever is."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from headway.control.files.log_index import Join, marks_of
from headway.control.files.log_upkeep import ORPHAN_S, REST_S, SWEEP_EVERY_S, Housekeeping
from headway.control.jobs.commands import ForgetJob, Submit
from headway.control.state.transaction import Command
from headway.core.errors import NotFound, Unavailable
from headway.features.catalog import load
from headway.settings import Settings
from headway.storage.folder import FolderStorage
from headway.storage.protocol import Kept
from headway.store.memory.store import MemoryStore
from headway.store.protocol import Store
from headway.store.sql.store import SqlStore
from tests.builders import NOW, a_spec
from tests.control.leading import Leader


class Crash(BaseException):
    """The process ends here."""


class Place:
    """A leader, a storage folder with the output of one agent, and a housekeeping that a test runs by hand."""

    def __init__(self, store: Store, folder: Path, **settings: Any) -> None:
        self.store = store
        self.storage = FolderStorage(folder)
        self.settings = Settings(**{"log_keep_s": 1000.0, "log_compact_ranges": 10, **settings})
        self.leader = Leader(store, self.settings)
        self.cycle = self.leader.cycle
        self.keys = 0
        self.open_housekeeping()
        self.leader.join()

    def open_housekeeping(self) -> None:
        """As after a restart of the server: what it remembered is gone."""
        self.names = 0
        self.housekeeping = Housekeeping(
            self.store, self, self, self.settings, lambda: self.leader.now, lambda: self.leader.now, self._name
        )
        self.crash_before: Callable[[str], bool] = lambda step: False

    def _name(self) -> str:
        self.names += 1
        return f"{self.names:04x}"

    # --- what housekeeping needs of the control thread and of the storage, with a place to crash before each step ---
    def do(self, command: Command) -> Future[Any]:
        self._step("swap")
        return self.leader.do(command)

    def put(self, key: str, data: bytes) -> None:
        self._step("put")
        self.storage.put(key, data)

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        self._step("get")
        return self.storage.get(key, start, end)

    def delete(self, keys: list[str]) -> None:
        self._step("delete")
        self.storage.delete(keys)

    def list(self, prefix: str) -> Iterator[Kept]:
        return self.storage.list(prefix)

    def size(self, key: str) -> int | None:
        return self.storage.size(key)

    def local_dir(self) -> str:
        return self.storage.local_dir()

    def _step(self, name: str) -> None:
        if self.crash_before(name):
            raise Crash(name)

    # --- what happens there ---
    def submit(self, job: str = "j1", **spec: Any) -> None:
        self.leader.do(Submit((a_spec(cpus=0.01, **spec),), "ada", lambda: job)).result()
        self.leader.tick()
        self.leader.sync(reports=[{"task": f"{job}/1/0", "phase": "claimed"}])

    def ship(self, *texts: str, job: str = "j1") -> None:
        """Each text becomes a pack of its own, and is named in a sync of its own."""
        for text in texts:
            self.ship_pack({job: text})

    def ship_pack(self, texts: dict[str, str], named: bool = True) -> str:
        """One pack with output of several jobs."""
        self.keys += 1
        key, ranges, offset = f"logs/n1/1-{self.keys}", [], 0
        for job, text in texts.items():
            start = self.store.log_ends(job, 1, 0).get((0, "out"), 0)
            where = {"rank": 0, "stream": "out", "start": start, "end": start + len(text)}
            where["crc32"] = zlib.crc32(text.encode())
            ranges.append({"task": f"{job}/1/0", **where, "key": key, "key_offset": offset})
            offset += len(text)
        self.storage.put(key, "".join(texts.values()).encode())
        os.utime(Path(self.storage.local_dir(), key), (self.leader.now, self.leader.now))
        if named:
            self.leader.sync(logs=ranges)
        self.tell()
        return key

    def end(self, job: str = "j1") -> None:
        self.leader.sync(reports=[{"task": f"{job}/1/0", "phase": "ended", "outcome": {"exit_code": 0}}])

    def forget(self, job: str = "j1") -> None:
        self.leader.do(ForgetJob(job, "ada")).result()
        self.tell()

    def tell(self) -> None:
        """What wiring does after each commit."""
        for said in self.leader.said:
            self.housekeeping.note(said.logs)
            self.housekeeping.dropped(said.loose_keys)
        self.leader.said.clear()

    def wait(self, seconds: float) -> None:
        """Time passes, with the node being heard."""
        self.leader.now += seconds
        self.leader.sync()
        self.tell()

    def round(self) -> None:
        self.tell()
        self.housekeeping.round()
        self.tell()

    # --- what there is ---
    def text(self, job: str = "j1") -> str:
        """The log as somebody reads it: every range must be there, and none twice."""
        said, at = "", 0
        for piece in self.store.logs(job):
            assert piece.start >= at, "bytes stand in the index twice"
            said += self.storage.get(piece.key, piece.key_offset, piece.key_offset + piece.end - piece.start).decode()
            at = piece.end
        return said

    def pieces(self, job: str = "j1") -> int:
        return len(self.store.logs(job))

    def objects(self) -> set[str]:
        return {kept.key for kept in self.storage.list("logs")}

    def troubles(self) -> dict[str, str]:
        return {name: said for name, said in self.cycle.troubles.items() if name.startswith("housekeeping")}


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = f"sqlite:///{tmp_path}/headway.db"
    store: Store = MemoryStore() if request.param == "memory" else SqlStore.open(url, layouts=load().layouts)
    place = Place(store, tmp_path / "storage")
    yield place
    assert not place.troubles()
    store.close()


LINES = [f"line {number}\n" for number in range(12)]
STORY = "".join(LINES)


def test_the_logs_of_jobs_that_ended_long_ago_leave_and_younger_ones_stay(place: Place) -> None:
    place.submit("old")
    place.submit("young")
    place.ship_pack({"old": "one ", "young": "two "})
    only_old = place.ship_pack({"old": "more"})
    place.end("old")
    place.wait(900)
    place.end("young")
    place.wait(200)
    place.round()
    assert place.text("old") == ""
    assert place.text("young") == "two "
    place.wait(REST_S)
    place.round()
    assert only_old not in place.objects()
    assert place.text("young") == "two ", "an object with somebody else's output in it stays"
    place.wait(900)
    place.round()
    place.wait(REST_S)
    place.round()
    assert place.objects() == set()


def test_many_small_pieces_of_a_running_job_become_one(place: Place) -> None:
    place.submit()
    place.ship(*LINES[:9])
    place.round()
    assert place.pieces() == 9
    place.ship(*LINES[9:])
    place.round()
    assert (place.pieces(), place.text()) == (1, STORY)
    place.ship("and on")
    assert (place.pieces(), place.text()) == (2, STORY + "and on")


def test_what_was_joined_still_says_when_it_was_written(place: Place) -> None:
    place.submit()
    for line in LINES:
        place.ship(line)
        place.wait(3.0)
    before = [(piece.end, piece.at) for piece in place.store.logs("j1")]
    place.round()
    (joined,) = place.store.logs("j1")
    told = marks_of(joined)
    assert [end for end, _ in told] == [end for end, _ in before]
    assert all(abs(one - other) <= 0.05 for (_, one), (_, other) in zip(told, before, strict=True))


def test_the_parts_stay_for_a_while_for_those_who_are_reading(place: Place) -> None:
    place.submit()
    place.ship(*LINES)
    reading = place.store.logs("j1")
    place.round()
    assert b"".join(place.storage.get(piece.key) for piece in reading).decode() == STORY
    place.wait(REST_S)
    place.round()
    assert len(place.objects()) == 1
    assert place.text() == STORY


def test_an_attempt_that_ended_is_joined_with_fewer_pieces(place: Place) -> None:
    place.submit()
    place.ship(*LINES[:8])
    place.round()
    assert place.pieces() == 8
    place.end()
    place.round()
    assert (place.pieces(), place.text()) == (1, "".join(LINES[:8]))


def test_few_pieces_are_left_as_they_are_and_not_looked_at_again(place: Place) -> None:
    place.submit()
    place.ship(*LINES[:7])
    place.end()
    place.round()
    assert place.pieces() == 7
    assert not place.housekeeping._pieces


def test_joined_pieces_stay_small_against_the_limit_of_the_log(place: Place) -> None:
    place.submit(log_bytes_max=4096)
    place.ship(*(["x" * 50] * 40))
    place.round()
    assert {piece.end - piece.start for piece in place.store.logs("j1")} == {500}
    assert place.text() == "x" * 2000


def test_after_a_restart_the_pieces_of_before_are_joined_too(place: Place) -> None:
    place.submit("going")
    place.submit("over")
    place.ship(*LINES, job="going")
    place.ship(*LINES, job="over")
    place.end("over")
    place.open_housekeeping()
    place.housekeeping.look_back()
    place.round()
    assert (place.pieces("going"), place.text("going")) == (1, STORY)
    assert (place.pieces("over"), place.text("over")) == (1, STORY)


def test_objects_of_a_forgotten_job_are_deleted_unless_somebody_elses_output_is_in_them(place: Place) -> None:
    place.submit("j1")
    place.submit("j2")
    mine = place.ship_pack({"j1": "mine"})
    ours = place.ship_pack({"j1": "ours", "j2": "ours"})
    place.end("j1")
    place.forget("j1")
    place.round()
    assert place.objects() == {mine, ours}
    place.wait(REST_S)
    place.round()
    assert place.objects() == {ours}
    assert place.text("j2") == "ours"


def test_objects_of_a_trimmed_middle_are_deleted(place: Place) -> None:
    place.submit(log_bytes_max=4096)
    place.ship(*(["x" * 1000] * 9))
    place.leader.tick()
    place.tell()
    assert place.text() == "x" * 3072
    place.wait(REST_S)
    place.round()
    assert place.text() == "x" * 3072
    assert len(place.objects()) == 5, "three of the head, two of the tail"


def test_an_object_that_nobody_names_goes_once_its_node_was_heard_for_long_enough(place: Place) -> None:
    place.submit()
    orphan = place.ship_pack({"j1": "never named"}, named=False)
    place.round()
    for _ in range(3):
        place.wait(SWEEP_EVERY_S + 1)
        assert orphan in place.objects()
        place.round()
    place.wait(SWEEP_EVERY_S + 1)
    place.round()
    assert orphan not in place.objects()


def test_an_agent_that_was_cut_off_for_long_can_still_name_what_it_wrote(place: Place) -> None:
    place.submit()
    place.ship_pack({"j1": "held for"}, named=False)
    place.leader.now += 100 * ORPHAN_S  # A server that was away, or a suspended machine.
    place.open_housekeeping()
    place.housekeeping.look_back()
    place.round()
    for session in place.cycle.sessions.values():
        session.silent = True
    for _ in range(5):
        place.leader.now += ORPHAN_S + 1
        place.round()
    piece = {"task": "j1/1/0", "rank": 0, "stream": "out", "start": 0, "end": 8, "key": "logs/n1/1-1", "key_offset": 0}
    place.leader.sync(logs=[piece])
    for _ in range(5):
        place.wait(ORPHAN_S + 1)
        place.round()
    assert place.text() == "held for"


def test_what_is_left_of_a_crash_or_of_a_node_that_is_gone_goes_at_the_start(place: Place) -> None:
    for key in ("logs/joined/j9-1-0-0-out-0-ab", "logs/gone-1/1-1"):
        for name, age_s in (("old", ORPHAN_S + 1), ("young", 60)):
            place.storage.put(f"{key}-{name}", b"x")
            os.utime(Path(place.storage.local_dir(), f"{key}-{name}"), (NOW - age_s, NOW - age_s))
    place.storage.put("jobs/j1/1/output/model", b"not a log")
    place.round()
    assert place.objects() == {"logs/joined/j9-1-0-0-out-0-ab-young", "logs/gone-1/1-1-young"}
    assert place.storage.size("jobs/j1/1/output/model") == 9


def test_a_part_that_is_missing_in_storage_stops_neither_the_round_nor_the_others(place: Place) -> None:
    place.submit("j1")
    place.submit("j2")
    place.ship(*LINES, job="j1")
    place.ship(*LINES, job="j2")
    place.storage.delete([place.store.logs("j1")[3].key])
    place.round()
    assert place.pieces("j1") == 12
    assert (place.pieces("j2"), place.text("j2")) == (1, STORY)
    with pytest.raises(NotFound):
        place.text("j1")


def test_what_a_bucket_gave_damaged_while_it_was_joined_never_replaces_a_log(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = [True]

    def get(key: str, start: int = 0, end: int | None = None) -> bytes:
        content = place.storage.get(key, start, end)
        return bytes([content[0] ^ 1]) + content[1:] if damaged and damaged.pop() else content

    monkeypatch.setattr(place, "local_dir", lambda: "")
    monkeypatch.setattr(place, "get", get)
    place.submit("j1")
    place.ship(*LINES, job="j1")
    place.round()
    assert not damaged, "nothing was joined"
    assert (place.pieces("j1"), place.text("j1")) == (12, STORY)
    place.submit("j2")
    place.ship(*LINES, job="j2")
    place.round()
    assert (place.pieces("j2"), place.text("j2")) == (1, STORY)


def test_a_piece_that_is_damaged_in_storage_is_not_joined_and_so_stays_known_to_be(place: Place) -> None:
    place.submit()
    place.ship(*LINES)
    damaged = place.store.logs("j1")[3]
    place.storage.put(damaged.key, b"x" * (damaged.end - damaged.start))
    place.round()
    assert damaged in place.store.logs("j1")
    place.submit("j2")
    place.ship(*LINES, job="j2")
    place.round()
    (joined,) = place.store.logs("j2")
    assert joined.crc32 == zlib.crc32(STORY.encode())


def test_a_join_that_the_store_refuses_changes_nothing_and_its_object_goes(place: Place) -> None:
    place.submit()
    place.ship(*LINES)
    stale = place.store.logs("j1")
    place.round()
    joined = place.text()
    # The pieces have been replaced meanwhile: a second join of the same parts comes too late.
    place.housekeeping._join(Join(tuple(stale)))
    assert (place.pieces(), place.text()) == (1, joined)
    place.wait(REST_S)
    place.round()
    assert len(place.objects()) == 1
    assert place.text() == STORY


def test_a_full_disk_is_said_and_tried_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.submit()
    place.ship(*LINES)

    def full(key: str, data: bytes) -> None:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(place.storage, "put", full)
        place.round()
    assert place.troubles() == {"housekeeping: join_small": "the disk is full"}
    assert place.text() == STORY
    place.round()
    assert not place.troubles()
    assert (place.pieces(), place.text()) == (1, STORY)


STEPS = [("get", 1), ("get", 12), ("put", 1), ("swap", 1), ("delete", 1), ("swap", 2), ("delete", 2), ("none", 1)]


@pytest.mark.parametrize(("step", "number"), STEPS, ids=[f"{step} {number}" for step, number in STEPS])
def test_a_crash_between_any_two_steps_loses_nothing_and_leaves_nothing(place: Place, step: str, number: int) -> None:
    place.submit("kept")
    place.submit("old")
    place.ship(*LINES, job="kept")
    place.ship_pack({"old": "old ", "kept": "shared"})
    place.end("old")
    seen = 0

    def here(name: str) -> bool:
        nonlocal seen
        seen += name == step
        return name == step and seen == number

    place.crash_before = here
    try:
        for _ in range(4):
            place.round()
            place.wait(600)
    except Crash:
        assert place.text("kept") == STORY + "shared"
    place.open_housekeeping()
    place.housekeeping.look_back()
    for _ in range(8):
        place.wait(SWEEP_EVERY_S + 1)
        place.round()
        assert place.text("kept") == STORY + "shared"
    assert place.text("old") == ""
    assert place.pieces("kept") == 1
    named = {piece.key for piece in place.store.logs("kept")}
    assert place.objects() == named, "objects that nobody names are left"
