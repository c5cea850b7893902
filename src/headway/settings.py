"""Every setting: name with its unit, default, one sentence. Where a value came from can be told.

Sources, later ones win: built in, the system's config.toml, the user's config.toml, the chosen context (which server),
HEADWAY_* variables, flags.
The reference page and `headway config ls` are written from this file. What only some callers need is imported
where it is used: every command of the command line pays for the imports here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from headway.core.errors import BadInput
from headway.core.units import duration_s, size_bytes


def knob(default: Any, says: str) -> Any:
    return field(default=default, metadata={"says": says})


@dataclass(frozen=True, slots=True, eq=False, repr=False)  # Every command pays for what is made here.
class Settings:
    """The values in force. Durations are seconds (`_s`), sizes are bytes (`_bytes`)."""

    server_url: str = knob("", "address of a shared server; empty means the embedded one on this machine")
    host: str = knob("127.0.0.1", "address on which the server listens")
    port: int = knob(0, "port on which the server listens; 0 takes a free one")
    advertise_url: str = knob(
        "", "address under which nodes and other servers reach this one; empty means where it listens"
    )
    store_url: str = knob("", "database; empty means SQLite in the data directory")
    storage_url: str = knob("", "where logs and files are kept; empty means a folder in the data directory")
    storage_endpoint: str = knob(
        "", "address of the object store, where it is not the cloud's own (http:// is allowed)"
    )
    storage_key_file: str = knob("", "file with the object store's keys, a NAME=value a line; empty: the environment")
    signed_url_s: float = knob(3600.0, "how long a signed address of an object is good; at most a week")
    local_cpus: float = knob(0.0, "processors that local jobs may use; 0 means all that this process was granted")
    local_memory_bytes: int = knob(0, "memory that local jobs may use; 0 means all that this process was granted")
    local_gpus: int = knob(-1, "GPUs that local jobs may use; -1 means all that are found")
    local_nodes: int = knob(1, "how many local nodes (agents) there are; more than one is for trying out gangs")
    local_dir: str = knob(
        "", "directory of the local nodes, shared by the servers of one machine; empty means their home"
    )
    local_user: str = knob(
        "", "system user as whom local nodes and their jobs run; empty: the server's own, only where nobody signs in"
    )
    agent_env: str = knob(
        "", "variables of the server that local nodes get too, with commas: AWS_PROFILE, or AWS_* for all that begin so"
    )
    local_lease_s: float = knob(86400.0, "lease of a local node; its death can be proven, so it may be long")
    lease_s_min: float = knob(
        60.0, "the shortest lease that a pool may have; half of it must suffice to find the server again after a cut"
    )
    lease_margin_s: float = knob(5.0, "what the server waits beyond a lease before it gives a silent node up")
    silent_after_s: float = knob(30.0, "silence after which nothing more is placed on a node; it ends nothing")
    claim_within_s: float = knob(60.0, "time in which every task must be claimed; then all places are given back")
    line_ahead_s: float = knob(
        0.25, "work of short jobs that a place is given ahead, so that the next begins when one ends; 0: none"
    )
    tick_every_s: float = knob(1.0, "how often limits, leases and claims are looked at")
    tick_gap_s: float = knob(10.0, "a gap between two looks after which every lease begins anew (a suspended machine)")
    look_every_s: float = knob(2.0, "how often an engine is asked which nodes it sees")
    engine_call_s_max: float = knob(60.0, "how long one call to an engine may take")
    sync_wait_s: float = knob(20.0, "how long an agent's call is held when there is nothing to say")
    lead_lease_s: float = knob(3.0, "how long one of several servers leads without renewing")
    glance_every_s: float = knob(0.25, "how often a server that does not lead looks at the database")
    gather_s: float = knob(0.02, "how often agents' calls are taken up while one command follows another")
    batch_most: int = knob(2000, "how many commands are saved in one commit at the most")
    submit_most: int = knob(10000, "how many jobs one request may bring")
    request_bytes_max: int = knob(64 * 2**20, "the largest request body that is read")
    header_bytes_max: int = knob(64 * 2**10, "the most that the headers of one request may have")
    request_s_max: float = knob(30.0, "how long headers may take, and the whole request of who has not signed in")
    guests_most: int = knob(1000, "how many connections there may be on which nobody has signed in")
    guests_per_address_most: int = knob(100, "how many of them from one address; more push the slowest out")
    log_flush_every_s: float = knob(2.0, "how often new output of a rank travels when nobody follows it")
    log_follow_every_s: float = knob(0.2, "how often new output of a followed rank travels")
    log_keep_s: float = knob(90 * 86400.0, "how long the logs of ended jobs are kept")
    log_compact_ranges: int = knob(64, "number of small pieces of one log that are joined into one")
    housekeeping_every_s: float = knob(60.0, "how often old logs are dropped and pieces joined")
    policy: str = knob("fair", "the order of waiting jobs: fair, fifo, throughput or las; a queue may have its own")
    half_life_s: float = knob(7 * 86400.0, "after this long, use counts half in the fair share")
    patience_s: float = knob(2 * 86400.0, "who has waited longer goes before all others of the same priority")
    cpus_per_gpu: float = knob(8.0, "what a GPU counts in the account of use, in cpus")
    backfill_depth: int = knob(1000, "how many kinds of waiting jobs are tried behind the first; 0 is strict order")
    estimates: str = knob("history", "where run times come from: history (of like jobs) or limit (their limits alone)")
    preemption: str = knob("off", "whether more important jobs may end less important ones: on or off")
    preemptions_most: int = knob(3, "how often one job may be preempted")
    repair_s: float = knob(300.0, "how long a gang that lost a node keeps its other places")
    secrets_key_file: str = knob(
        "", "keys that seal secrets and sign; empty means secrets.keys in the config directory"
    )
    bundle: str = knob("auto", "when the project travels with a job: auto (with a shared server), always, never")
    pass_env: str = knob(
        "WANDB_*, HF_*, MLFLOW_*, COMET_*, NEPTUNE_*, http_proxy, https_proxy, no_proxy, all_proxy, HTTP_PROXY, "
        "HTTPS_PROXY, NO_PROXY, ALL_PROXY, AWS_PROFILE, AWS_REGION, AWS_DEFAULT_REGION, GOOGLE_CLOUD_PROJECT, "
        "OMP_NUM_THREADS, MKL_NUM_THREADS, NCCL_*, TORCH_*, PYTORCH_*, TOKENIZERS_PARALLELISM, TZ",
        "variables of yours that jobs get without being named, with commas; HF_* is all that begin so",
    )
    bundle_bytes_max: int = knob(64 * 2**30, "the largest tree that a bundle may become on a node, all copies counted")
    accounts: str = knob("off", "whether users sign in: on (a shared server) or off (the owner of this home alone)")
    insecure_http: str = knob("off", "on: serve others without TLS, because a proxy does it or the network is trusted")
    tls_cert_file: str = knob("", "certificate, with its chain, that the server shows; empty means no TLS")
    tls_key_file: str = knob("", "private key of that certificate")
    ca_file: str = knob("", "certificates that client and agents trust besides the system's own")
    token_cache_s: float = knob(5.0, "how long a token that was good is taken for good without looking again")
    token_life_s: float = knob(90 * 86400.0, "how long a new token is good unless its maker says otherwise")
    oidc_issuer: str = knob("", "identity provider that may vouch for users, by its issuer URL; empty means none")
    oidc_client_id: str = knob("", "name under which the identity provider knows this server")
    oidc_client_secret_file: str = knob("", "file with the secret that the identity provider gave, if it gave one")
    oidc_domains: str = knob("", "e-mail domains, with commas, whose people become users when they first sign in")
    dump_turns: str = knob(
        "", "directory for the leader's last 500 turns, to be replayed in search of an error; slow; empty means none"
    )
    server_wait_s: float = knob(
        60.0,
        "how long a command waits for a shared server that is away; unless it is set, 15 s for one never met before",
    )
    auto_start_s_max: float = knob(60.0, "how long the command line waits for the embedded server to come up")


SECTIONS = {
    "queue": "a queue, by its name: [queue.night]",
    "pool": "a pool, by its name: [pool.lab]",
    "licences": "how many there are of each licence",
}


def parse(name: str, kind: str, raw: Any, source: str) -> Any:
    """Turn a raw value into the setting's type, or say what is wrong with it and where it came from."""
    what = f"{name} ({source})"
    if name.endswith(("_s", "_s_max")):
        return duration_s(raw, what)
    if name.endswith(("_bytes", "_bytes_max")):
        return size_bytes(raw, what)
    if kind == "str":
        return str(raw)
    try:
        return int(str(raw)) if kind == "int" else float(str(raw))
    except ValueError:
        raise BadInput(f'{what}: "{raw}" is not a {"whole number" if kind == "int" else "number"}') from None


@dataclass(frozen=True, slots=True)
class Home:
    """Where things are on this machine. HEADWAY_HOME puts everything in one place; else XDG directories."""

    config: Path
    data: Path
    state: Path
    cache: Path  # Losing it costs time, nothing else.

    @property
    def token_file(self) -> Path:
        return self.state / "token"

    @property
    def logins_file(self) -> Path:
        return self.config / "logins.json"

    @property
    def contexts_file(self) -> Path:
        return self.config / "contexts.json"

    @property
    def server_file(self) -> Path:
        return self.state / "server.json"

    @property
    def server_log(self) -> Path:
        return self.state / "server.log"

    @property
    def lock_file(self) -> Path:
        return self.state / "server.lock"

    @property
    def nodes_dir(self) -> Path:
        return self.state / "nodes"


def home_from(env: Mapping[str, str]) -> Home:
    root = env.get("HEADWAY_HOME")
    if root:
        base = Path(root).absolute()
        return Home(base / "config", base / "data", base / "state", base / "cache")
    import platformdirs

    dirs = platformdirs.PlatformDirs("headway", appauthor=False)
    places = (dirs.user_config_dir, dirs.user_data_dir, dirs.user_state_dir, dirs.user_cache_dir)
    return Home(*(Path(place) for place in places))


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings in force, and for each the source that won."""

    settings: Settings
    sources: Mapping[str, str]
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # What the files say of queues, pools, …


def load(env: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None) -> Resolved:
    """Read all sources, in order, and say what each value is and where it came from."""
    kinds = {each.name: str(each.type) for each in fields(Settings)}
    values: dict[str, Any] = {}
    sources = dict.fromkeys(kinds, "built in")
    system = Path(env.get("HEADWAY_SYSTEM_CONFIG", "/etc/headway/config.toml"))
    layers: list[tuple[str, Mapping[str, Any]]] = [
        (str(path), _read_toml(path)) for path in (system, home_from(env).config / "config.toml")
    ]
    chosen = context_in(env)
    if chosen is not None:
        layers.append(chosen)
    named = {f"HEADWAY_{name.upper()}": name for name in kinds}
    layers += [(variable, {named[variable]: raw}) for variable, raw in env.items() if variable in named]
    layers.append(("flag", flags or {}))
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for source, layer in layers:
        for name, raw in layer.items():
            if name in SECTIONS and isinstance(raw, Mapping):
                sections[name].update(raw)
                continue
            if name not in kinds:
                import difflib

                near = difflib.get_close_matches(name, list(kinds), n=1)
                raise BadInput(f'unknown setting "{name}" in {source}', f'did you mean "{near[0]}"?' if near else "")
            values[name] = parse(name, kinds[name], raw, source)
            sources[name] = source
    return Resolved(Settings(**values), sources, sections)


LOCAL = "local"  # The context of this machine's own server.
CONTEXT = "HEADWAY_CONTEXT"


@dataclass(frozen=True, slots=True)
class Contexts:
    """The servers that one works with, by name, and which of them was chosen; empty where none was."""

    chosen: str = ""
    known: Mapping[str, str] = field(default_factory=dict)

    def url(self, name: str) -> str | None:
        return "" if name == LOCAL else self.known.get(name)


def read_contexts(home: Home) -> Contexts:
    path = home.contexts_file
    try:
        text = path.read_text()
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    import json

    try:
        found = json.loads(text)
        return Contexts(str(found["chosen"]), {str(name): str(url) for name, url in found["servers"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"{path} is damaged", "remove it, and sign in again: headway login") from None


def context_in(env: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """The layer of the context that was chosen: by HEADWAY_CONTEXT, else by `headway context use`."""
    known = read_contexts(home_from(env))
    name = env.get(CONTEXT) or known.chosen
    if not name:
        return None
    url = known.url(name)
    if url is None:
        said = f"{CONTEXT}: " if env.get(CONTEXT) else ""
        raise BadInput(f'{said}no context "{name[:80]}"', f"there are {', '.join([LOCAL, *known.known])}")
    return CONTEXT if env.get(CONTEXT) else f"context {name}", {"server_url": url}


def usual_url(env: Mapping[str, str]) -> tuple[str, bool]:
    """The server that commands use where no variable says another one, and whether anybody has chosen it."""
    without = {name: value for name, value in env.items() if name not in (CONTEXT, "HEADWAY_SERVER_URL")}
    found = load(without)
    return found.settings.server_url, found.sources["server_url"] != "built in"


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}", "is HEADWAY_HOME a directory of yours?"
        ) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not valid TOML: {error}") from None
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not valid TOML: {error}") from None


def write(path: Path, name: str, value: str | None) -> bool:
    """Put one line before the file's first section, or take it away; the rest of the file stays as it is."""
    import json
    import re

    from headway.whole_files import write_whole

    try:
        lines = path.read_text().splitlines() if path.exists() else []
        head = next((at for at, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
        found = [at for at, line in enumerate(lines[:head]) if re.match(rf"\s*{re.escape(name)}\s*=", line)]
        for at in reversed(found):
            del lines[at]
        if value is not None:
            number = re.fullmatch(r"-?\d+(\.\d+)?", value)
            lines.insert(found[0] if found else head, f"{name} = {value if number else json.dumps(value)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    return bool(found)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, which nobody else can reach."""
    return host in ("localhost", "::1", "[::1]") or host.startswith("127.")


def url_at_home(settings: Settings, url: str) -> str:
    """Where this machine's own commands find its server: with TLS, under the name that the certificate bears."""
    return settings.advertise_url.rstrip("/") if settings.tls_cert_file and settings.advertise_url else url


def says(name: str) -> str:
    return next(str(each.metadata["says"]) for each in fields(Settings) if each.name == name)
