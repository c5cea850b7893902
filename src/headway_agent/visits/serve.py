"""Visits: somebody's command, shell or connection to a port, in the place where a task runs.

The server says in a reply that somebody is at the door; the agent opens two streams to it and serves the visit on
threads of its own. A visited command runs beside the ranks, with the environment and in the directory of one of them,
and ends with the task, with the visitor, and with the agent.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import threading

from headway_agent.decide.node_features import NodeFeature
from headway_agent.node import processes
from headway_agent.node.rank_places import TAG, NoPlace, place_of
from headway_agent.server_link.http import ServerHome, Unreachable
from headway_agent.visits import terminal
from headway_agent.visits.streams import Receiving, Sending
from headway_wire import frames
from headway_wire.frames import BEAT, DATA, END, EXIT, SIGNAL, SIZE, STDERR, TROUBLE, frame
from headway_wire.kinds import Wrong
from headway_wire.reply import PORT, VisitCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from headway_agent.node.directory import FactLog

VISITS_MAX = 64
PIECE_BYTES = 1 << 16
BEAT_S = 15.0
CONNECT_S_MAX = 10.0
HANG_UP_S = 2.0
HUNG_UP = 128 + signal.SIGHUP
SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


class Visits(NodeFeature):
    """All visits of this node. What it hears, it serves on threads: the agent's loop goes on at once."""

    word = "visits"

    def __init__(self, home: ServerHome, node_path: str, log: FactLog, is_going: Callable[[str], bool]) -> None:
        self._home, self._node_path, self._log, self._is_going = home, node_path, log, is_going
        self._lock = threading.Lock()
        self._served: dict[str, ServedVisit] = {}

    def hear(self, told: Any) -> None:
        for visit in told:
            try:
                self.open(VisitCall.read(visit))
            except Wrong as wrong:
                self._log.say("a visit that cannot be read", detail=str(wrong))

    def open(self, told: VisitCall) -> None:
        with self._lock:
            if told.id in self._served or len(self._served) >= VISITS_MAX:
                return
            visit = self._served[told.id] = ServedVisit(told, self._home, self._node_path)
        self._log.say("visit", id=visit.id, task=visit.task, kind=told.kind)
        threading.Thread(target=self._serve, args=(visit,), name="visit", daemon=True).start()

    def _serve(self, visit: ServedVisit) -> None:
        try:
            visit.serve(self._is_going(visit.task))
        except Exception as error:
            self._log.say("visit failed", id=visit.id, error=repr(error))
        finally:
            with self._lock:
                self._served.pop(visit.id, None)
            self._log.say("visit over", id=visit.id)

    def end(self, task: str) -> None:
        """The task is over: so are all visits to it."""
        with self._lock:
            ended = [visit for visit in self._served.values() if visit.task == task]
        for visit in ended:  # What is deaf to a hang-up takes its time: nobody else waits for that.
            threading.Thread(target=visit.end, name="visit-end", daemon=True).start()

    def sweep(self) -> None:
        """End what the visits of an earlier agent of this node have left."""
        for seen in processes.scan():
            tags = processes.tags(seen.pid)
            if TAG in tags and tags.get("HEADWAY_NODE_DIR") == self._node_path:
                _kill(seen.pid, signal.SIGKILL)


class ServedVisit:
    def __init__(self, told: VisitCall, home: ServerHome, node_path: str) -> None:
        self.id, self.task = told.id, told.task
        self._told, self._home, self._node_path = told, home, node_path
        self._sending: Sending | None = None
        self._receiving: Receiving | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._end_it: Callable[[], None] = lambda: None
        self._with_task = False  # Whether it ends because its task does.

    def serve(self, going: bool) -> None:
        """Open both streams, and serve the visit until it is over."""
        try:
            self._sending = Sending(self._home, f"/agent/visits/{self.id}/out")
            self._receiving = Receiving(self._home, f"/agent/visits/{self.id}/in")
        except Unreachable:
            return  # The visitor has gone, or the server: nobody to tell.
        try:
            if not going:
                raise NoPlace("the task does not run on this node any more")
            threading.Thread(target=self._beat, name="visit-beat", daemon=True).start()
            if self._told.kind == PORT:
                self._port(self._told.port)
            else:
                self._command()
        except NoPlace as problem:
            self._say(TROUBLE, str(problem).encode())
        finally:
            self._over.set()
            self._sending.close()
            self._receiving.close()

    def end(self) -> None:
        self._with_task = True
        self._end_it()

    def _say(self, kind: bytes, content: bytes = b"") -> bool:
        assert self._sending is not None
        with self._lock:
            try:
                self._sending.send(frame(kind, content))
            except (OSError, AttributeError):
                return False
        return True

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            self._say(BEAT)

    # --- a port ---

    def _port(self, port: int) -> None:
        try:
            sock = socket.create_connection(("127.0.0.1", port), CONNECT_S_MAX)
        except OSError as error:
            raise NoPlace(f"nothing answers on port {port} there: {error.strerror or error}") from None
        sock.settimeout(None)
        self._end_it = lambda: _shut(sock)
        threading.Thread(target=self._into_socket, args=(sock,), name="visit-in", daemon=True).start()
        try:
            while True:
                data = sock.recv(PIECE_BYTES)
                if not data or not self._say(DATA, data):
                    break
        except OSError:
            pass  # Reset by the other side: an end like any other.
        finally:
            self._say(END)
            _shut(sock)
            sock.close()

    def _into_socket(self, sock: socket.socket) -> None:
        assert self._receiving is not None
        try:
            for kind, content in frames.frames(self._receiving.read):
                if kind == DATA:
                    sock.sendall(content)
                elif kind == END:
                    sock.shutdown(socket.SHUT_WR)
                    return
        except (OSError, ValueError):
            pass
        _shut(sock)

    # --- a command ---

    def _command(self) -> None:
        env, cwd = place_of(self.task, self._node_path, self._told.rank)
        env[TAG] = self.id
        argv = list(self._told.command or ()) or [_shell(env)]
        if self._told.tty:
            self._in_terminal(argv, env, cwd)
        else:
            self._with_pipes(argv, env, cwd)

    def _in_terminal(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        env["TERM"] = self._told.term or "xterm"
        size = (self._told.rows or 24, self._told.columns or 80)
        try:
            process, master = terminal.start(argv, env, cwd, size)
        except OSError as error:
            raise NoPlace(_why_not(argv, error)) from None
        self._end_it = lambda: _end_session(process)
        threading.Thread(target=self._into_terminal, args=(process, master), name="visit-in", daemon=True).start()
        try:
            while True:
                data = terminal.read(master, PIECE_BYTES)
                if not data or not self._say(DATA, data):
                    break
            self._finish(process)
        finally:
            os.close(master)

    def _into_terminal(self, process: subprocess.Popen[bytes], master: int) -> None:
        assert self._receiving is not None
        try:
            for kind, content in frames.frames(self._receiving.read):
                if kind == DATA:
                    terminal.write(master, content)
                elif kind == SIZE:
                    rows, columns = content.split()
                    terminal.resize(master, int(rows), int(columns))
                elif kind == SIGNAL:
                    _kill_group(process.pid, int(content))
        except (OSError, ValueError):
            pass
        if not self._over.is_set():
            _end_session(process)  # The visitor hung up.

    def _with_pipes(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, start_new_session=True, bufsize=0
            )
        except OSError as error:
            self._say(STDERR, f"headway: {_why_not(argv, error)}\n".encode())
            self._say(EXIT, b"127" if error.errno == errno.ENOENT else b"126")  # As a shell would say it.
            return
        self._end_it = lambda: _end_session(process)
        threading.Thread(target=self._into_pipe, args=(process,), name="visit-in", daemon=True).start()
        errors = threading.Thread(target=self._copy, args=(process, process.stderr, STDERR), name="visit-err")
        errors.daemon = True
        errors.start()
        self._copy(process, process.stdout, DATA)
        errors.join()
        self._finish(process)

    def _copy(self, process: subprocess.Popen[bytes], pipe: Any, kind: bytes) -> None:
        while True:
            data = os.read(pipe.fileno(), PIECE_BYTES)
            if not data:
                return
            if not self._say(kind, data):
                _end_session(process)
                return

    def _into_pipe(self, process: subprocess.Popen[bytes]) -> None:
        assert self._receiving is not None
        assert process.stdin is not None
        ended = False
        try:
            for kind, content in frames.frames(self._receiving.read):
                if kind == DATA and not ended:
                    process.stdin.write(content)
                elif kind == END:
                    ended = True
                    process.stdin.close()
                elif kind == SIGNAL:
                    _kill_group(process.pid, int(content))
        except BrokenPipeError:
            return  # The command reads no more; what it writes still counts.
        except (OSError, ValueError):
            pass
        if not self._over.is_set():
            _end_session(process)

    def _finish(self, process: subprocess.Popen[bytes]) -> None:
        """Tell the exit code, once the command has ended; what it left running in its session ends with it."""
        try:
            code = process.wait(HANG_UP_S)
        except subprocess.TimeoutExpired:
            _end_session(process)
            code = process.wait()
        _end_session(process)
        code = code if code >= 0 else 128 - code
        if self._with_task:
            self._say(STDERR, b"\r\nheadway: the job has ended here, and this visit with it\r\n")
            code = code or HUNG_UP
        self._say(EXIT, str(code).encode())


def _shell(env: Mapping[str, str]) -> str:
    wanted = (env.get("SHELL", ""), *SHELLS)
    return next((shell for shell in wanted if shell and os.access(shell, os.X_OK)), "/bin/sh")


def _why_not(argv: list[str], error: OSError) -> str:
    return f"cannot start {argv[0]}: {error.strerror or error}"


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End all that a visit has started: its session, and what left it but carries its mark is swept with the task."""
    if process.poll() is None:
        # The shell first: it must not go on to its next command because the present one was ended.
        _kill_group(process.pid, signal.SIGHUP)
        _signal_session(process.pid, signal.SIGHUP)
        try:
            process.wait(HANG_UP_S)
        except subprocess.TimeoutExpired:
            _kill_group(process.pid, signal.SIGKILL)
    _signal_session(process.pid, signal.SIGKILL)


def _signal_session(leader: int, number: int) -> None:
    for seen in list(processes.scan()):
        if seen.session == leader and seen.pid != leader:
            _kill(seen.pid, number)


def _kill_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except OSError:
        pass  # It has just ended.


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # It has just ended.


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # Closed already.
