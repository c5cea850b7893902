"""The law of all stores about features' tables: any rows under their keys, alike in memory and in SQL."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from headway.core.job.events import Event
from headway.store.conformance.specimens import a_job, change, ended, save
from headway.store.protocol import Batch, Files, Forget, LeaderLost, SharesUsed, Store
from headway.store.tables import Layout, RowChange, Table, Which


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Thing:
    """A row with a field of every kind but bytes, which JSON does not hold."""

    shelf: str
    place: int
    label: str = ""
    size: int = 0
    weight: float = 0.0
    good: bool = False
    seen: float | None = None
    tags: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    words: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Blob:
    name: str
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class OfJob:
    job: str
    number: int
    value: float = 0.0


THINGS = Table("things", Thing, key=("shelf", "place"), indexes=(("label", "size"),))
PACKED = Table("packed_things", Thing, key=("shelf", "place"), packed=True)
OF_JOBS = Table("things_of_jobs", OfJob, key=("job", "number"), of_job=True)
USED = Table("used_things", Part, key=("name",), used_as="thing")
BLOBS = Table("blobs", Blob, key=("name",))
SPECIMENS = Layout((THINGS, PACKED, OF_JOBS, USED, BLOBS))

FULL = Thing("a", 2, "naïve \0 \ud800", 2**40, 0.1, True, 1.5, ("x", "y"), (Part("p", 0.5),), {"loss": 0.25})


def put(table: Table[Thing], *rows: Thing) -> list[RowChange]:
    return [RowChange(table, table.key_of(row), row) for row in rows]


class TableConformance:
    @pytest.mark.parametrize("table", [THINGS, PACKED], ids=["columns", "packed"])
    def test_rows_come_back_as_they_were_in_order_of_their_keys(self, store: Store, table: Table[Thing]) -> None:
        plain = [Thing("b", 1), Thing("a", 10), Thing("a", 9)]
        store.commit(Batch(rows=put(table, FULL, *plain)))
        found = store.rows(table)
        assert [(row.shelf, row.place) for row in found] == [("a", 2), ("a", 9), ("a", 10), ("b", 1)]
        assert found[1:] == [plain[2], plain[1], plain[0]]
        assert (found[0].tags, found[0].parts, found[0].words) == (FULL.tags, FULL.parts, FULL.words)
        assert (found[0].size, found[0].weight, found[0].good, found[0].seen) == (2**40, 0.1, True, 1.5)
        assert store.row(table, "a", 9) == plain[2]
        assert store.row(table, "a", 1) is None

    def test_bytes_are_kept_as_they_are(self, store: Store) -> None:
        blobs = [Blob("a", b"\0\xff"), Blob("b")]
        store.commit(Batch(rows=[RowChange(BLOBS, (blob.name,), blob) for blob in blobs]))
        assert store.rows(BLOBS) == blobs

    def test_the_last_word_on_a_key_counts(self, store: Store) -> None:
        first, second = Thing("a", 1, size=1), Thing("a", 1, size=2)
        store.commit(Batch(rows=put(THINGS, first, second)))
        assert store.rows(THINGS) == [second]
        store.commit(Batch(rows=put(THINGS, first)))
        assert store.rows(THINGS) == [first]
        gone = RowChange(THINGS, ("a", 1))
        store.commit(Batch(rows=[gone, RowChange(THINGS, ("no", 1))]))
        assert store.rows(THINGS) == []
        store.commit(Batch(rows=[*put(THINGS, first), gone]))
        assert store.rows(THINGS) == []
        store.commit(Batch(rows=[gone, *put(THINGS, first)]))
        assert store.rows(THINGS) == [first]

    def test_rows_are_found_by_what_they_hold(self, store: Store) -> None:
        rows = [Thing("a", n, label="odd" if n % 2 else "even", size=n, good=n > 3) for n in range(6)]
        store.commit(Batch(rows=put(THINGS, *rows)))

        def places(which: Which) -> list[int]:
            return [row.place for row in store.rows(THINGS, which)]

        assert places(Which(equal={"label": "odd"})) == [1, 3, 5]
        assert places(Which(equal={"label": "odd", "good": True})) == [5]
        assert places(Which(below={"size": 2})) == [0, 1]
        assert places(Which(above={"size": 2}, below={"size": 5})) == [3, 4]
        assert places(Which(among={"size": [4, 0, 9]})) == [0, 4]
        assert places(Which(among={"size": []})) == []
        assert places(Which(backwards=True, limit=2)) == [5, 4]
        assert places(Which(limit=0)) == []

    def test_rows_of_a_job_need_it_and_go_with_it(self, store: Store) -> None:
        (job,) = save(store, a_job())
        mine, nobodys = OfJob(job.id, 1, 0.5), OfJob("no", 1)
        store.commit(Batch(rows=[RowChange(OF_JOBS, OF_JOBS.key_of(row), row) for row in (mine, nobodys)]))
        assert store.rows(OF_JOBS) == [mine]
        (over,) = save(store, ended(job))
        store.commit(Batch(forget=[Forget(over.id, Event("JobForgotten", 1.0))]))
        assert store.rows(OF_JOBS) == []

    def test_rows_of_a_job_may_come_with_it(self, store: Store) -> None:
        mine = OfJob("j1", 1)
        rows = [RowChange(OF_JOBS, OF_JOBS.key_of(mine), mine, after="j1")]
        store.commit(Batch(jobs=[change(a_job("j1"), "A")], rows=rows))
        assert store.rows(OF_JOBS) == [mine]

    def test_what_hangs_on_a_stale_change_is_left_out_with_it(self, store: Store) -> None:
        (job,) = save(store, a_job())
        stale = change(a_job("j1"), "A")  # As if it were new.
        rows = [*put(THINGS, Thing("a", 1)), RowChange(THINGS, ("a", 2), Thing("a", 2), after=job.id)]
        assert store.commit(Batch(jobs=[stale], rows=rows)).stale == {job.id}
        assert [row.place for row in store.rows(THINGS)] == [1]

    def test_a_row_that_a_job_uses_stays_though_it_is_dropped(self, store: Store) -> None:
        parts = [Part("b2", 10.0), Part("b1", 20.0)]
        store.commit(Batch(rows=[RowChange(USED, (part.name,), part) for part in parts]))
        save(store, a_job())
        store.commit(Batch(files=Files(uses=[SharesUsed("j1", "thing", "b1"), SharesUsed("j1", "other", "b2")])))
        assert store.rows(USED, Which(unused=True)) == [parts[0]]
        assert store.rows(USED, Which(unused=True, below={"share": 5.0})) == []
        store.commit(Batch(rows=[RowChange(USED, (name,)) for name in ("b1", "b2", "no")]))
        assert store.rows(USED) == [parts[1]]

    def test_nothing_is_written_without_the_lead(self, store: Store) -> None:
        assert store.take_lead("s1", "", 0.0, 10.0) is not None
        with pytest.raises(LeaderLost):
            store.commit(Batch(rows=put(THINGS, FULL)), epoch=0)
        assert store.rows(THINGS) == []
