"""A simulated agent process: the real decisions (headway_agent.decide.decide) with a simulated socket, network and
storage.

It brings the facts and performs the acts, as headway_agent/loop/agent.py does. All that it knows dies with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from headway.control.nodes.sync import StaleAgent
from headway.core.errors import NotLeader, Unavailable
from headway.sim.network import NoAnswer, SimCall
from headway.sim.node.keeper import SOCKET_S, SimKeeper
from headway.sim.node.uploader import SimUploader
from headway.sim.server.storage import Piece, StorageBroken
from headway_agent.decide import decide as agent
from headway_agent.decide import node_features
from headway_agent.loop.turn import AgentTurn
from headway_agent.server_link.addresses import ServerAddresses
from headway_wire.causes import WORKDIR_MISSING
from headway_wire.kinds import Message
from headway_wire.reply import Reply
from headway_wire.sync import Facts, OutputRange, StoredCheckpoint, SyncRequest

if TYPE_CHECKING:
    from headway.sim.node.machine import Machine
    from headway_agent.keeper.turn import KeeperNews

GONE = "/gone"  # A directory that no machine has.
M = TypeVar("M", bound=Message)
FLUSH_EVERY_S = 4.0
RETRY_S = (0.1, 5.0)
SETTLE_S = 1.0  # A disk takes its time.
PATIENCE_S = 30.0  # Beyond the time for which the server may hold a call.
PIECE_BYTES_MAX = 400


class SimAgent:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.simulation = machine.simulation
        self.world = machine.world
        # As the real one: a number that grows even where the disk with the last one is lost.
        self.epoch = machine.disk.agent_epoch = max(machine.disk.agent_epoch + 1, int(self.world.now))
        self.state = agent.NodeState(machine.name, self.simulation.pool.name, machine.boot_id, self.epoch)
        self.state.features = [make() for make in node_features.MAKERS]
        self._servers = ServerAddresses([peer.address for peer in self.simulation.peers])
        self.keeper: SimKeeper | None = None
        self._calls: dict[int, SimCall] = {}
        self._resting = False
        self._shipping = False
        self._packs = 0
        self.mark: str | None = None  # Of the storage that it puts things into, once it was told.
        self.files = SimUploader(self)
        self._orders: list[dict[str, Any]] = []
        self.turn = AgentTurn(self, self.state)
        machine.after(self.world.between(0.05, 0.3), self._connect)
        machine.after(FLUSH_EVERY_S, self._flush)

    def alive(self) -> bool:
        return self.machine.agent is self

    def now_s(self) -> float:
        return self.machine.boottime()

    def end(self, reason: str) -> None:
        self.world.tell(self.machine.name, f"agent {self.epoch} ended itself")
        self.flush()
        self.die()

    def leave(self) -> None:
        self.machine.retire()  # The real agent ends itself, and whoever started it ends the rest.

    def die(self) -> None:
        self.simulation.oracle.agent_deaths[self.machine.name].append(self.world.now)
        for call in self._calls.values():
            call.hang_up()
        self.machine.agent = None

    # --- the keeper ---

    def _connect(self) -> None:
        if self.alive() and self.keeper is None:
            self.keeper = self.machine.start_keeper()
            self.keeper.accept(self)

    def lost_keeper(self, keeper: SimKeeper) -> None:
        if self.keeper is keeper:
            self.keeper = None
            self.machine.after(self.world.between(0.05, 1.0), self._connect)

    def hear_keeper(self, keeper: SimKeeper, message: KeeperNews) -> None:
        if not self.alive() or self.keeper is not keeper:
            return
        if message.get("is") == "hello":
            self._take(agent.KeeperListed([self._kept(each) for each in message["tasks"]]))
            for each in message["tasks"]:
                self.files.attend(each["task"])
            return
        for key, started_at, *_ in message.get("spawned", ()):
            self._take(agent.Spawned(key, started_at))
        for key, *exit in message.get("exits", ()):
            self._take(agent.RankExited(key, agent.Exit(*exit)))
        for key, failed_s in message.get("first_failures", ()):
            self.files.failing(key, failed_s)
        for key in message.get("over", ()):
            self._take(agent.TaskOver(key, self.machine.output_sizes(key), leftovers=self._left(key)))

    def _kept(self, listed: dict[str, Any]) -> agent.Kept:
        return agent.Kept(
            listed["task"],
            listed["phase"],
            tuple(agent.Exit(*exit) for exit in listed["exits"]),
            listed["lost"] or (listed["phase"] == "over" and listed["task"] in self.machine.disk.torn),
            listed["address"],
            listed["port"],
            listed["started_at"],
            self.machine.output_sizes(listed["task"]) if listed["phase"] == "over" else {},
            grace_s=listed["grace_s"],
            leftovers=listed["phase"] == "over"
            and listed["task"] not in self.machine.disk.torn
            and self._left(listed["task"]),
            notice=self.machine.disk.notices.get(listed["task"], ""),
        )

    # --- facts in, acts out ---

    def _take(self, fact: agent.Fact) -> None:
        """Something happened: the agent takes its turn, once what is being decided is done."""
        within = self.turn.deciding
        self.turn.happened(fact)
        if not within:
            self._pump()

    def _pump(self) -> None:
        if self.alive():
            self.turn.take()

    def go(self, act: agent.Go) -> None:
        self._order("go", tasks=[[act.task, {}]])

    def stop(self, act: agent.Stop) -> None:
        if act.cause:
            self.machine.disk.notices[act.task] = act.cause
            self.machine.simulation.oracle.noticed(act.task)
        self._order("stop", tasks=[[act.task, act.grace_s]])

    def forget(self, task: str) -> None:
        self.machine.disk.saved.pop(task, None)
        self.files.forget(task)
        self.machine.disk.notices.pop(task, None)
        self._order("forget", tasks=[task])

    def lease(self, act: agent.Lease) -> None:
        self._order("lease", deadline_s=act.deadline_s, granted_s=act.granted_s)

    def upgrade(self, version: str) -> None:
        raise NotImplementedError("the simulated agent is as old as its server")

    def keep(self, act: agent.Act) -> None:
        if isinstance(act, agent.Salvage):
            self.machine.after(self.world.between(0.02, 0.5), self._salvage, act.task, act.end)
        elif isinstance(act, agent.Settle):
            self.machine.after(SETTLE_S, self.machine.disk.settled.add, act.task)
        elif isinstance(act, agent.Move):
            self.mark = act.storage.mark
        elif isinstance(act, agent.KeepAgain):
            if act.checkpoint:
                self.files.keep_again(act.task)
        else:
            raise NotImplementedError(f"the simulated agent cannot perform {act}")

    def hold(self, act: agent.Hold) -> None:
        if act.claim.workdir == GONE:
            self.turn.happened(agent.HoldFailed(act.task, f"there is no {GONE}", WORKDIR_MISSING))
            return
        if self.world.happens(self.simulation.faults.claim_refused):
            self.turn.happened(self._not_held(act.task))
            return
        claim = act.claim
        if act.task not in self.machine.disk.saved:
            saved = self.simulation.checkpoints.restored(act.task, claim.resume)
            self.machine.keep_files(act.task, saved)
        self.files.attend(act.task)
        ranks = [{"rank": claim.first_rank + number} for number in range(claim.ranks)]
        address, port = self.machine.name, self.world.chance.randint(1024, 65535)
        launch = {"task": act.task, "grace_s": claim.grace_s, "address": address, "port": port, "ranks": ranks}
        self._order("hold", base={}, tasks=[launch])
        self.turn.happened(agent.Held(act.task, address, port))

    def _not_held(self, key: str) -> agent.Fact:
        """What keeps a claim from being taken up: by turns something of this node, and something beyond it."""
        self.machine.refusals += 1
        if self.machine.refusals % 2:
            return agent.HoldFailed(key, "no directory could be made")
        return agent.PrepareFailed(key, "unreachable", "its data could not be reached")

    def _order(self, do: str, **words: Any) -> None:
        self._orders.append({"do": do, **words})

    def flush(self) -> None:
        orders, self._orders = self._orders, []
        if self.keeper is not None:
            for order in orders:
                self.machine.after(SOCKET_S, self.keeper.obey, self, order)

    # --- the server ---

    def keep_progress(self) -> None:
        """Files are looked at when they change: see uploader.py."""

    def may_call(self) -> bool:
        return not self._resting

    def call(self) -> None:
        machine = self.machine
        granted = machine.granted
        facts = Facts(granted.cpus, granted.memory_bytes, granted.gpus, machine.name)
        request = self._over_the_wire(agent.sync_body(self.state, facts, machine.boottime()))
        self._call(request.seq, request, sent_at=self.world.now)

    def _call(self, seq: int, request: SyncRequest, sent_at: float, pointed: bool = False) -> None:
        machine, url = self.machine, self._servers.now()
        patience_s = 10.0 if self._servers.several else PATIENCE_S

        def failed(error: BaseException) -> None:
            machine.after(0.0, self._turned_away, seq, request, url, pointed, error)

        call = self._calls[seq] = self.simulation.network.call(
            machine.name,
            lambda answer, fail: self.simulation.server.at(url).sync(request, answer, fail),
            lambda reply: machine.after(0.0, self._answered, seq, reply),
            failed,
            request.wait_s + min(patience_s, self.state.granted_s / 4 or patience_s),
        )
        call.sent_at = sent_at

    def _turned_away(self, seq: int, request: SyncRequest, url: str, pointed: bool, error: BaseException) -> None:
        """As server_link/http.py does it: the leader that a server points to is asked at once, but only once."""
        if not self.alive():
            return
        if isinstance(error, NotLeader):
            self._servers.pointed_to(error.leader)
            if error.leader and not pointed:
                self._call(seq, request, self._calls[seq].sent_at, pointed=True)
                return
        elif isinstance(error, NoAnswer | Unavailable):
            self._servers.silent(url)
        self._failed(seq, error)

    def _answered(self, seq: int, reply: Reply) -> None:
        if self.alive():
            call = self._calls.pop(seq)
            self.simulation.oracle.turns.answered(self.machine.name, call.sent_at, reply.duties)
            if reply.lease_left_s is not None:
                self.simulation.oracle.granted(self.machine.name, call.sent_at, reply.lease_left_s)
            self.turn.answered(seq, self._over_the_wire(reply))
            self._pump()

    def notice(self, seconds_left: float) -> None:
        """The platform warns: this machine will go."""
        self._take(agent.NoticeHeard("reclaimed", seconds_left))

    def _over_the_wire(self, message: M) -> M:
        """What the other side reads. To write and read every message as JSON would take a tenth of all time."""
        if self.world.steps % 8:
            return message
        return type(message).read(json.loads(json.dumps(message.show())))

    def _failed(self, seq: int, error: BaseException) -> None:
        del self._calls[seq]
        if not self._resting:
            self._resting = True
            least_s, most_s = RETRY_S
            self.machine.after(self.world.between(least_s, 1.0 if self._servers.several else most_s), self._rested)
        self.turn.not_answered(seq, superseded=isinstance(error, StaleAgent))
        self._pump()

    def _rested(self) -> None:
        self._resting = False
        self._pump()

    # --- checkpoints ---

    def wrote(self, key: str) -> None:
        """It hears of the first byte; to see that all is there takes longer."""
        self._take(agent.Wrote(key))

    def _left(self, key: str) -> bool:
        saved = self.machine.disk.saved.get(key)
        return saved is not None and bool(saved.directory.files)

    def _salvage(self, key: str, end: str) -> None:
        if self.alive():
            self.files.salvage(key, end)

    def next_key(self, key: str, step: int) -> str:
        self._packs += 1
        job, attempt, index = key.split("/")
        return f"jobs/{job}/{attempt}/checkpoints/{step}-{index}-{self.epoch}.{self._packs}.json"

    def stored(self, report: StoredCheckpoint) -> None:
        self._take(agent.CheckpointStored(report.task, report))

    def storage_failed(self) -> None:
        self._take_trouble("storage is full")

    def salvaged(self, key: str, end: str = "") -> None:
        self.simulation.checkpoints.salvaged(self.machine, key, end)
        self._take(agent.Salvaged(key, self.mark or ""))

    # --- output ---

    def _flush(self) -> None:
        if self.alive():
            self._ship()
            if self.state.progress or self.state.notice:
                self._take(agent.Ticked())
            self._pump()
            self.machine.after(FLUSH_EVERY_S, self._flush)

    def ship(self) -> None:
        """What is over is shipped at once, all else now and then."""
        if self.state.draining:
            self._ship()

    def _ship(self) -> None:
        if self._shipping or self.mark is None:
            return
        ranges: list[OutputRange] = []
        pieces: dict[int, Piece] = {}
        offset = 0
        key = f"logs/{self.machine.name}/{self.epoch}-{self._packs}"
        for task in self.state.tasks.values():
            if not task.resumable or task.phase not in ("going", "over"):
                continue
            for slot, size in self.machine.output_sizes(task.key).items():
                start = task.shipped.get(slot, 0)
                end = min(size, start + PIECE_BYTES_MAX)
                if end > start:
                    rank, stream = int(slot.split("/")[0]), slot.split("/")[1]
                    ranges.append(OutputRange(task.key, rank, stream, start, end, key, offset))
                    pieces[offset] = (task.key, rank, stream, start, end)
                    offset += end - start
        if ranges:
            self._packs += 1
            self._shipping = True
            self.machine.after(self.world.between(0.002, 0.05), self._put, key, pieces, ranges, self.mark)

    def _put(self, key: str, pieces: dict[int, Piece], ranges: list[OutputRange], mark: str) -> None:
        if not self.alive():
            return
        self._shipping = False
        try:
            self.simulation.storage.put(key, pieces, mark)
        except StorageBroken:
            self.storage_failed()
            return
        self._take_trouble("")
        self._take(agent.Shipped(ranges, mark))

    def _take_trouble(self, detail: str) -> None:
        if self.state.troubles.get("storage", "") != detail:
            self._take(agent.Troubled("storage", detail))
