"""The agent: the network half of a node. It brings facts to decide/decide.py and performs the acts that come back.

One loop hears the keeper and the inbox; what may block (calls, packs, removals) is done by couriers. It can die at any
moment: tasks are at the keeper, offsets and duties at the server.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from functools import partial

from headway_agent.collect.collection import Collection
from headway_agent.decide import node_features, unconfirmed_files
from headway_agent.decide.decide import (
    NOT_BEGUN,
    POLL_WAIT_S,
    CheckpointBad,
    Exit,
    Go,
    Held,
    Hold,
    HoldFailed,
    KeeperListed,
    Kept,
    Lease,
    NodeState,
    NoticeHeard,
    OutputShrank,
    PrepareFailed,
    Preparing,
    RankExited,
    Shipped,
    Spawned,
    Stays,
    Stop,
    TaskOver,
    Ticked,
    Troubled,
    next_call,
    sync_body,
)
from headway_agent.decide.outcomes import first_failing
from headway_agent.files import watch as file_watch
from headway_agent.keeper.table import PROTOCOL as KEEPER_PROTOCOL
from headway_agent.launch import sdk_shim
from headway_agent.launch.gang_env import HOSTS, go_env, host_file
from headway_agent.launch.ranks import base_env, launch_of
from headway_agent.limits import enforce
from headway_agent.limits.usage_reports import UsageReports
from headway_agent.loop import upgrade
from headway_agent.loop.keeper_link import KeeperGone, KeeperLink
from headway_agent.loop.pace import OLDER_LEADER, PAUSE_S_MAX, WENT_BACK, Line, Pace, Pause, brings, outnumber
from headway_agent.loop.story import Story, read_reply
from headway_agent.loop.turn import AgentTurn
from headway_agent.node import granted, settled_tasks
from headway_agent.node.directory import LEFT, ORDERED, FactLog, NodeDir, Taken, boottime_s, remove_tree
from headway_agent.node.task_dirs import TaskDirs
from headway_agent.node.threads import BackgroundThread, Inbox
from headway_agent.objects import remote
from headway_agent.output import packs
from headway_agent.prepare import steps
from headway_agent.server_link.http import Connection, ServerHome
from headway_agent.visits.serve import Visits
from headway_wire import causes
from headway_wire.reply import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

    from headway_agent.decide.decide import Act
    from headway_agent.files.inotify import Watcher
    from headway_agent.files.uploader import Uploader

OWN = (sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]))  # How this program is started again.
ANSWER_S_MAX = 30.0  # Beyond the time for which the server may hold a sync.
KEEPER_RETRY_S, KEEPER_RETRY_S_MAX = 0.02, 1.0
IDLE_S = 0.005
HURRY_S = 0.05
SHIP_AT_BYTES, SHIP_EVERY_S = 256 << 10, 2.0
LOOK_S = 0.5  # How often output files of running tasks are looked at where they grow fast,
CALM_LOOK_S = 2.0  # how often where they do not,
LOOK_S_PER_TASK = 0.001  # and at least so long for each of them: looking must not become the node's main work.


class Agent:
    def __init__(self, node_dir: NodeDir, flags: Mapping[str, Any]) -> None:
        self.node_dir = node_dir
        self.flags = flags
        self.log = FactLog(node_dir.file("agent.log"))
        self.story = Story(self.log)
        self.address = flags.get("address") or "127.0.0.1"
        self.facts = granted.facts(flags.get("cpus"), flags.get("memory_bytes"), flags.get("gpus"), self.address)
        self.state = NodeState(
            node=flags["node"],
            pool=flags["pool"],
            boot_id=settled_tasks.boot_noted(node_dir),
            # Not below the time of day: it grows even where the disk with the last number was lost.
            agent_epoch=node_dir.raise_counter("agent.epoch", int(time.time())),
            agent_version=upgrade.own_version(),
        )
        where = (flags.get("server_url", ""), flags.get("server_file", ""))
        self.home = ServerHome(*where, flags["token_file"], node_dir.file("servers.json"))
        self.inbox = Inbox()
        self.lines = [Line(Connection(self.home), BackgroundThread("sync", self.inbox)) for _ in range(2)]
        self.shipper, self.janitor = BackgroundThread("ship", self.inbox), BackgroundThread("tidy", self.inbox)
        self.storage = remote.RemoteStorage(flags.get("storage_dir", ""), self.home, flags["node"])
        self.task_dirs = TaskDirs(node_dir)
        cache_dir = steps.cache_dir(node_dir.path, os.environ)
        self.site = steps.Site(cache_dir, self.storage.stored, os.environ)
        self.preparations = steps.Preparations(self.inbox)
        collection = Collection(node_dir, self.log)
        self.progressing = file_watch.FileWatch(
            node_dir.task, self.storage, self._checkpointer, self.state.going.__contains__, collection
        )
        self.site.restore, self.site.home = self.progressing.restore, self.home
        self.notice_asked = False
        self.overseer = enforce.LimitEnforcer(
            node_dir, lambda: self.storage.put, lambda fact: self.inbox.put(self.happened, fact), os.environ
        )
        self.shim = sdk_shim.put(node_dir)
        self.visits = Visits(self.home, node_dir.path, self.log, self.state.going.__contains__)
        self.turn = AgentTurn(self, self.state)
        self.happened = self.turn.happened
        usage = UsageReports(node_dir.path, granted.gpus_granted(), self.inbox.wake)
        self.state.features = [self.visits, usage, *(make() for make in node_features.MAKERS)]
        self._feature_words = [feature.word for feature in self.state.features]
        self.link = KeeperLink(node_dir, base_env(os.environ))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.inbox.read_end, selectors.EVENT_READ)
        self.ended, self.exit_code = "", 0
        self.answered_at_s = boottime_s()
        self.pace = Pace()
        self.keeper_pause = Pause(KEEPER_RETRY_S, KEEPER_RETRY_S_MAX)
        self.upgrade_at_s = 0.0
        self.pack_number = 0
        self.shipping = self.more_to_ship = False
        self.ship_pause = Pause()
        self.ship_at_s = self.looked_at_s = self.shipped_all_at_s = 0.0
        self.look_every_s = LOOK_S

    def _checkpointer(self, watcher: Watcher) -> Uploader:
        from headway_agent.files.uploader import Uploader  # Here: only nodes that keep something need it.

        epoch, tell = self.state.agent_epoch, partial(self.inbox.put, self.happened)
        return Uploader(self.storage.objects, watcher, self.node_dir.task, epoch, tell, self.log)

    # --- the loop ---

    def run(self) -> int:
        self.log.say("agent started", node=self.state.node, epoch=self.state.agent_epoch, pid=os.getpid())
        self.janitor.ask(self.visits.sweep)
        left_s = file_watch.machine_left_s(self.node_dir.path, self.state.boot_id)
        if left_s is not None and left_s + unconfirmed_files.NOTICE_STALE_S > 0:
            self.happened(NoticeHeard(causes.RECLAIMED, left_s, file_watch.machine_why(self.node_dir.path)))
        while not self.ended:
            if self.link.sock is None:
                self._find_keeper()
            ready = self.selector.select(self._timeout_s())
            self._hear_notice()  # First: what ranks do after it is its echo.
            for key, _ in ready:
                if key.fd == self.inbox.read_end:
                    self.inbox.take_all()
                elif key.data == "progress":
                    self.selector.unregister(key.fd)
                    self.progressing.heard()
                else:
                    self._hear_keeper()
            self.turn.take()
        self.log.say("agent ended", reason=self.ended)
        return self.exit_code

    def _timeout_s(self) -> float | None:
        if self.link.sock is None:
            return self.keeper_pause.longer()
        now = boottime_s()
        times = []
        if next_call(self.state, now):
            times.append(self.pace.at_s)
        elif self.state.changed and not any(not flight.held for flight in self.state.flights.values()):
            times.append(max(now + IDLE_S, self.state.lazy_due_s))
        due_s = [self.progressing.due_s(), unconfirmed_files.next_due_s(self.state)]
        if not self.shipping:
            due_s.append(self._output_due_s())
        times += [at for at in due_s if at is not None]
        return max(0.0, min(times) - now) if times else None

    # --- what a turn asks for: see turn.py ---

    def alive(self) -> bool:
        return True

    def now_s(self) -> float:
        return boottime_s()

    def go(self, act: Go) -> None:
        task = self.state.tasks[act.task]
        self.link.gos.append([act.task, self._go_env(act, task.address, task.port)])

    def stop(self, act: Stop) -> None:
        if act.cause:
            self.progressing.notice(act.task, act.cause, act.grace_s)
        self.link.stops.append([act.task, act.grace_s])

    def forget(self, task: str) -> None:
        self.visits.end(task)
        self.progressing.forget(task)
        self.link.forgets.append(task)

    def lease(self, act: Lease) -> None:
        self.link.lease = (act.deadline_s, act.granted_s)

    def keep(self, act: Act) -> None:
        self.progressing.perform(act)

    def end(self, reason: str) -> None:
        self.ended = reason

    def leave(self) -> None:
        self.ended, self.exit_code = "told to leave", LEFT

    def flush(self) -> None:
        try:
            self.link.flush()
        except KeeperGone:
            self._keeper_gone()

    def may_call(self) -> bool:
        return boottime_s() >= self.pace.at_s

    def _hear_notice(self) -> None:
        if self.notice_asked:
            self.notice_asked = False
            path = self.node_dir.path
            left_s, why = file_watch.machine_goes(path, self.state.boot_id), file_watch.machine_why(path)
            self.happened(NoticeHeard(causes.RECLAIMED, left_s, why))

    def keep_progress(self) -> None:
        self.progressing.turn()
        due_s = unconfirmed_files.next_due_s(self.state)
        if due_s is not None and due_s <= boottime_s():
            self.happened(Ticked())
        watched = self.progressing.fd
        if watched >= 0 and watched not in self.selector.get_map():
            self.selector.register(watched, selectors.EVENT_READ, "progress")

    def _go_env(self, act: Go, address: str, port: int) -> dict[str, Any]:
        """What the ranks learn with `go`; where there are several, also as a file of hosts."""
        if not act.gang:
            return go_env(act.peers, address, port)
        ranks, index = act.gang
        try:
            with open(os.path.join(self.node_dir.task(act.task), HOSTS), "w") as file:
                file.write(host_file(act.peers, ranks))
        except OSError as error:
            self.log.say("no file of hosts", task=act.task, error=str(error))  # Only mpirun reads it, and will say so.
        return go_env(act.peers, address, port, ranks, index)

    # --- the keeper ---

    def _find_keeper(self) -> None:
        if self.link.connect():
            assert self.link.sock is not None
            self.selector.register(self.link.sock, selectors.EVENT_READ)

    def _keeper_gone(self) -> None:
        for key in list(self.selector.get_map().values()):
            if key.fd != self.inbox.read_end and key.data != "progress":
                self.selector.unregister(key.fileobj)
        self.link.lost()
        self.log.say("keeper lost")

    def _hear_keeper(self) -> None:
        try:
            messages = self.link.hear()
        except KeeperGone:
            self._keeper_gone()
            return
        for message in messages:
            if message["is"] == "hello":
                self._greeted(message)
            else:
                self._news(message)

    def _greeted(self, hello: Mapping[str, Any]) -> None:
        self.keeper_pause.over()
        self.log.say("keeper found", pid=hello["pid"], generation=hello["generation"], tasks=len(hello["tasks"]))
        if hello["protocol"] != KEEPER_PROTOCOL and not hello["tasks"]:
            self.link.send([{"do": "end"}])  # Of another version and idle: a new one takes its place.
            return
        self.happened(KeeperListed([self._kept(each) for each in hello["tasks"]]))
        for each in hello["tasks"]:
            if "watch" in each:
                self.overseer.watch(each["task"], each["watch"])
            if each["phase"] == "going":
                self.progressing.found_going(each["task"], each["started_at"])
        for path in self.task_dirs.put_aside_strangers(set(self.state.tasks)):
            self.janitor.ask(partial(remove_tree, path))

    def _kept(self, told: Mapping[str, Any]) -> Kept:
        exits = tuple(Exit(*each) for each in told["exits"])
        over, directory = told["phase"] == "over", self.node_dir.task(told["task"])
        ended = over or bool(told.get("stays_s"))
        finish, measured = self.progressing.collection.finish, partial(packs.output_sizes, directory)
        self.progressing.first_failures([(told["task"], told.get("first_failure_at", 0.0))])
        return Kept(
            told["task"],
            told["phase"],
            exits,
            told["lost"] or (over and settled_tasks.is_torn(directory)),
            told["address"],
            told["port"],
            told["started_at"],
            finish(told["task"], directory, measured) if over else {},
            self._tail(told["task"], exits) if ended else "",
            told["grace_s"],
            over and not settled_tasks.is_torn(directory) and self.progressing.leftovers(told["task"]),
            marks=enforce.marks_of(directory) if ended else {},
            stays_s=float(told.get("stays_s") or 0.0),
            notice=file_watch.notice_in(directory),
        )

    def _news(self, news: Mapping[str, Any]) -> None:
        for key, started_at, *watch in news.get("spawned", ()):
            self.happened(Spawned(key, started_at))
            self.progressing.spawned(key)
            if watch:
                self.overseer.watch(key, watch[0])
        stays = dict(news.get("stays", ()))
        for key, *told in news.get("exits", ()):
            self.happened(RankExited(key, Exit(*told), key in stays))
        for key, stays_s in stays.items():
            self._stays(key, stays_s)
        self.progressing.first_failures(news.get("first_failures", ()))
        for key in news.get("over", ()):
            self._over(key)
        for key in news.get("forgotten", ()):
            self.janitor.ask(partial(self.task_dirs.give_back, key))

    def _stays(self, key: str, stays_s: float) -> None:
        task = self.state.tasks.get(key)
        if task is not None:
            marks = enforce.marks_of(self.node_dir.task(key))
            self.happened(Stays(key, stays_s, self._tail(key, task.exits), marks))

    def _over(self, key: str) -> None:
        directory = self.node_dir.task(key)
        self.overseer.forget(key)
        self.visits.end(key)
        collection, marks_of = self.progressing.collection, partial(enforce.marks_of, directory)
        if collection.is_wanted(key, directory) or enforce.has_policies(directory):
            last_look = partial(collection.finish, key, directory, marks_of)
            self.preparations.begin(last_look, lambda marks: self._noted(key, directory, marks))
        else:
            self._noted(key, directory, marks_of())

    def _noted(self, key: str, directory: str, marks: Any) -> None:
        task = self.state.tasks.get(key)
        if task is not None:
            noted, tail = enforce.with_room(marks, directory, task.exits), self._tail(key, task.exits)
            sizes, leftovers = packs.output_sizes(directory), self.progressing.leftovers(key)
            self.happened(TaskOver(key, sizes, tail, leftovers, noted))

    def _tail(self, key: str, exits: Sequence[Exit]) -> str:
        failed = first_failing(exits)
        return packs.output_tail(self.node_dir.task(key), failed.rank) if failed else ""

    def hold(self, act: Hold) -> None:
        try:
            directory = self.task_dirs.make(act.task)
        except OSError as error:
            self.happened(HoldFailed(act.task, f"{error.strerror}: {error.filename}"))
            return
        if steps.needed(act.claim):
            self._prepare(act, directory)
        else:
            self._prepared(act, directory, steps.Prepared())

    def _prepare(self, act: Hold, directory: str) -> None:
        def wanted() -> bool:
            task = self.state.tasks.get(act.task)
            return task is not None and task.claim is act.claim and task.phase in NOT_BEGUN

        def say(detail: str) -> None:
            self.inbox.put(lambda said: self.happened(Preparing(act.task, said)) if wanted() else None, detail)

        work = steps.Work(act.claim, directory, self.site, say, wanted)
        self.preparations.begin(
            lambda: steps.prepare(work), lambda result: self._prepared(act, directory, result) if wanted() else None
        )

    def _prepared(self, act: Hold, directory: str, result: Any) -> None:
        if isinstance(result, Exception):
            self._not_prepared(act.task, result)
            return
        try:
            workdir = result.cwd or act.claim.workdir
            if workdir:
                steps.check_workdir(workdir)
            port = self.state.tasks[act.task].port or granted.free_port()  # Held anew, it keeps the port that was told.
            if act.claim.progress.log_policies:
                enforce.keep_policies(directory, act.claim.progress.log_policies)
            posts = self.progressing.held(act.claim, directory, workdir or f"{directory}/work")
        except (OSError, steps.NotHere) as error:
            self._not_prepared(act.task, error)
            return
        self.link.holds.append(
            launch_of(act.claim, directory, self.address, port, self.facts.gpus, result, self.shim, OWN, posts)
        )
        self.happened(Held(act.task, self.address, port))

    def _not_prepared(self, key: str, error: Exception) -> None:
        self.log.say("not prepared", task=key, error=repr(error))
        if isinstance(error, steps.StepFailed):
            self.happened(PrepareFailed(key, error.cause, error.detail))
        elif isinstance(error, steps.UnusableCheckpoint):
            self.happened(CheckpointBad(key, error.key, error.detail))
        else:
            self.happened(HoldFailed(key, steps.said_of(error), getattr(error, "cause", "")))

    # --- the server ---

    def call(self) -> None:
        now = boottime_s()
        body = sync_body(self.state, self.facts, now, self.flags.get("poll_wait_s", POLL_WAIT_S))
        patience_s = min(self.home.patience_s(ANSWER_S_MAX, 10.0), self.state.granted_s / 4 or ANSWER_S_MAX)
        seq, limit_s = body.seq, body.wait_s + patience_s  # One lost answer must not cost the lease.
        line = next(line for line in self.lines if not line.seq)
        line.seq, line.sent_s, line.held_s = seq, now, body.wait_s
        heard = self.story.told(body, lambda result: self._replied(line, result))
        line.courier.ask(lambda: line.connection.post("/agent/sync", body.show(), limit_s), heard)

    def _replied(self, line: Line, result: Any) -> None:
        seq, line.seq = line.seq, 0
        if not os.path.isdir(self.node_dir.path):
            self._end_with_the_directory()
        if isinstance(result, tuple):
            status, reply = result
            answer = read_reply(reply) if status == 200 else ""
            if isinstance(answer, Reply):
                self._answered(line, seq, answer)
                return
            if status == 409 and reply.get("stale") and not outnumber(self.state, self.node_dir, reply.get("newest")):
                self.turn.not_answered(seq, superseded=True)
                return
            if status == 401:
                self.home.read_token()
            detail = f"the server answered {status}: {answer or str(reply.get('detail', ''))[:300]}"
        else:
            detail = str(result)
        dead_man_s = self.flags.get("dead_man_s")
        if dead_man_s and not self.state.tasks and boottime_s() - self.answered_at_s > dead_man_s:
            self.ended, self.exit_code = f"no answer for {dead_man_s:g} s", LEFT
        self.turn.not_answered(seq)
        again_in_s = self.pace.not_answered(boottime_s(), self.home.patience_s(PAUSE_S_MAX, 1.0))
        self.log.say("sync not answered", detail=detail, again_in_s=again_in_s)

    def _end_with_the_directory(self) -> None:
        """Somebody removed the node's directory: nobody can find us any more, so nothing of us may stay."""
        self.ended = "the node's directory was removed"
        try:
            self.link.send([{"do": "end"}])
        except KeeperGone:
            pass  # Its guard ends what it has left.

    def _answered(self, line: Line, seq: int, reply: Reply) -> None:
        self.answered_at_s = now = boottime_s()
        brought, leader = brings(reply, self.state.follow, self._feature_words), self.state.leader_epoch
        if not self.turn.answered(seq, reply):
            again_in_s = self.pace.not_answered(now, PAUSE_S_MAX)
            self.log.say(OLDER_LEADER, its=reply.leader_epoch, heard_before=leader, again_in_s=again_in_s)
            return
        if self.state.leader_epoch < leader:
            self.log.say(WENT_BACK, its=self.state.leader_epoch, heard_before=leader)
        self.home.told(reply.servers)
        self.home.given_token(reply.token)
        self.pace.answered(now, line.held_s, now - line.sent_s, brought)
        for said in reply.refused:
            self.log.say("the server refused what was said", what=said[:300])

    def upgrade(self, version: str) -> None:
        now = boottime_s()
        if now < self.upgrade_at_s:
            return
        self.upgrade_at_s = now + 60.0
        self.janitor.ask(lambda: upgrade.fetch(Connection(self.home), self.node_dir, version), self._fetched)

    def _fetched(self, result: Any) -> None:
        if isinstance(result, str):
            self.log.say("agent upgraded", program=result)
            self.home.hand_on_token()
            upgrade.become(result)
        self.log.say("upgrade failed", detail=str(result))

    # --- output ---

    def _output_due_s(self) -> float | None:
        due_s = self._ship_due_s()
        # Checkpoints of tasks that end go first.
        return max(due_s, boottime_s() + HURRY_S) if due_s is not None and self.progressing.hurries else due_s

    def _ship_due_s(self) -> float | None:
        """When to look for new output: at once for what is over, soon for what is followed, else now and then."""
        if any(self.state.tasks[key].resumable for key in self.state.draining) or self.more_to_ship:
            return self.ship_at_s
        if not self.state.going:
            return None
        every_s = max(self.look_every_s, len(self.state.going) * LOOK_S_PER_TASK)
        if not self.state.follow.isdisjoint(self.state.going):
            every_s = self.flags.get("ship_follow_every_s", 0.2)
        return max(self.ship_at_s, self.looked_at_s + every_s)

    def ship(self) -> None:
        due_s = None if self.shipping else self._output_due_s()
        now = boottime_s()
        if due_s is None or now < due_s:
            return
        wanted = self._wanted(now)
        key = f"logs/{self.state.node}/{self.state.agent_epoch}-{self.pack_number + 1}"
        self.shipping = True
        self.shipper.ask(lambda: self._ship_round(wanted, key), self._shipped)

    def _wanted(self, now: float) -> list[packs.WantedOutput]:
        state, wanted = self.state, []
        for key in state.draining:
            task = state.tasks[key]
            if task.resumable:
                wanted.append(packs.WantedOutput(key, self.node_dir.task(key), task.shipped, task.sizes))
        everything = now - self.shipped_all_at_s >= self.flags.get("ship_every_s", SHIP_EVERY_S)
        at_bytes = 1 if everything else self.flags.get("ship_at_bytes", SHIP_AT_BYTES)
        for task in map(state.tasks.__getitem__, state.going):
            if task.resumable:
                least = 1 if task.key in state.follow else at_bytes
                wanted.append(packs.WantedOutput(task.key, self.node_dir.task(task.key), task.shipped, None, least))
        self.looked_at_s = now
        if everything:
            self.shipped_all_at_s = now
        return wanted

    def _ship_round(self, wanted: list[packs.WantedOutput], key: str) -> packs.Pack:
        pack = packs.make_pack(wanted, key)
        if pack.pieces:
            pack.storage = self.storage.put(key, b"".join(pack.pieces))
        return pack

    def _shipped(self, result: Any) -> None:
        self.shipping = False
        if not isinstance(result, packs.Pack) or result.pieces:
            self.pack_number += 1
        if isinstance(result, packs.Pack):
            self.more_to_ship = result.more
            calm = result.size < self.flags.get("ship_at_bytes", SHIP_AT_BYTES) / 8
            self.look_every_s = min(CALM_LOOK_S, self.flags.get("ship_every_s", SHIP_EVERY_S)) if calm else LOOK_S
            self.ship_pause.over()
            self.ship_at_s = 0.0
            self.happened(Troubled("logs", ""))
            if result.ranges:
                self.happened(Shipped(result.ranges, result.storage, result.printed, result.written))
            for task, sizes in result.shrunk.items():
                self.happened(OutputShrank(task, sizes))
            return
        self.ship_at_s = boottime_s() + self.ship_pause.longer()
        self.happened(Troubled("logs", f"output waits on the node: {result}"))
        self.log.say("output not shipped", detail=str(result), again_in_s=self.ship_pause.s)


def main(flags: Mapping[str, Any]) -> int:
    node_dir = NodeDir(flags["node_dir"])
    node_dir.make()
    try:
        node_dir.lock("agent.lock")
    except Taken:
        sys.stderr.write(f"error: another agent serves {node_dir.path}\n")
        return 3
    agent = Agent(node_dir, flags)
    node_dir.write_pid("agent.pid")

    def on_sigterm(*_: Any) -> None:
        agent.ended = "asked to end"
        agent.inbox.wake()

    def on_sigusr1(*_: Any) -> None:
        agent.notice_asked = True  # This machine will go.
        agent.inbox.wake()

    # The platform of an ordered node signals every process there: the node will go, and the ranks are to be saved.
    signal.signal(signal.SIGTERM, on_sigusr1 if os.environ.get(ORDERED) else on_sigterm)
    signal.signal(signal.SIGUSR1, on_sigusr1)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        return agent.run()
    except Exception as error:
        import traceback

        agent.log.say("agent failed", error=repr(error), where=traceback.format_exc()[-2000:])
        raise
