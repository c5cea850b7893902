"""The keeper: parent of all ranks. It starts them, reaps them, journals their exits, and holds the lease's deadline.

One thread, no network: it hears one agent at a time on a socket in the node's directory, and goes on without any. What
it knows and when it signals whom is in table.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback

from headway_agent.keeper import rank_limits, spawn, table
from headway_agent.keeper import sweep as keeper_sweep
from headway_agent.keeper.turn import KeeperTurn
from headway_agent.node import processes
from headway_agent.node.directory import ORDERED, FactLog, NodeDir, Taken, boottime_s, write_all, write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping, Sequence

    from headway_agent.keeper.turn import Ended

PR_SET_CHILD_SUBREAPER = 36
LOOK_AGAIN_S = 0.02  # While descendants of an ended rank are being ended.
ALONE_S = 5.0  # How often a keeper without agent and ranks looks whether its directory is still there.
TURN_S_MAX = 1.0  # A suspended machine stops the timer of select but not the lease, so look often.
JOURNAL_BYTES_MAX = 8 << 20
UNSENT_BYTES_MAX = 64 << 20


class Keeper:
    def __init__(self, node_dir: NodeDir) -> None:
        self.node_dir = node_dir
        self.log = FactLog(node_dir.file("keeper.log"))
        self.generation = node_dir.raise_counter("keeper.epoch")
        self.table = table.Table()
        self.turn = KeeperTurn(self, self.table)
        self.places: dict[str, tuple[Any, dict[str, str]]] = {}  # Of tasks that may stay: how their first rank began.
        self.orphans: dict[int, str] = {}
        self.strays: dict[int, set[str]] = {}  # Descendants without a tag: whose they may be.
        self.agent: socket.socket | None = None
        self.heard = b""
        self.unsent = bytearray()
        self.ending = False
        self.oom_kills = processes.oom_kills()
        self.guard_pid = 0
        self.guard_pipe = -1
        self.journal = -1
        self.journal_bytes = 0
        self.torn = False  # The last write may have left half a line.
        self.selector = selectors.DefaultSelector()

    # --- beginning ---

    def open(self) -> None:
        """Take over what an earlier keeper left: end its ranks, keep its records; then listen."""
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.table = table.replay(keeper_sweep.journal_lines(self.node_dir))
        self.turn = KeeperTurn(self, self.table)
        ranks = [rank for task in self.table.tasks.values() if task.lost for rank in task.ranks]
        ended = keeper_sweep.sweep(self.node_dir, self.generation - 1, ranks)
        if ranks:
            self._remove_groups()
        self._rewrite_journal()
        self._listen()
        self._watch_children()
        self._start_guard()
        self.log.say("keeper started", generation=self.generation, pid=os.getpid(), swept=ended)

    def _remove_groups(self) -> None:
        from headway_agent.node import cgroups

        cgroups.remove_left(self.node_dir.path)

    def _listen(self) -> None:
        # A path of a socket has 107 bytes at most; through the directory's descriptor any depth will do.
        directory = os.open(self.node_dir.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.unlink(self.node_dir.file("keeper.sock"))
        except FileNotFoundError:
            pass
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"/proc/self/fd/{directory}/keeper.sock")
        os.close(directory)
        listener.listen(4)
        listener.setblocking(False)
        self.listener = listener
        self.selector.register(listener, selectors.EVENT_READ, self._accept)

    def _watch_children(self) -> None:
        self.wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A platform signals every process of an order's node before it takes the node: that is the agent's to hear.
        ordered = bool(os.environ.get(ORDERED))
        signal.signal(signal.SIGTERM, signal.SIG_IGN if ordered else self._on_sigterm)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.selector.register(self.wake_r, selectors.EVENT_READ, self._drain_wakeups)

    def _on_sigterm(self, *_: Any) -> None:
        self.ending = True

    def _drain_wakeups(self) -> None:
        try:
            while len(os.read(self.wake_r, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def _start_guard(self) -> None:
        """A shell of 1 MB that outlives us: when its pipe closes without a word, it starts the sweep."""
        if self.guard_pipe >= 0:
            os.close(self.guard_pipe)
        read_end, self.guard_pipe = os.pipe2(os.O_CLOEXEC)
        sweep = [sys.executable, "-I", "-S", own_program(), "sweep", "--node-dir", self.node_dir.path]
        sweep += ["--generation", str(self.generation)]
        script = 'read x || exec "$0" "$@"'
        self.guard_pid = os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", script, *sweep],
            {"PATH": spawn.DEFAULT_PATH},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read_end, 0),
                (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=spawn.SIGNALS_RESET,
        )
        os.close(read_end)

    # --- one turn ---

    def run(self) -> None:
        while not (self.ending and not self.table.by_pid and not self.table.finishing):
            try:
                for key, _ in self.selector.select(self._timeout_s()):
                    key.data()
                self._turn()
            except Exception as error:  # The ranks die with us: whatever went wrong, go on.
                self.log.say("turn failed", error=repr(error), where=traceback.format_exc()[-2000:])
                time.sleep(LOOK_AGAIN_S)
        self.close()

    def _timeout_s(self) -> float | None:
        if self.table.waiting:
            return 0.0
        if any(not task.stay_pid for task in self.table.finishing.values()):
            return LOOK_AGAIN_S
        if self.ending:
            return LOOK_AGAIN_S
        due_s = self.table.next_due_s(boottime_s())
        if due_s is None:
            return None if self.agent is not None else ALONE_S
        return min(max(0.0, due_s - boottime_s()), TURN_S_MAX)

    def _turn(self) -> None:
        if self.agent is None and not os.path.isdir(self.node_dir.path):
            self.ending = True  # The node's directory was removed: no agent will ever find us again.
        if self.ending:
            self.turn.end_all()
        starts = bool(self.table.waiting)
        self.turn.take()
        if starts:
            os.chdir("/")  # Not to keep a user's directory busy.
        if self.journal_bytes > JOURNAL_BYTES_MAX:
            self._rewrite_journal()

    # --- what a turn is made of: see turn.py ---

    def now_s(self) -> float:
        return boottime_s()

    def begun_at(self) -> float:
        return time.time()

    def ended_at(self) -> float:
        return time.time()

    def reaped(self) -> Iterator[Ended]:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.guard_pid:
                self._start_guard()
                continue
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            yield pid, code, number

    def stranger_gone(self, pid: int) -> None:
        self.orphans.pop(pid, None)
        self.strays.pop(pid, None)

    def out_of_memory(self, ended: Ended) -> tuple[bool, str]:
        """Whether memory ran out, and a sentence where its own limit was the reason."""
        pid, code, number = ended
        task = self.table.by_pid[pid][0] if pid in self.table.by_pid else None
        if task is not None and task.group is not None and code != 0 and task.group.oom_kills():
            limit = rank_limits.show_bytes(int(task.limits["memory_bytes"]))
            return True, f"the kernel ended it: it used more than its memory limit of {limit}"
        return (number == 9 or code == 137) and processes.oom_kills() > self.oom_kills, ""

    def signal(self, leader: int, number: int) -> None:
        try:
            os.killpg(leader, number)
        except OSError:
            pass  # It has just ended; the reaping tells.

    def make_ready(self, tasks: Sequence[table.KeeperTask]) -> None:
        self.oom_kills = processes.oom_kills()
        for task in tasks:
            if task.limits:
                self._grant(task)

    def _grant(self, task: table.KeeperTask) -> None:
        task.group = rank_limits.group_for(self.node_dir.path, task.key, task.limits)
        if task.group is None and task.limits.get("memory_bytes"):
            self.log.say("memory is watched", task=task.key, reason="no control group is granted to us here")
        taken = [cpu for each in self.table.tasks.values() for cpu in each.cpus]
        task.cpus = rank_limits.choose_cpus(task.limits, taken, sorted(os.sched_getaffinity(0)))
        if task.limits.get("pin_cpus") and not task.cpus:
            self.log.say("not pinned", task=task.key, reason="too few processors are free of other pinned tasks")

    def start(self, task: table.KeeperTask, rank: table.Rank, how: Any) -> tuple[int, int, str]:
        """The pid of a rank that was started; or none, with an exit code and why."""
        launch = task.launch
        env = dict(launch["base"])
        env.update(how["env"])
        for name, value in launch["go_env"].items():
            env[name] = value if isinstance(value, str) else value.get(str(rank.number), "")
        env["HEADWAY_TASK"] = task.key
        env["HEADWAY_NODE_DIR"] = self.node_dir.path
        env["HEADWAY_KEEPER"] = str(self.generation)
        if task.stay:
            self.places.setdefault(task.key, (how, env))
        try:
            pid = spawn.start(how, env, rank_limits.words_before(task.group, task.limits) if task.limits else [])
        except spawn.CannotStart as problem:
            return 0, problem.exit_code, str(problem)
        if task.cpus:
            rank_limits.pin(pid, task.cpus)
        return pid, 0, ""

    # --- descendants ---

    def has_left(self, task: table.KeeperTask) -> bool:
        for rank in task.ranks:
            rank.group_gone = rank.group_gone or not processes.group_alive(rank.pid)
        return not all(rank.group_gone for rank in task.ranks) or task.key in self.orphans.values()

    def signal_left(self, task: table.KeeperTask, number: int) -> None:
        for pid in [pid for pid, key in self.orphans.items() if key == task.key]:
            if pid != task.stay_pid or task.killed:
                _signal(pid, number)
        for rank in task.ranks:
            if not rank.group_gone:
                self.signal(rank.pid, number)

    def stay(self, task: table.KeeperTask) -> bool:
        """Keep the place of a failed task for a look: a process with its environment, in its directory, that waits."""
        how, env = self.places[task.key]
        waits = ["/bin/sh", "-c", "trap '' TERM HUP INT; exec sleep \"$0\"", str(int(task.stay["s"]) + 60)]
        try:
            pid = spawn.start({"argv": waits, "cwd": how["cwd"], "out": "/dev/null"}, env)
        except spawn.CannotStart as problem:
            self.log.say("place not kept", task=task.key, error=str(problem))
            task.stay = {}
            return False
        finally:
            os.chdir("/")
        self.table.stays(task, pid, boottime_s())
        self.orphans[pid] = task.key
        return True

    def look_for_left(self) -> None:
        """Find the children that we did not start: descendants whose parents ended. Each belongs to some task."""
        for pid in processes.children():
            if pid in self.table.by_pid or pid == self.guard_pid or pid in self.orphans:
                continue
            key = processes.tags(pid).get("HEADWAY_TASK", "")
            if key in self.table.tasks:
                self.orphans[pid] = key
                continue
            near = set(self.table.finishing) | {task.key for task, _ in self.table.by_pid.values()}
            suspects = self.strays.setdefault(pid, near)
            suspects &= set(self.table.tasks)
            alive = {key for key in suspects if self.table.tasks[key].ranks_alive}
            if not alive:  # It took off its tag, but all that can have started it have ended.
                self.orphans[pid] = next(iter(suspects & set(self.table.finishing)), next(iter(self.table.finishing)))

    def clear(self, task: table.KeeperTask) -> None:
        if task.group is not None:
            task.group.remove()
        task.cpus = ()
        self.places.pop(task.key, None)

    # --- the journal ---

    def write(self, records: Sequence[table.Record], for_good: bool) -> None:
        lines = b"".join(map(table.to_line, records))
        try:
            write_all(self.journal, (b"\n" if self.torn else b"") + lines)
            self.torn = False
            if for_good:
                os.fdatasync(self.journal)
        except OSError as error:
            self._not_written(error)
        self.journal_bytes += len(lines)

    def _not_written(self, error: OSError) -> None:
        # A full disk: ranks go on and exits are told all the same; only a second accident would lose them.
        self.torn = True
        self.log.say("journal not written", error=str(error))

    def _rewrite_journal(self) -> None:
        path = self.node_dir.file("keeper.journal")
        content = b"".join(map(table.to_line, table.rewritten(self.table)))
        try:
            write_durably(path, content)
        except OSError as error:
            self.log.say("journal not rewritten", error=str(error))
        if self.journal >= 0:
            os.close(self.journal)
        self.journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.journal_bytes = 0

    # --- the agent ---

    def _accept(self) -> None:
        try:
            fresh, _ = self.listener.accept()
        except OSError:
            return
        self._drop_agent()
        fresh.setblocking(False)
        self.agent = fresh
        self.selector.register(fresh, selectors.EVENT_READ, self._hear)
        # What it is told from here on is in addition to this list.
        self.turn.begin_telling()
        self._send(
            {
                "is": "hello",
                "protocol": table.PROTOCOL,
                "generation": self.generation,
                "pid": os.getpid(),
                "tasks": self.table.listing(),
            }
        )

    def _drop_agent(self) -> None:
        if self.agent is not None:
            self.selector.unregister(self.agent)
            self.agent.close()
            self.agent = None
        self.heard = b""
        self.unsent = bytearray()

    def _hear(self) -> None:
        assert self.agent is not None
        try:
            data = self.agent.recv(1 << 20)
        except BlockingIOError:
            data = None
        except OSError:
            data = b""
        if data == b"":
            self._drop_agent()
            return
        if data:
            *lines, self.heard = (self.heard + data).split(b"\n")
            for line in lines:
                self._obey(json.loads(line))
                if self.agent is None:
                    return
        self._flush()

    def _obey(self, order: dict[str, Any]) -> None:
        if order["do"] == "end":
            self.ending = True
        else:
            self.turn.obey(order)

    def tell(self, news: Mapping[str, Any]) -> None:
        self._send(dict(news, **{"is": "news"}))

    def _send(self, message: dict[str, Any]) -> None:
        if self.agent is None:
            return
        self.unsent += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        if self.agent is None:
            return
        try:
            while self.unsent:
                sent = self.agent.send(self.unsent)
                del self.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop_agent()
            return
        if len(self.unsent) > UNSENT_BYTES_MAX:
            self._drop_agent()  # It does not listen; when it comes back it gets the whole list.
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.unsent else 0)
        self.selector.modify(self.agent, events, self._hear)

    def close(self) -> None:
        os.write(self.guard_pipe, b"end\n")
        try:
            os.unlink(self.node_dir.file("keeper.sock"))
        except OSError:
            pass  # The whole directory may have been removed.
        self.log.say("keeper ended", generation=self.generation)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # It ended by itself.


def own_program() -> str:
    """The zipapp that this process was started from, or the package's directory."""
    return os.path.abspath(sys.argv[0])


def main(node_path: str) -> int:
    node_dir = NodeDir(node_path)
    node_dir.make()
    try:
        node_dir.lock("keeper.lock")
    except Taken:
        return 3
    keeper = Keeper(node_dir)
    keeper.open()
    node_dir.write_pid("keeper.pid")
    keeper.run()
    return 0
