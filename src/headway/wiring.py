"""Settings in, running server out: the only file that picks implementations, clock, ids and chance.

`serve` blocks until the server is asked to end. Jobs do not notice: their agents go on, and call home again.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import structlog

from headway.core.errors import OperatorError, ServerTaken
from headway.core.model import Pool
from headway.settings import Home, Resolved, Settings
from headway.storage.protocol import Storage

ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # Without letters and digits that look alike.
ID_LENGTH = 8
GARBAGE_LOOKED_FOR_AFTER = 50_000  # Objects.

log = structlog.get_logger()


def new_id() -> str:
    """A short id that can be read aloud: about 40 bits of chance."""
    number = secrets.randbelow(len(ALPHABET) ** ID_LENGTH)
    letters = []
    for _ in range(ID_LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return "".join(letters)


def version() -> str:
    try:
        return metadata.version("headway")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def own_home(home: Home) -> int:
    """Make this process the only server of this home; the lock goes with the process."""
    for place in (home.config, home.data, home.state):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(place, 0o700)
    handle = os.open(home.lock_file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ServerTaken(f"another server runs on {home.state}", "headway server status shows it") from None
    return handle


def read_token(home: Home) -> str:
    """The private token of this home, made at the first start and readable by its owner alone."""
    try:
        return home.token_file.read_text().strip()
    except FileNotFoundError:
        pass
    token = secrets.token_urlsafe(32)
    draft = home.token_file.with_suffix(".new")
    handle = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, home.token_file)
    return token


def local_pool(settings: Settings) -> Pool:
    nodes = settings.local_nodes
    return Pool("local", "local", nodes_min=nodes, nodes_max=nodes, lease_s=settings.local_lease_s)


def engines() -> dict[str, Callable[[Pool], Pool]]:
    """The engines that there are, and how each reads the options of a pool."""
    from headway.engines import local, slurm, ssh_options

    return {"local": local.read_options, "slurm": slurm.read_options, "ssh": ssh_options.read_options}


def house_id(signer: Any) -> str:
    """A name for all servers that share one store: what they have on a host is theirs together, and nobody else's."""
    import hashlib

    return hashlib.sha256(signer.server_token("house").encode()).hexdigest()[:12]


def set_up(store: Any, resolved: Resolved, epoch: int) -> None:
    """Put what settings and files say of queues, pools and licences into the store; what they do not name stays."""
    from headway.core.pool_spec import read_pool
    from headway.core.queue_spec import read_licences, read_queue
    from headway.store.protocol import Batch, Setup

    sections = resolved.sections
    pools = {name: read_pool(name, raw, engines()) for name, raw in sections.get("pool", {}).items()}
    if resolved.settings.local_nodes and "local" not in pools:
        pools["local"] = local_pool(resolved.settings)
    queues = [read_queue(name, raw) for name, raw in sections.get("queue", {}).items()]
    setup = Setup(
        queues=[queue for queue in queues if queue not in store.queues()],
        pools=[pool for pool in pools.values() if pool not in store.pools()],
    )
    if sections.get("licences"):
        setup.licences = {**store.licences(), **read_licences(sections["licences"])}
    if setup != Setup():
        store.commit(Batch(setup=setup), epoch)


def write_server_file(home: Home, url: str) -> None:
    """Tell CLI and agents where the server is; renamed into place, so nobody reads half of it."""
    start = Path(f"/proc/{os.getpid()}/stat").read_text().rsplit(")", 1)[1].split()[19]
    draft = home.server_file.with_suffix(".new")
    handle = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump({"url": url, "pid": os.getpid(), "start": int(start), "version": version()}, file)
    os.replace(draft, home.server_file)


def listen(settings: Settings, home: Home) -> socket.socket:
    """A listening socket: on the port that was set, else on the one of last time if it is free, else on any."""
    wishes = [settings.port] if settings.port else [_last_port(home), 0]
    for wish in wishes:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        # The protocol is named because asyncio sets TCP_NODELAY only then; without it every answer takes 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, wish))
        except OSError as error:
            listener.close()
            if wish == wishes[-1]:
                raise OperatorError(f"cannot listen on {settings.host}:{wish}: {error.strerror}") from None
            continue
        listener.listen(1024)
        listener.set_inheritable(False)
        return listener
    raise AssertionError("a free port is always among the wishes")


def _last_port(home: Home) -> int:
    try:
        return int(json.loads(home.server_file.read_text())["url"].rsplit(":", 1)[1])
    except (OSError, ValueError, KeyError, IndexError):
        return 0


@dataclass
class Server:
    """A server that was put together and not yet started."""

    app: Any
    services: Any
    control: Any
    performer: Any
    housekeeping: Any
    store: Any
    lead: Any
    name: str


def store_url(settings: Settings, home: Home) -> str:
    return settings.store_url or f"sqlite:///{home.data / 'headway.db'}"


def open_storage(settings: Settings, home: Home) -> Storage:
    """A folder for a path, a bucket for a URL."""
    from headway.storage.folder import FolderStorage
    from headway.storage.objects import ObjectStorage

    place = settings.storage_url.removeprefix("file://")
    return ObjectStorage(place) if "://" in place else FolderStorage(place or home.data / "storage")


def engine_maker(
    settings: Settings, home: Home, agent: Any, storage: Storage, signer: Any, url: str
) -> Callable[[Pool], Any]:
    """How the engine of a pool is made."""
    from headway.engines.local import LocalEngine
    from headway.engines.slurm import SlurmEngine
    from headway.engines.ssh import SshEngine

    house, advertised = house_id(signer), settings.advertise_url or url

    def engine_for(pool: Pool) -> Any:
        if pool.engine == "slurm":
            return SlurmEngine(pool, house, advertised, signer.token_for, settings)
        if pool.engine == "ssh":
            return SshEngine(home, pool, agent, settings, advertised, house, signer.token_for, url)
        return LocalEngine(home, pool, agent, storage.local_dir(), settings, signer.token_for)

    return engine_for


def assemble(resolved: Resolved, home: Home, url: str, on_lost_lead: Callable[[], None]) -> Server:
    """Put the parts together: store, storage, engines, control, API."""
    from headway.api.app import create_app
    from headway.api.services import Hub, Services
    from headway.control.accounts import shared_signer
    from headway.control.collecting import Collecting
    from headway.control.cycle import Cycle
    from headway.control.foresight import Aside
    from headway.control.housekeeping import Housekeeping
    from headway.control.performer import Performer
    from headway.control.thread import ControlThread
    from headway.engines.agent_zip import build
    from headway.store.sql import SqlStore

    settings = resolved.settings
    name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    token = read_token(home)
    store = SqlStore.open(store_url(settings, home))
    storage = open_storage(settings, home)
    # The home's lock is held by this process, so a lease that is still running belongs to a dead server.
    lead = take_lead(store, name, url, settings, alone=not settings.store_url)
    set_up(store, resolved, lead.epoch)
    signer = shared_signer(store)
    agent = build()
    hub = Hub()
    housekeeping: list[Any] = []
    collecting: list[Any] = []

    def publish(said: Any) -> None:
        hub.publish(said)
        for each in housekeeping:
            each.note(said.logs)
            each.dropped(said.loose_keys)
        for each in collecting:
            each.dropped(said.dropped)

    cycle = Cycle(
        store, settings, [], lead.epoch, time.monotonic(), publish, agent.version, new_id, signer.key, Aside()
    )
    control = ControlThread(cycle, on_lost_lead)
    performer = Performer(control, engine_maker(settings, home, agent, storage, signer, url))
    about = {"version": version(), "pid": os.getpid(), "url": url, "store": "sqlite"}
    about["storage"] = "folder" if storage.local_dir() else settings.storage_url
    services = Services(
        settings, store, storage, control, hub, token, agent.data, agent.version, new_id, time.time(),
        time.time, time.monotonic, about, engines(),
    )  # fmt: skip
    services.examine = performer.examine
    collecting.append(Collecting(store, storage, services.shelf, control))
    also = [collecting[0].collect_unnamed]
    housekeeping.append(Housekeeping(store, storage, control, settings, also=also))
    return Server(create_app(services), services, control, performer, housekeeping[0], store, lead, name)


def take_lead(store: Any, name: str, url: str, settings: Settings, alone: bool) -> Any:
    now = time.time()
    held = store.lead()
    if alone and held is not None and held.until > now:
        store.drop_lead(held.server, held.epoch)
    lead = store.take_lead(name, url, now, settings.lead_lease_s)
    if lead is None:
        raise ServerTaken(f"{held.server if held else 'another server'} leads on this database")
    return lead


def serve(resolved: Resolved, home: Home) -> None:
    """Run the server until SIGTERM or SIGINT."""
    settings = resolved.settings
    lock = own_home(home)
    listener = listen(settings, home)
    host, port = listener.getsockname()[:2]
    url = f"http://{host}:{port}"
    ended = threading.Event()
    runner: list[Any] = []

    def end() -> None:
        ended.set()
        for each in runner:
            each.should_exit = True

    server = assemble(resolved, home, url, end)
    runner.append(http_server(server.app, end, server.services.end_waiting))
    server.control.start()
    server.performer.start()
    server.housekeeping.start()
    threading.Thread(target=keep_lead, args=(server, settings, ended, end), name="lead", daemon=True).start()
    write_server_file(home, url)
    collect_seldom()
    log.info("server started", url=url, pid=os.getpid(), epoch=server.lead.epoch)
    try:
        runner[0].run(sockets=[listener])
    finally:
        ended.set()
        for part in (server.housekeeping, server.performer, server.control):
            part.stop()
        server.store.drop_lead(server.name, server.lead.epoch)
        server.store.close()
        os.close(lock)
        log.info("server ended", pid=os.getpid())


def collect_seldom() -> None:
    """Look for cyclic garbage less often: there is little of it, and each look walks through every job in memory."""
    gc.collect()
    gc.freeze()  # What the start has made stays anyway.
    gc.set_threshold(GARBAGE_LOOKED_FOR_AFTER, 20, 50)


def http_server(app: Any, end: Callable[[], None], end_waiting: Callable[[], None]) -> Any:
    """The HTTP server, which ends by our own `end`: uvicorn's would raise the signal again and skip our farewell."""
    import asyncio

    import uvicorn

    class HttpServer(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            end()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Done while the connections are told to close: a caller who is let go earlier would only call again.
            asyncio.get_running_loop().call_soon(end_waiting)
            await super().shutdown(sockets)

    return HttpServer(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=1)
    )


def keep_lead(server: Server, settings: Settings, ended: threading.Event, end: Callable[[], None]) -> None:
    """Renew the leader's lease until the server ends; without it, end the server."""
    while not ended.wait(settings.lead_lease_s / 3):
        try:
            if not server.store.keep_lead(server.name, server.lead.epoch, time.time(), settings.lead_lease_s):
                log.error("lead lost", epoch=server.lead.epoch)
                end()
                return
        except Exception as error:
            # A full disk or a busy database is not the loss of the lead: the epoch still guards every write.
            log.warning("lead not renewed", error=repr(error))


def ignore_hangup() -> None:
    """A server outlives the terminal that started it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
