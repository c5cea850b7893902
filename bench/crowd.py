"""A crowd of agents at one server on PostgreSQL: what it costs to hold them while their tasks run.

The agents speak the real protocol with the real decisions (headway_agent.decide.decide), each with the token of its
node, on connections of its own. Only their keepers are imagined: what they are told to hold is held, what is told to go
runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from bench.house import House, house
from bench.idle import cpu_s, memory_mb
from bench.postgres import shared
from bench.wires import Wire, open_wire, request
from headway_agent.decide import decide as agent
from headway_wire.reply import Reply
from headway_wire.sync import Facts

AGENTS = 2000
TASKS_EACH = 5
BEAT_S = 10.0
HELD_S = 9.0  # A held call is answered at the first tick after its time, up to a second later.
LOOK_S = 20.0
SETTLE_S = 3.0
JOIN_AT_ONCE = 500
READY_S_MAX = 120.0
RETRY_S = 0.5
# What the server writes by itself, however few agents there are: its lead, that it is there, the account of use.
OWN_TABLES = frozenset({"leader", "servers", "usage", "counters"})
SLEEP = ["/bin/sleep", "1000000"]


@dataclass
class Found:
    cpu_percent: float
    beats_per_s: float
    cpu_ms_per_beat: float
    rows_written: dict[str, int]
    rss_mb: float
    joined_s: float
    started_s: float
    start_cpu_ms: float  # For each task, from its submission until it runs.
    errors: dict[str, int] = field(default_factory=dict)


class Agent:
    """One agent: its state, and its one or two connections."""

    def __init__(self, crowd: Crowd, node: str, token: str) -> None:
        self._crowd = crowd
        self._token = token
        self._free: list[Wire] = []
        self.state = agent.NodeState(node, "crowd", f"boot-{node}", int(time.time()), crowd.version)
        self._facts = Facts(TASKS_EACH, 2**34, 0, "127.0.0.1", node)

    @property
    def joined(self) -> bool:
        return bool(self.state.leader_epoch) and not self.state.full_due

    @property
    def quiet(self) -> bool:
        """Whether it has nothing to say, and the server holds its call."""
        return not self.state.changed and all(flight.held for flight in self.state.flights.values())

    def begin(self) -> None:
        self._take(agent.KeeperListed([]))

    def _take(self, fact: agent.Fact) -> None:
        facts = [fact]
        for each in facts:
            for act in agent.decide(self.state, each, time.clock_gettime(time.CLOCK_BOOTTIME)):
                if isinstance(act, agent.Hold):
                    facts.append(agent.Held(act.task, "127.0.0.1", 20000))
                elif isinstance(act, agent.Go):
                    facts.append(agent.Spawned(act.task, time.time()))
        self._pump()

    def _pump(self) -> None:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        while not self._crowd.over and agent.next_call(self.state, now):
            body = agent.sync_body(self.state, self._facts, now, HELD_S)
            raw = request("POST", "/agent/sync", self._token, json.dumps(body.show(), separators=(",", ":")).encode())
            if self._free:
                self._send(self._free.pop(), raw, body.seq)
            else:
                self._crowd.spawn(self._call(raw, body.seq))
        if self.state.changed and not self.state.urgent:
            # A start that nobody waits for; it may ride along with other news for a while.
            asyncio.get_running_loop().call_later(agent.LAZY_AFTER_S, self._pump)

    async def _call(self, raw: bytes, seq: int) -> None:
        try:
            wire = await open_wire(*self._crowd.where, self._forget)
        except OSError as error:
            self._failed(seq, repr(error))
            return
        self._send(wire, raw, seq)

    def _send(self, wire: Wire, raw: bytes, seq: int) -> None:
        held = self.state.flights[seq].held

        def heard(status: int, headers: Mapping[bytes, bytes], answer: bytes) -> None:
            if status != 200:
                self._failed(seq, f"{status} {answer[:200]!r}")
                return
            self._free.append(wire)
            self._crowd.beats += held
            self._take(agent.Answered(Reply.read(json.loads(answer)), seq))

        wire.send(raw, heard)

    def _forget(self, wire: Wire) -> None:
        if wire in self._free:
            self._free.remove(wire)

    def _failed(self, seq: int, why: str) -> None:
        if not self._crowd.over:
            self._crowd.errors[why] += 1
            agent.decide(self.state, agent.NotAnswered(seq), time.clock_gettime(time.CLOCK_BOOTTIME))
            asyncio.get_running_loop().call_later(RETRY_S, self._pump)


def _all_joined(agents: list[Agent]) -> bool:
    return all(each.joined for each in agents)


class Crowd:
    """All agents of one process."""

    def __init__(self, where: tuple[str, int], version: str, token_for: Callable[[str], str], agents: int) -> None:
        self.where = where
        self.version = version
        self.beats = 0
        self.over = False
        self.errors: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        names = [f"crowd-n{number}" for number in range(1, agents + 1)]
        self.agents = [Agent(self, name, token_for(name)) for name in names]

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def join(self) -> None:
        for first in range(0, len(self.agents), JOIN_AT_ONCE):
            some = self.agents[first : first + JOIN_AT_ONCE]
            for each in some:
                each.begin()
            await self.until(partial(_all_joined, some), "agents that have joined")

    def running(self) -> int:
        return sum(len(each.state.going) for each in self.agents)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        give_up_at = time.monotonic() + READY_S_MAX
        while not condition():
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"no {what}; {self.running()} tasks run; errors: {self.errors.most_common(3)}")
            await asyncio.sleep(0.1)


def measure(store_url: str, agents: int = AGENTS) -> Found:
    with house(**shared(store_url), sync_wait_s=str(BEAT_S)) as mine:
        return asyncio.run(_measure(mine, agents))


async def _measure(mine: House, agents: int) -> Found:
    from headway.control.access.sealing import KeyRing
    from headway.control.access.signing_keys import Signing
    from headway.engines.agent_zip import build

    url = urlsplit(mine.read("server.json")["url"])
    store_url = mine.env["HEADWAY_STORE_URL"]
    signer = Signing(KeyRing(mine.home / "config/secrets.keys")).signer
    mine.connect().ask("PATCH", "/pools/crowd", {"engine": "local", "min": 0, "max": agents})
    crowd = Crowd((url.hostname or "", url.port or 0), build().version, signer.token_for, agents)
    begin = time.monotonic()
    await crowd.join()
    joined_s = time.monotonic() - begin
    job = {"command": SLEEP, "resources": {"cpus": 1}, "pool": "crowd"}
    tasks = agents * TASKS_EACH
    begin, cpu = time.monotonic(), cpu_s(mine.server_pid)
    await asyncio.to_thread(mine.connect().ask, "POST", "/jobs/batch", {"jobs": [job] * tasks})
    await crowd.until(lambda: crowd.running() == tasks, f"{tasks} running tasks")
    await crowd.until(lambda: all(each.quiet for each in crowd.agents), "quiet agents")
    started_s, start_s = time.monotonic() - begin, cpu_s(mine.server_pid) - cpu
    found = await _look(mine, crowd, store_url)
    found.joined_s, found.started_s, found.start_cpu_ms = joined_s, started_s, 1000 * start_s / tasks
    if crowd.running() != tasks:
        raise RuntimeError(f"{crowd.running()} of {tasks} tasks run at the end")
    crowd.over = True
    return found


async def _look(mine: House, crowd: Crowd, store_url: str) -> Found:
    await asyncio.sleep(SETTLE_S)
    pid, before = mine.server_pid, await asyncio.to_thread(written, store_url)
    crowd.errors.clear()
    beats, cpu, begin = crowd.beats, cpu_s(pid), time.monotonic()
    await asyncio.sleep(LOOK_S)
    wall_s, spent_s, beaten = time.monotonic() - begin, cpu_s(pid) - cpu, crowd.beats - beats
    after = await asyncio.to_thread(written, store_url)
    rows = {table: after[table] - before.get(table, 0) for table in after if after[table] != before.get(table, 0)}
    rss, _ = memory_mb(pid)
    per_beat_ms = 1000 * spent_s / max(1, beaten)
    errors = dict(crowd.errors.most_common(3))
    return Found(100 * spent_s / wall_s, beaten / wall_s, per_beat_ms, rows, rss, 0.0, 0.0, 0.0, errors)


def written(url: str) -> dict[str, int]:
    """How many rows were written so far, by table."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as look:
        found = look.execute("SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables").fetchall()
    return {str(table): int(rows) for table, rows in found}


def not_its_own(rows: Mapping[str, int]) -> int:
    """Rows that were written though the server had nothing to write of itself: by beats, if there are any."""
    return sum(count for table, count in rows.items() if table not in OWN_TABLES)
