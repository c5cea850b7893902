"""The law of all stores about queues, pools, licences, the account of use, and changed descriptions.

A part of StoreConformance in suite.py, which says how a store is opened.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.files.storage_identity import Place
from headway.core.growth.node_orders import NodeOrder
from headway.core.model import Pool, Queue, Quota, Resources
from headway.core.spec.scheduling import After, Wishes
from headway.store.conformance.specimens import a_job, change, ended, ids, save
from headway.store.protocol import Batch, JobChange, JobFilter, LeaderLost, Setup, Store, UseAccount

QUEUE = Queue(
    "night", 3, 2.5, (("vision", 2.0),), Quota(gpus=0, jobs=7), Quota(cpus=1.5), Quota(memory_bytes=1 << 40),
    (("speech", Quota(gpus=4)),), (("ada", Quota(jobs=1)),), True, ("lab", "cloud"), 60.5, 3600.0, "fifo", False,
)  # fmt: skip
POOL = Pool(
    "lab", "local", 2, 5, "spot", 1.25, 60.0, 30.0, {"a": "b"}, Resources(2.5, 1 << 40, 4), "a100", "z1", {"rack": "7"},
    "draining",
)  # fmt: skip
WISHES = Wishes((After("j0", "any", True),), True, 5.5, 9.5, "same", "pack", "a100", (("a", "b"),), (("m", 2),), 3, 7.5)


class SetupConformance:
    def test_without_a_set_up_every_question_has_an_answer(self, store: Store) -> None:
        assert not any([store.queues(), store.pools(), store.licences(), store.use()])

    def test_the_set_up_comes_back_as_it_was_saved_in_order_of_name(self, store: Store) -> None:
        plain = Queue("any", pools=None), Queue("none", pools=())
        setup = Setup([QUEUE, *plain], [], [POOL, Pool("a", "local")], [], {"b": 0, "a": 5})
        store.commit(Batch(setup=setup))
        assert store.queues() == [plain[0], QUEUE, plain[1]]
        assert store.pools() == [Pool("a", "local"), POOL]
        assert list(store.licences().items()) == [("a", 5), ("b", 0)]

    def test_the_same_name_replaces_and_a_dropped_one_is_gone(self, store: Store) -> None:
        store.commit(Batch(setup=Setup([QUEUE], [], [POOL], [], {"a": 1, "b": 2})))
        store.commit(Batch(setup=Setup([replace(QUEUE, priority=9)], ["no"], licences={"b": 3})))
        assert (store.queues(), store.licences()) == ([replace(QUEUE, priority=9)], {"b": 3})
        gone = Setup(dropped_queues=["night"], dropped_pools=["lab"])
        store.commit(Batch(setup=gone))
        assert not any([store.queues(), store.pools()])
        assert store.licences() == {"b": 3}, "what a batch does not speak of stays"

    def test_orders_come_back_as_they_were_saved_and_go_when_they_are_dropped(self, store: Store) -> None:
        assert not store.orders()
        orders = [NodeOrder("lab-1a", "lab", 2, 5.5), NodeOrder("lab-2b", "lab", 1, 6.5, "leaving", 7.5, 9.5)]
        store.commit(Batch(setup=Setup(orders=list(reversed(orders)))))
        assert store.orders() == orders
        again = replace(orders[0], state="ordered", filled_at=8.5, until=99.5)
        store.commit(Batch(setup=Setup(orders=[again], dropped_orders=["lab-2b", "no"])))
        assert store.orders() == [again]

    def test_the_places_of_the_objects_are_kept_in_their_order(self, store: Store) -> None:
        assert not store.places()
        first, second = Place(1, "aaa", "17", "/srv/one", 5.5), Place(2, "aaa", "", "s3://bucket/é", 6.5)
        store.commit(Batch(setup=Setup(places=[second])))
        store.commit(Batch(setup=Setup(places=[first])))
        assert store.places() == [first, second]

    def test_the_account_of_use_is_replaced_as_a_whole(self, store: Store) -> None:
        store.commit(Batch(setup=Setup(use=[UseAccount("q", "p", "b", 2.5, 1.0), UseAccount("q", "p", "a", 1.5, 1.0)])))
        assert [each.user for each in store.use()] == ["a", "b"]
        store.commit(Batch(setup=Setup(use=[UseAccount("q", "p", "b", 7.0, 2.0)])))
        assert store.use() == [UseAccount("q", "p", "b", 7.0, 2.0)]

    def test_another_leader_changes_no_set_up(self, store: Store) -> None:
        store.take_lead("s1", "", 0.0, 10.0)
        with pytest.raises(LeaderLost):
            store.commit(Batch(setup=Setup([QUEUE])), epoch=7)
        assert store.queues() == []

    def test_a_description_changes_only_where_the_change_says_so(self, store: Store) -> None:
        save(store, a_job())
        other = replace(a_job().spec, queue="night", priority=7, wishes=WISHES)
        store.commit(Batch(jobs=[change(replace(a_job(), spec=other, version=2))]))
        assert store.jobs(["j1"])[0].spec == a_job().spec
        store.commit(Batch(jobs=[JobChange(replace(a_job(), spec=other, version=3), 2, respecified=True)]))
        assert store.jobs(["j1"])[0].spec == other
        assert ids(store.page(JobFilter(queue="night"), None, 9)) == ["j1"]

    def test_an_array_is_found_by_its_id(self, store: Store) -> None:
        jobs = [a_job(f"a-{index}", array_id="a", array_index=index) for index in range(3)]
        store.commit(Batch(jobs=[change(job) for job in [*jobs, a_job("b")]]))
        assert ids(store.page(JobFilter(array="a"), None, 9)) == ["a-2", "a-1", "a-0"]
        assert [job.array_index for job in store.page(JobFilter(array="a"), 2, 9)] == [0]
        save(store, ended(jobs[1]))
        assert store.counts(JobFilter(array="a")) == {"queued": 2, "succeeded": 1}
        assert store.counts(JobFilter(array="b")) == {}
