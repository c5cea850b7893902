"""What an operator may say about a queue: its words, checked; and back. The same for licences.

Read from the server's config file, from the API and from the command line alike. What the words do to the order of jobs
is told in docs/explanation/scheduling.md; pools are read in pool.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys, kind_of, one_of, whole
from headway.core.model import POLICIES, UNLIMITED, Queue, Quota
from headway.core.spec.job import NAME, PRIORITY_MOST
from headway.core.units import duration_s, size_bytes

ENTRIES_MAX = 10_000
KEYS = {
    "priority": "goes before the jobs' own priority; a larger number goes first",
    "weight": "its share beside other queues of the same priority",
    "shares": "weights of projects within it; 1 where none is given",
    "quota": "the most that all of its jobs may hold at once: gpus, cpus, memory, jobs",
    "project_quota": "the same for each project",
    "user_quota": "the same for each user",
    "project_quotas": "quotas of single projects, by name",
    "user_quotas": "quotas of single users, by name",
    "borrow": "whether quotas may be exceeded with what nobody else wants",
    "pools": "the pools that it may use, in the order in which they are tried; all, when left out",
    "default_duration": "the time limit of jobs that name none",
    "max_duration": "the longest time limit that a job may have",
    "policy": "the order of its jobs: " + ", ".join(POLICIES) + "; the policy of the house, when left out",
    "preemptible": "whether its jobs may be ended for more important ones",
    "allow_waiting": "whether jobs that no present pool could hold are taken, to wait for one that is still to come",
}
QUOTA_KEYS = {"gpus": "", "cpus": "", "memory": "", "jobs": ""}


def read_queue(name: str, raw: Mapping[str, Any]) -> Queue:
    """A checked queue, or BadInput naming field, value and a way out."""
    check_name(name, "queue")
    check_keys(raw, KEYS, f"queue {name}")
    default_s = _limit(raw.get("default_duration"), "default_duration")
    longest_s = _limit(raw.get("max_duration"), "max_duration")
    if default_s is not None and longest_s is not None and default_s > longest_s:
        raise BadInput(f"queue {name}: default_duration is longer than max_duration")
    return Queue(
        name=name,
        priority=whole(raw.get("priority", 0), "priority", -PRIORITY_MOST, PRIORITY_MOST),
        weight=_weight(raw.get("weight", 1.0), "weight"),
        shares=tuple((who, _weight(weight, f"shares.{who}")) for who, weight in _named(raw.get("shares"), "shares")),
        quota=read_quota(raw.get("quota"), "quota"),
        project_quota=read_quota(raw.get("project_quota"), "project_quota"),
        user_quota=read_quota(raw.get("user_quota"), "user_quota"),
        project_quotas=_quotas(raw.get("project_quotas"), "project_quotas"),
        user_quotas=_quotas(raw.get("user_quotas"), "user_quotas"),
        borrow=flag(raw.get("borrow", False), "borrow"),
        pools=_pools(raw.get("pools")),
        wall_s_default=default_s,
        wall_s_max=longest_s,
        policy=one_of(raw["policy"], "policy", tuple(POLICIES)) if raw.get("policy") else "",
        preemptible=flag(raw.get("preemptible", True), "preemptible"),
        allow_waiting=flag(raw.get("allow_waiting", False), "allow_waiting"),
    )


def show_queue(queue: Queue) -> dict[str, Any]:
    """The words that read back into this queue; those that say nothing are left out."""
    shown: dict[str, Any] = {
        "priority": queue.priority,
        "weight": queue.weight,
        "shares": dict(queue.shares),
        "quota": show_quota(queue.quota),
        "project_quota": show_quota(queue.project_quota),
        "user_quota": show_quota(queue.user_quota),
        "project_quotas": {who: show_quota(quota) for who, quota in queue.project_quotas},
        "user_quotas": {who: show_quota(quota) for who, quota in queue.user_quotas},
        "borrow": queue.borrow,
        "pools": None if queue.pools is None else list(queue.pools),
        "default_duration": queue.wall_s_default,
        "max_duration": queue.wall_s_max,
        "policy": queue.policy,
        "preemptible": queue.preemptible,
        "allow_waiting": queue.allow_waiting or None,
    }
    return {key: value for key, value in shown.items() if value not in ("", {}, None)}


def read_licences(raw: object) -> dict[str, int]:
    return {name: whole(count, f"licences.{name}", 0, 1_000_000_000) for name, count in _named(raw, "licences")}


def read_quota(raw: object, what: str) -> Quota:
    if raw is None:
        return UNLIMITED
    check_keys(raw, QUOTA_KEYS, what)
    assert isinstance(raw, Mapping)
    cpus, memory = raw.get("cpus"), raw.get("memory")
    if cpus is not None and (isinstance(cpus, bool) or not isinstance(cpus, int | float) or not 0 <= cpus <= 1e9):
        raise BadInput(f'{what}.cpus: "{str(cpus)[:80]}" is not a number from 0 on')
    return Quota(
        gpus=_count(raw.get("gpus"), f"{what}.gpus"),
        cpus=None if cpus is None else float(cpus),
        memory_bytes=None if memory is None else size_bytes(memory, f"{what}.memory"),
        jobs=_count(raw.get("jobs"), f"{what}.jobs"),
    )


def show_quota(quota: Quota) -> dict[str, Any]:
    shown = {"gpus": quota.gpus, "cpus": quota.cpus, "memory": quota.memory_bytes, "jobs": quota.jobs}
    return {name: amount for name, amount in shown.items() if amount is not None}


def check_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not NAME.match(name):
        raise BadInput(
            f'{what}: "{str(name)[:80]}" is not a name',
            "use 1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit",
        )
    return name


def flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not true or false')
    return value


def _count(value: object, what: str) -> int | None:
    return None if value is None else whole(value, what, 0, 1_000_000_000)


def _weight(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e6:
        raise BadInput(f'{what}: "{str(value)[:80]}" is not a number above 0')
    return float(value)


def _limit(value: Any, what: str) -> float | None:
    if value is None:
        return None
    seconds = duration_s(value, what)
    if seconds <= 0:
        raise BadInput(f'{what}: "{value}" is not longer than nothing', "leave it out for no limit")
    return seconds


def _named(raw: object, what: str) -> list[tuple[str, Any]]:
    if raw is None:
        return []
    if not isinstance(raw, Mapping) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"{what}: expected names and values, found {kind_of(raw)}")
    return sorted((check_name(name, what), value) for name, value in raw.items())


def _quotas(raw: object, what: str) -> tuple[tuple[str, Quota], ...]:
    return tuple((who, read_quota(quota, f"{what}.{who}")) for who, quota in _named(raw, what))


def _pools(raw: object) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, list | tuple) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"pools: expected a list of names, found {kind_of(raw)}")
    return tuple(dict.fromkeys(check_name(name, "pools") for name in raw))
