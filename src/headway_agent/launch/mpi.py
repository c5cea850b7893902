"""mpirun over a gang without ssh: it runs on the first node, and starts its daemons on the others through us.

`lead` runs mpirun on the first node; `hold` waits on each other one, connected to it, as a rank of its own keeper: what
it starts there is held by that node's lease, limits and log. In place of ssh, mpirun calls `reach`, which asks `lead`.
Both ends of a connection prove that they know the gang's key before a word is obeyed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

CONNECT_S_MAX = 120.0
ANSWER_S_MAX = 30.0
NOT_FOUND = 127
LOST = 1
KEY = "HEADWAY_GANG_KEY"
CWD = "HEADWAY_MPI_CWD"
FAILED = "HEADWAY_MPI_FAILED"
LOOK_EVERY_S = 0.2
END_S_MAX = 10.0
CHOSEN = "HEADWAY_MPIRUN"  # Which mpirun, where a machine has several.
MADE_UP = "headway-node-"
# Each rank says who it is as launchers do everywhere, and works where its own node has the code.
RANK = """cd "${HEADWAY_MPI_CWD:-.}" 2>/dev/null
RANK=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-0}}}
LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-0}}
export RANK LOCAL_RANK; HEADWAY_RANK=$RANK; export HEADWAY_RANK
"""
OPEN_MPI_RANK = RANK + 'exec "$@"'
# Hydra waits for ever when a rank on another node ends badly, or its daemon cannot be started there: we tell.
HYDRA_RANK = (
    RANK
    + """trap : TERM INT; "$@"; code=$?
[ $code = 0 ] || (set -C; echo "$RANK $code" > "$HEADWAY_MPI_FAILED") 2>/dev/null
exit $code"""
)


class DaemonLine:
    """One connection between two nodes of a gang: words as lines of JSON."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._file = connection.makefile("r", encoding="utf-8")
        self._lock = threading.Lock()

    def say(self, **words: Any) -> None:
        with self._lock:
            self.connection.sendall(json.dumps(words).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next words; OSError when there are none to come."""
        line = self._file.readline(1_000_000)
        if not line.endswith("\n"):
            raise ConnectionError("the other side went away")
        said = json.loads(line)
        if not isinstance(said, dict):
            raise ConnectionError("the other side speaks another language")
        return said

    def close(self) -> None:
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()


def proof(role: str, nonce: str, rank: int) -> str:
    """What only somebody who knows the gang's key can say."""
    key = os.environ.get(KEY, "").encode()
    return hmac.new(key, f"{role} {rank} {nonce}".encode(), hashlib.sha256).hexdigest()


def _proven(role: str, nonce: str, rank: int, said: object) -> bool:
    return hmac.compare_digest(proof(role, nonce, rank), str(said))


# --- the first node ---------------------------------------------------------------------------------------------------


class LaunchLead:
    """Who hangs on to us, and what runs there for mpirun."""

    def __init__(self) -> None:
        self.holders: dict[int, DaemonLine] = {}
        self.waiting: dict[tuple[int, str], DaemonLine] = {}  # Calls of `reach`, by node and number.
        self.changed = threading.Condition()
        self.failed = ""  # What ended badly first, and where.
        self.code = 0
        self.stopping = False

    def stop(self) -> None:
        self.stopping = True

    def listen(self, listener: socket.socket, serve: Any) -> None:
        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=self._served, args=(serve, connection), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def _served(self, serve: Any, connection: socket.socket) -> None:
        line = DaemonLine(connection)
        try:
            connection.settimeout(ANSWER_S_MAX)
            serve(line)
        except (OSError, ValueError, KeyError):
            pass  # Whoever it was is gone, or is none of us.
        finally:
            line.close()

    def holder(self, line: DaemonLine) -> None:
        """Another node: it proves who it is, we prove who we are, and then we hear how its commands end."""
        nonce = secrets.token_hex(16)
        line.say(nonce=nonce)
        said = line.hear()
        rank = int(said["node"])
        if not _proven("hold", nonce, rank, said["proof"]):
            return
        line.say(proof=proof("lead", str(said["nonce"]), rank))
        line.connection.settimeout(None)
        with self.changed:
            self.holders[rank] = line
            self.changed.notify_all()
        try:
            while True:
                ended = line.hear()
                self._end(rank, str(ended["ended"]), int(ended["code"]), str(ended.get("said", "")))
        finally:
            with self.changed:
                self.holders.pop(rank, None)
                left = [number for node, number in self.waiting if node == rank]
            for number in left:
                self._end(rank, number, LOST)

    def reached(self, line: DaemonLine) -> None:
        """mpirun wants a command on another node."""
        asked = line.hear()
        rank, number = int(asked["node"]), secrets.token_hex(8)
        with self.changed:
            if not self.changed.wait_for(lambda: rank in self.holders, CONNECT_S_MAX):
                line.say(code=LOST, said=f"node {rank} of the gang has not called within {CONNECT_S_MAX:g} s")
                return
            self.waiting[rank, number] = line
            holder = self.holders[rank]
        line.connection.settimeout(None)
        holder.say(run=number, command=str(asked["command"]))
        line._file.readline()  # Until it hangs up: its command has ended, or mpirun has.

    def _end(self, rank: int, number: str, code: int, said: str = "") -> None:
        with self.changed:
            line = self.waiting.pop((rank, number), None)
            if code and not self.failed:
                self.failed, self.code = said or f"mpirun's daemon on node {rank} ended with exit code {code}", code
        if line is not None:
            try:
                line.say(code=code)
            except OSError:
                pass

    def let_go(self) -> None:
        """mpirun is over: everybody may end."""
        with self.changed:
            known = list(self.holders.values())
        for line in known:
            try:
                line.say(over=True)
            except OSError:
                pass


def lead(words: list[str], own: Sequence[str] | None = None) -> int:
    """`HOSTFILE WORLD COMMAND…`: run mpirun, tell the others when it is over, and end as it ended."""
    hosts, world, command = words[0], words[1], words[2:]
    asked = os.environ.get(CHOSEN, "")
    program = shutil.which(asked) if asked else shutil.which("mpirun") or shutil.which("mpiexec")
    if program is None:
        sys.stderr.write(
            f"headway: no {asked or 'mpirun'} on the PATH of this node; install Open MPI or MPICH there, "
            f"name it with {CHOSEN}, or use --launcher plain\n"
        )
        return NOT_FOUND
    leading = LaunchLead()
    signal.signal(signal.SIGTERM, lambda *_: leading.stop())  # mpirun is told too, and knows how its ranks are to end.
    place = tempfile.mkdtemp(prefix="headway-mpi-")  # The path of a socket must be short.
    listener, door = _listening(), socket.socket(socket.AF_UNIX)
    try:
        door.bind(f"{place}/door")
        door.listen(1024)
        leading.listen(listener, leading.holder)
        leading.listen(door, leading.reached)
        return _mpirun(program, place, leading, hosts, int(world), command, own or own_words())
    finally:
        leading.let_go()
        listener.close()
        door.close()
        shutil.rmtree(place, ignore_errors=True)


def _mpirun(
    program: str, place: str, leading: LaunchLead, hosts: str, world: int, command: list[str], own: Sequence[str]
) -> int:
    names = names_of(os.environ.get("HEADWAY_NODES", "127.0.0.1").split(","))
    agent = f"{place}/reach"
    with open(agent, "w") as file:
        quoted = " ".join(f"'{word}'" for word in [*own, "mpi-reach", f"{place}/door", ",".join(names)])
        file.write(f'#!/bin/sh\nexec {quoted} "$@"\n')
    os.chmod(agent, 0o700)
    ranks = max(1, world // len(names))
    open_mpi = is_open_mpi(program)
    with open(hosts, "w") as file:
        file.write("".join(f"{name} slots={ranks}\n" if open_mpi else f"{name}:{ranks}\n" for name in names))
    if open_mpi:
        return _open_mpi(program, agent, names, [*("--hostfile", hosts, "-np", str(world)), "/bin/sh", "-c"], command)
    return _hydra(program, agent, leading, ["-f", hosts, "-n", str(world), "/bin/sh", "-c"], command)


def _open_mpi(program: str, agent: str, names: list[str], words: list[str], command: list[str]) -> int:
    # Daemons would start further daemons with a program that is on this node only.
    env = dict(os.environ, **{CWD: os.getcwd()})
    env.update(OMPI_MCA_plm_rsh_agent=agent, OMPI_MCA_plm_rsh_no_tree_spawn="1", OMPI_MCA_plm="rsh")
    if any(name.startswith(MADE_UP) for name in names):
        # One machine plays several nodes, and Open MPI names shared memory by machine: ranks would mix theirs up.
        env.setdefault("OMPI_MCA_btl", "self,tcp")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return _as_code(subprocess.call([program, *root, *words, OPEN_MPI_RANK, "sh", *command], env=env))


def _hydra(program: str, agent: str, leading: LaunchLead, words: list[str], command: list[str]) -> int:
    """MPICH's mpirun. Its daemons call back by this node's address: nobody else need know its name."""
    note = f"{os.path.dirname(agent)}/failed"
    env = dict(os.environ, **{CWD: os.getcwd(), FAILED: note})
    argv = [program, "-launcher", "ssh", "-launcher-exec", agent, "-genvnone"]
    argv += ["-localhost", os.environ.get("MASTER_ADDR", "127.0.0.1"), *words, HYDRA_RANK, "sh", *command]
    process = subprocess.Popen(argv, env=env)
    while process.poll() is None and not (leading.failed or os.path.exists(note) or leading.stopping):
        time.sleep(LOOK_EVERY_S)
    # Who is asked to stop ends as it likes, within the grace.
    said, code = "", 0
    if not leading.stopping:
        said, code = (leading.failed, leading.code) if leading.failed else read_note(note)
    if code:
        process.terminate()
    try:
        ended = process.wait(END_S_MAX if code else None)
    except subprocess.TimeoutExpired:
        process.kill()
        ended = process.wait()
    if said:  # At last, behind what mpirun has to say of it.
        sys.stderr.write(f"headway: {said}\n")
    return code or _as_code(ended)


def read_note(path: str) -> tuple[str, int]:
    """Which rank of this node ended badly, and how: nothing, if none did."""
    try:
        with open(path) as file:
            rank, code = file.read().split()
        return f"rank {rank} ended with exit code {code}", int(code)
    except (OSError, ValueError):
        return "", 0


def _as_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def names_of(addresses: Sequence[str]) -> list[str]:
    """What mpirun calls each node: its address, or a made-up name where nodes share one (as on one machine)."""
    return [
        address if addresses.index(address) == rank else f"{MADE_UP}{rank}" for rank, address in enumerate(addresses)
    ]


def own_words() -> list[str]:
    """How this very program is started."""
    return [sys.executable, os.path.abspath(sys.argv[0])]


def _listening() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", int(os.environ.get("MASTER_PORT", "0"))))
    listener.listen(1024)
    return listener


def is_open_mpi(program: str) -> bool:
    try:
        said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return b"Open MPI" in said.stdout or b"OpenRTE" in said.stdout


def reach(words: list[str]) -> int:
    """`DOOR NAMES HOST COMMAND…`, called by mpirun in place of ssh: have the command run on that node."""
    door, names, rest = words[0], words[1].split(","), words[2:]
    while rest[:1] and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-l", "-p", "-o", "-i", "-F") else rest[1:]  # Words for ssh.
    if not rest or rest[0] not in names:
        sys.stderr.write(f"headway: {rest[0] if rest else 'nobody'} is not a node of this gang\n")
        return LOST
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(door)
        line = DaemonLine(connection)
        line.say(node=names.index(rest[0]), command=" ".join(rest[1:]))
        try:
            said = line.hear()
        except (OSError, ValueError):
            return LOST
    if said.get("said"):
        sys.stderr.write(f"headway: {said['said']}\n")
    return int(said["code"])


# --- the other nodes --------------------------------------------------------------------------------------------------


def hold() -> int:
    """Do what the first node asks, until it says that mpirun is over."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # mpirun passes it on to our ranks, and then says that it is over.
    address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "0")))
    give_up_at = time.monotonic() + CONNECT_S_MAX
    while True:
        try:
            connection = socket.create_connection(address, ANSWER_S_MAX)
            break
        except OSError as error:
            if time.monotonic() > give_up_at:
                sys.stderr.write(f"headway: the first node at {address[0]}:{address[1]} cannot be reached: {error}\n")
                return LOST
            time.sleep(0.2)
    line = DaemonLine(connection)
    started: list[subprocess.Popen[bytes]] = []
    try:
        if not _introduced(line):
            sys.stderr.write(f"headway: who answers at {address[0]}:{address[1]} is not the first node of this gang\n")
            return LOST
        connection.settimeout(None)
        while True:
            said = line.hear()
            if said.get("over"):
                return 0
            started.append(_begin(line, str(said["run"]), str(said["command"])))
    except (OSError, ValueError, KeyError):
        sys.stderr.write("headway: the first node went away without a word\n")
        return LOST
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
        line.close()


def _introduced(line: DaemonLine) -> bool:
    rank, nonce = int(os.environ.get("HEADWAY_NODE_RANK", "0")), secrets.token_hex(16)
    asked = line.hear()
    line.say(node=rank, nonce=nonce, proof=proof("hold", str(asked["nonce"]), rank))
    return _proven("lead", nonce, rank, line.hear().get("proof"))


def _begin(line: DaemonLine, number: str, command: str) -> subprocess.Popen[bytes]:
    # Beside the list of hosts, in the directory of the task, which goes with it.
    note = f"{os.path.dirname(os.environ.get('HEADWAY_HOSTFILE', ''))}/mpi-failed-{number}"
    env = dict(os.environ, **{CWD: os.getcwd(), FAILED: note})
    env["TMPDIR"] = tempfile.gettempdir()
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, env=env)

    def tell() -> None:
        ended = _as_code(process.wait())
        said, code = read_note(note)
        try:
            line.say(ended=number, code=code or ended, said=said)
        except OSError:
            pass

    threading.Thread(target=tell, daemon=True).start()
    return process
