"""Who goes before whom. Waiting jobs that are equal but for their age stand in one lane, in order.

So a plan looks at the first of each lane, not at each job. What an order is made of stands in `key_of` (within a
lane) and `Order.rank` (between lanes); smaller goes first.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from headway.core.model import Job, JobId, Policy, Queue
from headway.core.scheduling.fit import Need
from headway.core.scheduling.run_times import History, Length
from headway.core.scheduling.shares import Amounts, Counter, Shares

Key = tuple[float, int, JobId]
Rank = tuple[int, int, int, tuple[int, int, int], Key]
ALL_EQUAL = (0, 0, 0)
COMPACT_AT = 64
PLAIN_QUEUE = Queue()  # How a queue behaves of which nothing is said.


class LaneName(NamedTuple):
    """What waiting jobs must have in common to be interchangeable."""

    queue: str
    project: str
    user: str
    priority: int
    need: Need
    length: Length
    licences: tuple[tuple[str, int], ...]
    array: tuple[str, int] | None = None  # Of an array that says so: its id, and how many of it may run at once.


class Lane:
    """Interchangeable jobs in order. Leaving at the front is cheap; leaving in the middle costs a search."""

    __slots__ = ("_first", "_keys", "amounts", "counters", "name")

    def __init__(self, name: LaneName, amounts: Amounts, counters: tuple[Counter, ...]) -> None:
        self.name = name
        self.amounts = amounts
        self.counters = counters
        self._keys: list[Key] = []
        self._first = 0

    def add(self, key: Key) -> None:
        if not self._keys or self._keys[-1] < key:
            self._keys.append(key)
        else:
            insort(self._keys, key, self._first)

    def remove(self, key: Key) -> None:
        keys, first = self._keys, self._first
        if keys[first] == key:
            self._first += 1
            if self._first > COMPACT_AT and self._first * 2 > len(keys):
                del keys[: self._first]
                self._first = 0
            return
        at = bisect_left(keys, key, first)
        assert keys[at] == key, f"{key[2]} is not in its lane"
        del keys[at]

    def __len__(self) -> int:
        return len(self._keys) - self._first

    def at(self, number: int) -> Key | None:
        """The key of the job with this number in the lane, counted from its front."""
        at = self._first + number
        return self._keys[at] if at < len(self._keys) else None

    def before(self, key: Key) -> int:
        """How many stand before this key."""
        return bisect_left(self._keys, key, self._first) - self._first

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys[self._first :])


class Ranking:
    """The rules by which lanes are ranked at one moment; what they rest on is looked up once per account."""

    def __init__(self, queues: dict[str, Queue], policy: Policy, shares: Shares, history: History, now: float) -> None:
        self.queues = queues
        self.policy = policy
        self.shares = shares
        self.history = history
        self.now = now
        self._steps: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        self._lengths: dict[int, float] = {}
        self._policies: dict[str, str] = {}

    def queue(self, name: str) -> Queue:
        return self.queues.get(name) or PLAIN_QUEUE

    def policy_of(self, queue: str) -> str:
        known = self._policies.get(queue)
        if known is None:
            known = self._policies[queue] = self.queue(queue).policy or self.policy.name
        return known

    def rank(self, lane: LaneName, key: Key, submitted_at: float) -> Rank:
        queue = self.queue(lane.queue)
        name = self.policy_of(lane.queue)
        if name in ("fair", "las") and self.now - submitted_at > self.policy.patience_s:
            return -queue.priority, -lane.priority, 0, ALL_EQUAL, (0.0, key[1], key[2])
        steps = ALL_EQUAL if name != "fair" and len(self.queues) < 2 else self._share(lane, queue, name)
        return -queue.priority, -lane.priority, 1, steps, key

    def _share(self, lane: LaneName, queue: Queue, policy: str) -> tuple[int, int, int]:
        account = (lane.queue, lane.project, lane.user)
        known = self._steps.get(account)
        if known is None:
            shares, now = self.shares, self.now
            of_queue = shares.step(account[:1], queue.weight, now)
            if policy == "fair":
                weight = dict(queue.shares).get(lane.project, 1.0)
                known = (of_queue, shares.step(account[:2], weight, now), shares.step(account, 1.0, now))
            else:
                known = (of_queue, 0, 0)
            self._steps[account] = known
        return known

    def estimate_s(self, length: Length) -> float:
        """How long a job of this length will run. Lengths are told apart by identity: the view has one of each."""
        known = self._lengths.get(id(length))
        if known is None:
            from_history = self.policy.estimates == "history"
            known = self._lengths[id(length)] = self.history.estimate_s(length, from_history)
        return known


def key_of(job: Job, policy: Policy, name: str, length: Length, service: float) -> Key:
    """The place of a job in its lane."""
    if name == "throughput":
        return throughput_score(job, policy, length), job.seq, job.id
    if name == "las":
        return float(service_level(service, policy)), job.seq, job.id
    return 0.0, job.seq, job.id


def throughput_score(job: Job, policy: Policy, length: Length) -> float:
    """Short and narrow first, with a bonus for waiting: F1 of Carastan-Santos and de Camargo (2017), made linear."""
    known = [seconds for seconds in (length.guess_s, length.limit_s) if seconds is not None]
    run_s = min(known) if known else 86400.0
    wants = job.spec.resources
    width = job.spec.nodes * max(1.0, float(wants.gpus or wants.cpus))
    return math.log10(max(1.0, run_s)) * width + policy.bonus_per_hour * job.submitted_at / 3600.0


def service_level(service: float, policy: Policy) -> int:
    """How many steps down a job is that has had this much service."""
    return sum(service >= step for step in policy.service_steps)
