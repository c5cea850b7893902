"""What an engine asks of a host that it reaches by ssh: look at a node, start its agent, release it.

One question as JSON on standard input, one line of JSON as the answer. Run by the host's own Python, without root. All
of one server's nodes on this host lie in one directory, so several servers can share a host.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from headway_agent.entrypoints import release as entrypoint_release
from headway_agent.node import granted
from headway_agent.node.digest import sha256_of
from headway_agent.node.directory import NodeDir, write_durably
from headway_agent.server_link import tls
from headway_agent.server_link.http import open_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    Asked = Mapping[str, Any]
    Answer = dict[str, Any]

MARK = "headway-answer: "
SOCKET = "home.sock"
TOKEN_MARK = "token.mark"  # The hash of the token that was handed over.
UP_WITHIN_S = 40.0
PROBE_S_MAX = 3.0
LOOK_EVERY_S = 0.01
OUT_BYTES_MAX = 1 << 20
WORDS_BYTES = 4096
# All that an agent gets of the login's environment.
FOR_AGENTS = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
              "SSL_CERT_FILE", "SSL_CERT_DIR", "HEADWAY_AGENT_CA_FILE")  # fmt: skip


class HostTrouble(Exception):
    """The host cannot do what was asked; the sentence says why."""


class HostLock:
    """The directory of one server on this host, with nobody else of that server at work on it."""

    def __init__(self, root: str) -> None:
        self.root, self.lock = root, -1

    def __enter__(self) -> None:
        path = os.path.join(self.root, ".lock")
        while True:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            try:
                self.lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # A release has just removed the directory.
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            try:
                if os.stat(path).st_ino == os.fstat(self.lock).st_ino:
                    return
            except OSError:
                pass  # Removed while we waited for it.
            os.close(self.lock)

    def __exit__(self, *_: Any) -> None:
        os.close(self.lock)


def look(asked: Asked) -> Answer:
    """What is here of a node. Where it is, its agent is told how the server is reached now."""
    root = own_root()
    stat = os.statvfs(root)
    seen: Answer = {
        "root": root,
        "boot_id": granted.boot_id(),
        "now": time.time(),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "free_bytes": stat.f_bavail * stat.f_frsize,
        "user": os.environ.get("USER") or str(os.getuid()),
        "address": own_address(),
    }
    node_dir = NodeDir(os.path.join(root, asked["node"]))
    if asked.get("url") and not os.path.isdir(node_dir.path):
        seen["calls"] = probe(asked["url"], "")
    if not os.path.isdir(node_dir.path):
        return seen
    seen["node"] = {
        "agent": node_dir.read_pid("agent.pid"),
        "keeper": node_dir.read_pid("keeper.pid"),
        "boot_id": _read(node_dir.file("boot.id")),
    }
    try:
        via = _tell(node_dir, asked)
    except OSError as error:
        seen["trouble"] = f"{error.strerror}: {error.filename}"
        return seen
    seen["calls"] = dict(probe(asked["url"], via), via=bool(via))
    if via and not seen["calls"]["answers"]:
        _forget_socket(via)  # So that a new tunnel can have its place.
    return seen


def start(asked: Asked) -> Answer:
    """Start the node's agent, detached from this login, and wait until it has taken the node. Twice is once."""
    root = own_root()
    with HostLock(root):
        node_dir = NodeDir(os.path.join(root, asked["node"]))
        if node_dir.read_pid("agent.pid"):
            return {"agent": node_dir.read_pid("agent.pid")}
        node_dir.make()
        _tell(node_dir, asked, anew=True)
        write_durably(node_dir.file("boot.id"), granted.boot_id().encode())
        argv = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), "agent", "--node-dir", node_dir.path]
        argv += ["--server-file", node_dir.file("server.json"), "--token-file", node_dir.file("token")]
        argv += ["--address", asked.get("address") or own_address(), *asked["flags"]]
        env = {name: value for name, value in os.environ.items() if name in FOR_AGENTS}
        return {"agent": _spawn(node_dir, argv, dict(env, **asked.get("env", {})))}


def _spawn(node_dir: NodeDir, argv: list[str], env: dict[str, str]) -> int:
    out = node_dir.file("agent.out")
    if os.path.exists(out) and os.path.getsize(out) > OUT_BYTES_MAX:
        os.replace(out, out + ".1")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    with open(out, "ab") as said, open(os.devnull) as nothing:
        agent = subprocess.Popen(
            argv, stdin=nothing, stdout=said, stderr=said, cwd="/", env=env, start_new_session=True
        )
    give_up_at = time.monotonic() + UP_WITHIN_S
    while not node_dir.read_pid("agent.pid"):
        if agent.poll() is not None and not node_dir.read_pid("agent.pid"):
            raise HostTrouble(f"the agent ended at once: {tail(out) or 'it said nothing'}")
        if time.monotonic() > give_up_at:
            raise HostTrouble(f"the agent did not take its node within {UP_WITHIN_S:g} s")
        time.sleep(LOOK_EVERY_S)
    agent.returncode = 0  # It stays; nobody here waits for it.
    return node_dir.read_pid("agent.pid")


def release(asked: Asked) -> Answer:
    """End everything of the node and remove it; with the last node goes all that this server has here."""
    root = own_root()
    with HostLock(root):
        node_dir = NodeDir(os.path.join(root, asked["node"]))
        if os.path.isdir(node_dir.path):
            entrypoint_release.main(node_dir.path)
            left = [name for name in ("agent", "keeper") if node_dir.read_pid(f"{name}.pid")]
            if left:
                raise HostTrouble(f"{' and '.join(left)} still alive")
            shutil.rmtree(node_dir.path)
        if not [entry for entry in os.scandir(root) if entry.is_dir() and entry.name != "cache"]:
            shutil.rmtree(root)
            try:
                os.rmdir(os.path.dirname(root))
            except OSError:
                pass  # Another server has something here.
    return {}


def probe(urls: str, via: str) -> Answer:
    """Whether a Headway server answers from here, at one of these addresses, and how."""
    said: Answer = {}
    for url in urls.split(","):
        said = _probe_one(url.strip(), via)
        if said["answers"]:
            break
    return said


def _probe_one(url: str, via: str) -> Answer:
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    host, _, port = authority.rpartition(":") if ":" in authority.rpartition("]")[2] else (authority, "", "")
    name = (host or authority).strip("[]")
    began = time.monotonic()
    try:
        sock = open_socket(via, name, int(port or (443 if scheme == "https" else 80)), PROBE_S_MAX)
        try:
            sock.settimeout(PROBE_S_MAX)
            if scheme == "https":
                from headway_agent.server_link.tls import trusting

                sock = trusting().wrap_socket(sock, server_hostname=name)
            sock.sendall(f"GET /api/v1/health HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n".encode())
            said = b""
            while len(said) < 1 << 16:
                piece = sock.recv(1 << 16)
                if not piece:
                    break
                said += piece
        finally:
            sock.close()
    except (OSError, ValueError) as error:
        return {"answers": False, "detail": str(error) or type(error).__name__}
    ms = round((time.monotonic() - began) * 1000, 1)
    if b'"version"' not in said:
        return {"answers": False, "detail": "something else answers there"}
    return {"answers": True, "ms": ms}


def _tell(node_dir: NodeDir, asked: Asked, anew: bool = False) -> str:
    """Put down where the server is and what to show it; the agent reads both again. Answers the socket to it.

    An agent takes its token away, so that ranks do not find it: it is put down for a new agent, and when it is another.
    """
    path = node_dir.file("server.json")
    try:
        with open(path) as file:
            known = json.load(file)
    except (OSError, ValueError):
        known = {}
    via = known.get("via", "") if asked.get("via") is None else node_dir.file(SOCKET) if asked["via"] else ""
    said = {"url": asked["url"], "via": via}
    if said != known:
        write_durably(path, json.dumps(said).encode())
    if asked.get("ca") and _read(node_dir.file("ca.pem")) != asked["ca"]:
        write_durably(node_dir.file("ca.pem"), asked["ca"].encode())
    tls.adopt(node_dir.file("ca.pem"))
    mark = sha256_of(str(asked.get("token") or "").encode())
    if asked.get("token") and (anew or _read(node_dir.file(TOKEN_MARK)) != mark):
        write_durably(node_dir.file("token"), asked["token"].encode())
        write_durably(node_dir.file(TOKEN_MARK), mark.encode())
    return str(via)


def _forget_socket(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # There is none.


def own_root() -> str:
    return os.path.dirname(os.path.abspath(sys.argv[0]))


def own_address() -> str:
    """The address under which this login reached the host: others of its network reach it there too."""
    spoken = os.environ.get("SSH_CONNECTION", "").split()
    return spoken[2] if len(spoken) == 4 else "127.0.0.1"


def tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - WORDS_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


VERBS = {"look": look, "start": start, "release": release}


def main() -> int:
    asked = json.loads(sys.stdin.buffer.read())
    try:
        answer = VERBS[asked["do"]](asked)
    except HostTrouble as trouble:
        answer = {"error": str(trouble)}
    except OSError as error:
        answer = {"error": f"{error.strerror or error}: {error.filename}" if error.filename else str(error)}
    # A login may have said something before us: the mark finds our line.
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    return 0
