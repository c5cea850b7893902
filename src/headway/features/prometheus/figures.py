"""Which figures there are, taken in one look at the leader's memory: names as Prometheus' conventions want them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from headway.control.views import cluster
from headway.control.views.leader_port import LeaderMemory
from headway.control.views.measures import BOUNDS_S, Histogram, Measures
from headway.features.prometheus.exposition import Family, HistogramFamily

Families = list[Family | HistogramFamily]
AMOUNTS = {"cpus": "processors", "memory_bytes": "bytes of memory", "gpus": "GPUs"}


def of_leader(memory: LeaderMemory, name: str, now: float, mono: float) -> Families:
    """What only the leader knows: queues, nodes, what ended since it leads. Runs on its thread, so it is short."""
    found: Families = [_ended(memory.book.memories.get(name) or {})]
    return found + _queues(memory, now) + _nodes(memory, mono) + _orders(memory)


def _ended(ends: Mapping[tuple[str, str], int]) -> Family:
    samples = [({"state": state, "cause": cause}, float(count)) for (state, cause), count in sorted(ends.items())]
    return Family("headway_jobs_ended_total", "counter", "jobs that ended since this server leads", samples)


def _queues(memory: LeaderMemory, now: float) -> Families:
    shown = cluster.queues(memory)
    oldest: dict[str, float] = {}
    for job in memory.book.jobs.values():
        if job.state.value == "queued":
            oldest[job.spec.queue] = max(oldest.get(job.spec.queue, 0.0), now - job.submitted_at)
    jobs = [({"queue": each["name"], "state": "queued"}, float(each["queued"])) for each in shown]
    jobs += [({"queue": each["name"], "state": "active"}, float(each["active"])) for each in shown]
    waits = [({"queue": queue}, wait_s) for queue, wait_s in sorted(oldest.items())]
    return [
        Family("headway_queue_jobs", "gauge", "unfinished jobs by queue: waiting, or with a place", jobs),
        Family("headway_queue_oldest_wait_seconds", "gauge", "age of the oldest job that waits", waits),
    ]


def _nodes(memory: LeaderMemory, mono: float) -> Families:
    states: Counter[tuple[str, str]] = Counter()
    granted: Counter[tuple[str, str]] = Counter()
    free: Counter[tuple[str, str]] = Counter()
    tasks: Counter[str] = Counter()
    silence: dict[str, float] = {}
    for node in cluster.nodes(memory, mono):
        pool = str(node["pool"])
        states[pool, str(node["state"])] += 1
        tasks[pool] += int(node["tasks"])
        if node["heard_s"] is not None:
            silence[pool] = max(silence.get(pool, 0.0), float(node["heard_s"]))
        for amount in AMOUNTS:
            granted[pool, amount] += node["granted"][amount]
            free[pool, amount] += (node["free"] or {}).get(amount, 0)
    found: Families = [
        Family("headway_nodes", "gauge", "nodes by pool and state", _labelled(states, "pool", "state")),
        Family("headway_node_tasks", "gauge", "tasks that hold a place", [({"pool": p}, n) for p, n in tasks.items()]),
        Family(
            "headway_node_silence_seconds", "gauge", "how long ago the quietest node of a pool was heard, against its "
            "lease", [({"pool": pool}, silent_s) for pool, silent_s in sorted(silence.items())],
        ),
    ]  # fmt: skip
    for amount, says in AMOUNTS.items():
        for what, counted in (("granted", granted), ("free", free)):
            samples = [({"pool": pool}, float(n)) for (pool, which), n in sorted(counted.items()) if which == amount]
            found.append(Family(f"headway_node_{amount}_{what}", "gauge", f"{says}, {what}, by pool", samples))
    return found


def _orders(memory: LeaderMemory) -> Families:
    open_orders = Counter(order.pool for order in memory.book.house.orders.values())
    samples = [({"pool": pool}, float(count)) for pool, count in sorted(open_orders.items())]
    return [Family("headway_node_orders", "gauge", "orders of nodes that are under way", samples)]


def of_server(about: Mapping[str, Any], measures: Measures, leads: bool) -> Families:
    """What every server knows of itself and of the store."""
    found: Families = [
        Family("headway_build_info", "gauge", "the version that runs", [({"version": str(about["version"])}, 1.0)]),
        Family("headway_leader", "gauge", "whether this server leads", [({}, float(leads))]),
        Family(
            "headway_start_time_seconds", "gauge", "when this server started, since 1970",
            [({}, float(about["started_at"]))],
        ),
        Family(
            "headway_jobs", "gauge", "jobs that are kept, by state",
            [({"state": state}, float(count)) for state, count in sorted(about["jobs"].items())],
        ),
        Family("headway_events_total", "counter", "events that were ever written", [({}, float(about["last_seq"]))]),
        Family("headway_troubles", "gauge", "what troubles server, storage or nodes", [({}, len(about["troubles"]))]),
        Family("headway_servers", "gauge", "servers that are there", [({}, float(_there(about)))]),
    ]  # fmt: skip
    if leads:
        found.append(_timed("headway_turn_duration_seconds", "a turn of the leader, until it is saved", measures.turns))
        says = "from an agent's call until its news are saved"
        found.append(_timed("headway_sync_duration_seconds", says, measures.syncs))
    return found


def _there(about: Mapping[str, Any]) -> int:
    return sum(bool(each["there"]) for each in about["servers"]) or 1


def _timed(name: str, says: str, histogram: Histogram) -> HistogramFamily:
    return HistogramFamily(name, says, BOUNDS_S, tuple(histogram.counts), histogram.sum_s)


def _labelled(counted: Counter[tuple[str, str]], first: str, second: str) -> list[tuple[dict[str, str], float]]:
    return [({first: one, second: other}, float(count)) for (one, other), count in sorted(counted.items())]
