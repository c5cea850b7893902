"""The words of queues, pools and licences: they come back as they were given, and nonsense is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.model import Queue, Quota, Resources
from headway.core.spec.engine import EngineRules, with_lease_of
from headway.core.spec.pool import read_pool, show_pool
from headway.core.spec.queue import read_licences, read_queue, show_queue

ENGINES = {"local": EngineRules(name="local")}
QUEUE: dict[str, Any] = {
    "priority": 5,
    "weight": 2.5,
    "shares": {"speech": 1.0, "vision": 3.0},
    "quota": {"gpus": 0},
    "project_quota": {"cpus": 8.5},
    "user_quota": {"memory": 1 << 30, "jobs": 2},
    "project_quotas": {"speech": {"gpus": 4}},
    "user_quotas": {"ada": {"jobs": 9}},
    "borrow": True,
    "pools": ["lab", "cloud"],
    "default_duration": 60.0,
    "max_duration": 3600.0,
    "policy": "fifo",
    "preemptible": False,
}
POOL: dict[str, Any] = {
    "engine": "local", "min": 1, "max": 4, "kind": "spot", "price": 1.5, "lease": 60.0, "idle": 30.0, "cpus": 2.0,
    "memory": 1 << 30, "gpus": 1, "gpu_type": "a100", "zone": "z1", "labels": {"rack": "7"}, "options": {"a": "b"},
    "state": "draining",
}  # fmt: skip


def test_the_words_of_a_queue_come_back() -> None:
    assert show_queue(read_queue("night", QUEUE)) == QUEUE


def test_a_queue_without_words_is_a_plain_one() -> None:
    assert read_queue("night", {}) == Queue("night")


def test_a_quota_of_zero_is_not_no_quota() -> None:
    assert read_queue("night", {"quota": {"gpus": 0}}).quota == Quota(gpus=0)
    assert read_queue("night", {"quota": {}}).quota == Quota()


def test_no_pools_is_not_any_pool() -> None:
    assert read_queue("night", {"pools": []}).pools == ()
    assert read_queue("night", {}).pools is None


def test_the_words_of_a_pool_come_back() -> None:
    assert show_pool(read_pool("lab", POOL, ENGINES)) == POOL
    assert read_pool("lab", POOL, ENGINES).shape == Resources(2.0, 1 << 30, 1)


def test_nodes_stands_for_min_and_max() -> None:
    pool = read_pool("lab", {"nodes": 3}, ENGINES)
    assert (pool.nodes_min, pool.nodes_max, pool.shape) == (3, 3, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"priorty": 1}, 'unknown key "priorty"'),
        ({"priority": "high"}, "is not a whole number"),
        ({"weight": 0}, "is not a number above 0"),
        ({"quota": {"gpus": -1}}, "outside 0"),
        ({"quota": {"gpu": 1}}, 'unknown key "gpu"'),
        ({"quota": 5}, "expected keys and values"),
        ({"pools": "lab"}, "expected a list of names"),
        ({"default_duration": "2h", "max_duration": "1h"}, "longer than max_duration"),
        ({"max_duration": 0}, "not longer than nothing"),
        ({"policy": "nice"}, "is not one of fair"),
        ({"borrow": "yes"}, "is not true or false"),
    ],
)
def test_nonsense_about_a_queue_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_queue("night", words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"nodes": 2, "max": 3}, "nodes excludes min and max"),
        ({"min": 3, "max": 2}, "at most 2 nodes, but at least 3"),
        ({"engine": "cloud"}, "is not one of local"),
        ({"gpus": 1}, "a shape needs them"),
        ({"cpus": 1, "gpu_type": "a100"}, "without GPUs"),
        ({"state": "leaving"}, "is not one of open, draining"),
        ({"labels": {"a b": 1}}, "is not a name"),
        ({"kind": "free"}, "is not one of on-demand, spot"),
    ],
)
def test_nonsense_about_a_pool_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_pool("lab", words, ENGINES)


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 64, "-a"])
def test_a_name_is_a_name(name: str) -> None:
    for read in (lambda: read_queue(name, {}), lambda: read_pool(name, {}, ENGINES), lambda: read_licences({name: 1})):
        with pytest.raises(BadInput, match="is not a name"):
            read()


def test_a_lease_that_is_too_short_to_tolerate_a_cut_is_refused_with_the_one_that_works() -> None:
    engines = {"local": with_lease_of(60.0, ENGINES["local"])}
    with pytest.raises(BadInput, match='lease: "40 s" is too short') as refused:
        read_pool("lab", {"lease": "40s"}, engines)
    assert "a lease of 1 m 00 s or more" in refused.value.hint
    assert read_pool("lab", {"lease": "60s"}, engines).lease_s == 60.0
