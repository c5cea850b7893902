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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import structlog

from headway import __version__
from headway.core.errors import BadInput, OperatorError, ServerTaken, Unavailable, for_log
from headway.core.model import Pool
from headway.core.spec.engine import rules_of
from headway.engines.elsewhere import ElsewhereEngine, place_of
from headway.engines.kinds import EngineKind, Surroundings, kinds_for
from headway.engines.own_files import own_files
from headway.engines.protocol import Engine
from headway.engines.table import KINDS
from headway.settings import Home, Resolved, Settings, is_loopback, url_at_home
from headway.storage.protocol import Storage
from headway.whole_files import write_durably, write_whole

ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # Without letters and digits that look alike.
ID_LENGTH = 8
GARBAGE_LOOKED_FOR_AFTER = 50_000  # Objects.
ALONE_LEASE_S = 15.0  # Of a server without rivals: nobody waits for its end.

log = structlog.get_logger()


def new_id() -> str:
    """A short id that can be read aloud: about 40 bits of chance."""
    number = secrets.randbelow(len(ALPHABET) ** ID_LENGTH)
    letters = []
    for _ in range(ID_LENGTH):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return "".join(letters)


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
    """The private token of this home, made at the first start and readable by its owner alone.

    Servers that share a database are given the same one by HEADWAY_TOKEN.
    """
    given = os.environ.get("HEADWAY_TOKEN", "").strip()
    try:
        known = home.token_file.read_text().strip()
        if not given or known == given:
            return known
    except FileNotFoundError:
        pass
    token = given or secrets.token_urlsafe(32)
    write_token(home, token)
    return token


def write_token(home: Home, token: str) -> None:
    home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_durably(home.token_file, token + "\n")


def is_shared(settings: Settings) -> bool:
    """Whether other servers may work on the same database: on any but SQLite."""
    return bool(settings.store_url) and not settings.store_url.startswith("sqlite")


def home_of_nodes(settings: Settings, home: Home) -> Home:
    return replace(home, state=Path(settings.local_dir).absolute()) if settings.local_dir else home


def placed(pool: Pool, kinds: Mapping[str, EngineKind], resolved: Resolved, home: Home) -> Pool:
    """A pool with the place of its nodes, where another server must know that they are not its own."""
    if not rules_of(pool, kinds).at_server or not is_shared(resolved.settings):
        return pool
    at = place_of(home_of_nodes(resolved.settings, home), socket.gethostname())
    return replace(pool, options={**pool.options, "at": at})


def files_of_ours(resolved: Resolved, home: Home) -> list[Path]:
    """What nobody else on this machine may read."""
    files = sorted({source for source in resolved.sources.values() if source.endswith(".toml")})
    return own_files(resolved.settings, home, key_file(resolved.settings, home), files)


def set_up(store: Any, resolved: Resolved, home: Home, epoch: int, kinds: Mapping[str, EngineKind]) -> None:
    """Put what settings and files say of queues, pools and licences into the store."""
    from headway.control.server import config_file
    from headway.core.growth.node_names import check_node_names
    from headway.core.spec.pool import read_pool
    from headway.core.spec.queue import read_licences, read_queue

    sections = resolved.sections
    pools = {name: read_pool(name, raw, kinds) for name, raw in sections.get("pool", {}).items()}
    alone = not is_shared(resolved.settings) and resolved.settings.accounts == "off"
    for kind in kinds.values():
        own = kind.own_pool(resolved, alone)
        if own is not None and own.name not in pools:
            pools[own.name] = own if kind.refusal(resolved.settings) is None else kind.read(own)
    pools = {name: placed(pool, kinds, resolved, home) for name, pool in pools.items()}
    named = frozenset(pools)
    for known in store.pools():
        ours = pools.get(known.name)
        if ours is not None and known.options.get("at", "") != ours.options.get("at", ""):
            log.warning("pool left alone", pool=known.name, at=known.options.get("at", ""))
            del pools[known.name]
    for pool in pools.values():
        others = [*pools.values(), *(known for known in store.pools() if known.name not in pools)]
        check_node_names(pool, others, kinds)
    queues = [read_queue(name, raw) for name, raw in sections.get("queue", {}).items()]
    given = config_file.Given(tuple(queues), tuple(pools.values()), read_licences(sections.get("licences")), named)
    config_file.set_up(store, given, epoch, home.state / "from-file.json")
    for kind in kinds.values():
        refusal = kind.refusal(resolved.settings)
        if refusal is not None:
            config_file.let_go(store, [pool for pool in store.pools() if pool.engine == kind.name], epoch, refusal)


def write_server_file(home: Home, url: str) -> None:
    """Tell CLI and agents where the server is; renamed into place, so nobody reads half of it."""
    start = Path(f"/proc/{os.getpid()}/stat").read_text().rsplit(")", 1)[1].split()[19]
    said = {"url": url, "pid": os.getpid(), "start": int(start), "version": __version__}
    write_whole(home.server_file, json.dumps(said))


def check_exposure(settings: Settings) -> None:
    """Refuse to be reached by others with nothing but a private token, or in the clear."""
    if settings.accounts not in ("on", "off"):
        raise BadInput(f'accounts: "{settings.accounts}" is neither on nor off')
    if bool(settings.tls_cert_file) != bool(settings.tls_key_file):
        raise BadInput("tls_cert_file and tls_key_file: one is set without the other")
    for name in ("tls_cert_file", "tls_key_file", "ca_file"):
        path = getattr(settings, name)
        if path and not os.access(path, os.R_OK):
            raise OperatorError(f"{name}: {path} cannot be read")
    if is_loopback(settings.host):
        return
    if settings.accounts != "on":
        raise BadInput(
            f'host: "{settings.host}" can be reached by others, and nobody signs in on this server',
            'set accounts = "on" to make it a shared server, or host = "127.0.0.1"',
        )
    if not settings.tls_cert_file and settings.insecure_http != "on":
        raise BadInput(
            f'host: "{settings.host}" can be reached by others, and tokens would travel in the clear',
            'set tls_cert_file and tls_key_file; or insecure_http = "on" where a proxy or the network sees to it',
        )


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
    """A server that was put together and not yet started. What it does as a leader comes with a term."""

    resolved: Resolved
    home: Home
    store: Any
    storage: Storage
    agent: Any
    services: Any
    app: Any
    me: Any
    url: str  # Where it listens.
    found: Any  # What storage said of itself.
    kinds: Mapping[str, EngineKind]
    addresses: Callable[[], tuple[str, ...]] = tuple


@dataclass
class Term:
    """All that leads in this process: from the taking of the lead to its end."""

    server: Server
    control: Any
    performer: Any
    housekeeping: Any
    parts: dict[str, Any]  # What features' routes share, by feature.
    beside: list[Any]  # What features have at work while this server leads.

    def start(self) -> None:
        for part in (self.control, self.performer, self.housekeeping, *self.beside):
            part.start()

    def stop(self) -> None:
        for part in (*reversed(self.beside), self.housekeeping, self.performer, self.control):
            part.stop()


def store_url(settings: Settings, home: Home) -> str:
    return settings.store_url or f"sqlite:///{home.data / 'headway.db'}"


def key_file(settings: Settings, home: Home) -> Path:
    return Path(settings.secrets_key_file).expanduser() if settings.secrets_key_file else home.config / "secrets.keys"


def key_ring(settings: Settings, home: Home) -> Any:
    """What seals secrets and signs tokens. All servers that share a database need the same keys."""
    from headway.control.access.sealing import KeyRing

    return KeyRing(key_file(settings, home), make=not is_shared(settings))


def open_storage(settings: Settings, home: Home) -> Storage:
    """A folder for a path, a bucket for a URL."""
    from headway.storage.folder import FolderStorage
    from headway.storage.objects import ObjectStorage

    place = settings.storage_url.removeprefix("file://")
    if "://" not in place:
        return FolderStorage(place or home.data / "storage")
    return ObjectStorage(place, settings.storage_endpoint, read_keys(settings.storage_key_file))


def look_at_storage(store: Any, storage: Storage, settings: Settings, accept: bool = False) -> Any:
    """What storage says of itself: see control/server/storage_identity.py."""
    from headway.control.server.storage_identity import look

    at = storage.local_dir() or " ".join(filter(None, (settings.storage_url, settings.storage_endpoint)))
    return look(store, storage, at, new_id, accept, alone=not is_shared(settings))


def read_keys(path: str) -> dict[str, str]:
    """The object store's keys: lines of NAME=value, as they would stand in the environment."""
    if not path:
        return {}
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f'storage_key_file: "{path}" cannot be read: {error}') from None
    pairs = [line.partition("=") for line in map(str.strip, lines) if line and not line.startswith("#")]
    return {name.removeprefix("export ").strip(): value.strip().strip("\"'") for name, _, value in pairs}


def open_store(settings: Settings, home: Home) -> Any:
    """The store; one that other servers may share is not migrated by the way."""
    from headway.features.catalog import load
    from headway.store.sql.store import SqlStore

    return SqlStore.open(store_url(settings, home), migrating=not is_shared(settings), layouts=load().layouts)


def front_doors() -> dict[str, Any]:
    """The other systems' APIs that this server speaks, by name."""
    from headway import facades

    return {name: import_module(f"headway.facades.{name}.routes").ROUTES for name in facades.NAMES}


def assemble(
    resolved: Resolved, home: Home, url: str, accept_storage: bool = False, kinds: Sequence[EngineKind] = KINDS
) -> Server:
    """Put together what every server has: store, storage, API."""
    from headway.api.app import create_app
    from headway.api.web.follower_proxy import LeaderStanding
    from headway.api.web.services import Hub, Services
    from headway.control.access.signing_keys import ready
    from headway.control.leader.election import Away
    from headway.control.server.safe_log import hide
    from headway.engines.agent_zip import build
    from headway.features.catalog import load
    from headway.store.protocol import ServerSeen

    settings = resolved.settings
    store, storage, agent = open_store(settings, home), open_storage(settings, home), build()
    ready(store, ring := key_ring(settings, home), is_shared(settings), time.time())
    found = look_at_storage(store, storage, settings, accept_storage)
    hide(token := read_token(home))
    standing = LeaderStanding(leading=False)
    about: dict[str, Any] = {"version": __version__, "pid": os.getpid(), "url": url, "store": "sqlite"}
    about["store"] = "postgresql" if is_shared(settings) else "sqlite"
    about["storage"] = "folder" if storage.local_dir() else settings.storage_url
    about["storage_id"] = found.identity.id if found.identity else ""
    engines = kinds_for(settings, kinds)
    about["engines"] = {name: kind.facts() for name, kind in engines.items()}
    about["advertised"] = settings.advertise_url or url
    services = Services(
        settings, store, storage, Away(lambda: standing.leader), Hub(), token, agent.data, agent.version,
        new_id, time.time(), time.time, time.monotonic, about, standing, ring, features=load(),
        facades=front_doors(),
    )  # fmt: skip
    standing.proofs = lambda address, nonce: services.signer.proofs(address, nonce)
    name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    place = storage.local_dir() or settings.storage_url
    advertised = settings.advertise_url or url
    me = ServerSeen(name, advertised, __version__, socket.gethostname(), os.getpid(), place, time.time())
    return Server(resolved, home, store, storage, agent, services, create_app(services), me, url, found, engines)


def new_term(server: Server, epoch: int, on_lost_lead: Callable[[], None], sure: Callable[[], bool]) -> Term:
    """Put together what a leader has, all of it read from the store: control, engines, housekeeping."""
    from headway.control.access.signing_keys import read_revoked
    from headway.control.files.garbage import Collecting
    from headway.control.files.log_upkeep import Housekeeping
    from headway.control.leader.cycle import Cycle
    from headway.control.leader.engine_calls import Performer
    from headway.control.leader.thread import ControlThread
    from headway.control.leader.turn_dumps import TurnDumps
    from headway.control.state.feature import LeaderOffice
    from headway.control.state.forecast_cache import Aside

    settings, store, storage, services = server.resolved.settings, server.store, server.storage, server.services
    services.signing.know(read_revoked(store))
    set_up(store, server.resolved, server.home, epoch, server.kinds)
    place = server.found.settle(store, epoch)
    told = {"mark": place.mark, "dir": storage.local_dir(), "copy": place.copy}
    housekeeping: list[Any] = []
    collecting: list[Any] = []
    beside: list[Any] = []

    def publish(said: Any) -> None:
        services.hub.publish(said)
        for each in housekeeping:
            each.note(said.logs)
            each.dropped(said.loose_keys)
        for each in beside if said.logs else ():
            each.heard(said.logs)
        for each in collecting:
            each.dropped(said.dropped)

    key, version_ = services.signer.gangs, server.agent.version
    features = services.features
    cycle = Cycle(
        store, settings, [], epoch, time.monotonic(), publish, version_, new_id, key, Aside(), told, server.kinds,
        features,
    )  # fmt: skip
    cycle.servers = server.addresses
    turn: Any = Cycle.turn
    if settings.dump_turns:
        dumps = TurnDumps(Path(settings.dump_turns).expanduser(), cycle, new_id)
        turn, services.new_id = dumps.turn, dumps.new_id
    control = ControlThread(cycle, on_lost_lead, sure, turn=turn)
    performer = Performer(control, engine_maker(server))
    services.examine, services.render, services.release = performer.examine, performer.render, performer.release
    office = LeaderOffice(store, storage, control, settings, services.new_parts(control))
    sweeps = [partial(feature.sweep, office) for feature in features.every]
    collecting.append(Collecting(store, storage, control, also=sweeps))
    also = [collecting[0].collect_unnamed]
    housekeeping.append(Housekeeping(store, storage, control, settings, also=also))
    beside += [part for feature in features.every for part in feature.lead(office)]
    return Term(server, control, performer, housekeeping[0], dict(office.parts), beside)


def surroundings(server: Server) -> Surroundings:
    """What this server has for its engines."""
    from headway.control.access.signing_keys import house_id

    settings, services, several = server.resolved.settings, server.services, is_shared(server.resolved.settings)
    return Surroundings(
        settings=settings,
        home=server.home,
        home_of_nodes=home_of_nodes(settings, server.home),
        house=house_id(server.store),
        agent=server.agent,
        storage_dir=server.storage.local_dir(),
        own_files=files_of_ours(server.resolved, server.home),
        token_for=lambda node: str(services.signer.token_for(node)),
        code_for=lambda node: str(services.signer.code_for(node)),
        listens_at=server.url,
        addresses=(lambda: server.addresses()) if several else (lambda: (server.me.address,)),
        several=several,
        env=os.environ,
    )


def engine_maker(server: Server) -> Callable[[Pool], Engine]:
    """How the engine of a pool is made."""
    around = surroundings(server)
    here = place_of(around.home_of_nodes, socket.gethostname())

    def engine_for(pool: Pool) -> Engine:
        kind = server.kinds.get(pool.engine)
        if kind is None:
            raise Unavailable(f'this server has no engine "{pool.engine}"', f"it has {', '.join(server.kinds)}")
        if kind.at_server and pool.options.get("at", here) != here:
            return ElsewhereEngine()
        return kind.make(pool, around)

    return engine_for


def take_lead(server: Server, alone: bool) -> Any:
    """Lead a database that has no other server."""
    store, me = server.store, server.me
    held = store.lead()
    if alone and held is not None and held.until > time.time():
        # The home's lock is held by this process, so a lease that is still running belongs to a dead server.
        store.drop_lead(held.server, held.epoch)
    lead = store.take_lead(me.name, me.address, time.time(), ALONE_LEASE_S)
    if lead is None:
        raise ServerTaken(f"{held.server if held else 'another server'} leads on this database")
    return lead


class Alone:
    """Leads without rivals, and ends with the lead."""

    def __init__(self, server: Server, end: Callable[[], None]) -> None:
        self._server, self._end = server, end
        self._lead = take_lead(server, alone=not server.resolved.settings.store_url)
        self._term = new_term(server, self._lead.epoch, end, lambda: True)
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="lead", daemon=True)

    def start(self) -> None:
        self._term.start()
        self._server.services.stand(self._term.control, self._term.parts)
        self._server.services.standing.change(True, "")
        self._keeper.start()

    def stop(self) -> None:
        self._ended.set()
        self._term.stop()
        self._server.store.drop_lead(self._server.me.name, self._lead.epoch)

    def _keep(self) -> None:
        store, me = self._server.store, self._server.me
        while not self._ended.wait(ALONE_LEASE_S / 3):
            try:
                if not store.keep_lead(me.name, self._lead.epoch, time.time(), ALONE_LEASE_S):
                    log.error("lead lost", epoch=self._lead.epoch)
                    self._end()
                    return
            except Exception as error:
                # A full disk or a busy database is not the loss of the lead: the epoch still guards every write.
                log.warning("lead not renewed", error=for_log(error))


class OneOfSeveral:
    """Leads or follows, as the store says, for as long as the process lives."""

    def __init__(self, server: Server) -> None:
        from headway.control.leader.election import Away, Leadership

        self._server = server
        settings, services = server.resolved.settings, server.services
        self._away = Away(lambda: services.standing.leader)
        self._leadership = Leadership(
            server.store,
            server.me,
            settings.lead_lease_s,
            settings.glance_every_s,
            self._begin,
            self._changed,
            self._glanced,
        )
        self._look_at = 0.0
        server.addresses = lambda: self._leadership.addresses

    def start(self) -> None:
        self._leadership.start()

    def stop(self) -> None:
        self._leadership.stop()

    def _glanced(self, glance: Any) -> None:
        services, mono = self._server.services, time.monotonic()
        services.hub.note(glance.last_seq)
        if mono >= self._look_at:  # As with tokens of people, another server's word counts here soon.
            from headway.control.access.signing_keys import read_revoked

            self._look_at = mono + self._server.resolved.settings.token_cache_s
            services.signing.know(read_revoked(self._server.store))

    def _begin(self, change: Any) -> Term:
        from headway.control.leader.election import told

        leadership, epoch, store = self._leadership, change.lead.epoch, self._server.store
        store.commit(told(change, self._server.me, time.time()), epoch)
        term = new_term(
            self._server, epoch, on_lost_lead=lambda: leadership.lost(epoch), sure=lambda: leadership.sure(epoch)
        )
        self._server.services.hub.note(store.last_seq())
        term.start()
        return term

    def _changed(self) -> None:
        services, leadership = self._server.services, self._leadership
        term: Any = leadership.term
        if term is None:
            services.stand(self._away)
        else:
            services.stand(term.control, term.parts)
        services.standing.change(term is not None, leadership.leader)


def serve(resolved: Resolved, home: Home, accept_storage: bool = False, kinds: Sequence[EngineKind] = KINDS) -> None:
    """Run the server until SIGTERM or SIGINT. With `accept_storage` it takes whatever storage_url leads to."""
    from headway.api.web.http_server import http_server
    from headway.control.server.safe_log import hide_own, write_log
    from headway.control.server.sd_notify import announce_ready

    settings = resolved.settings
    write_log()
    hide_own(os.environ, settings.store_url, *read_keys(settings.storage_key_file).values())
    check_exposure(settings)
    if settings.ca_file:
        os.environ["HEADWAY_AGENT_CA_FILE"] = settings.ca_file  # Agents on this machine inherit it.
    lock = own_home(home)
    listener = listen(settings, home)
    host, port = listener.getsockname()[:2]
    scheme = "https" if settings.tls_cert_file else "http"
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    for kind in kinds:
        kind.check(settings, files_of_ours(resolved, home))
    runner: list[Any] = []

    def end() -> None:
        for each in runner:
            each.finish()

    server = assemble(resolved, home, url, accept_storage, kinds)
    runner.append(http_server(server.app, end, server.services.end_waiting, settings, server.services.has_sockets))
    role = OneOfSeveral(server) if is_shared(settings) else Alone(server, end)
    role.start()
    write_server_file(home, url_at_home(settings, url))
    collect_seldom()
    announce_ready(url)
    try:
        runner[0].run(sockets=[listener])
    finally:
        role.stop()
        server.store.close()
        os.close(lock)
        log.info("server ended", pid=os.getpid())


def collect_seldom() -> None:
    """Look for cyclic garbage less often: there is little of it, and each look walks through every job in memory."""
    gc.collect()
    gc.freeze()  # What the start has made stays anyway.
    gc.set_threshold(GARBAGE_LOOKED_FOR_AFTER, 20, 50)


def ignore_hangup() -> None:
    """A server outlives the terminal that started it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
