"""What the local engine says of itself: nodes on the server's own machine, as its own user or as another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headway.core.errors import BadInput
from headway.core.model import Pool
from headway.engines.kinds import EngineKind, Surroundings
from headway.engines.local import LocalEngine, read_options
from headway.engines.local_user import LocalUserEngine, check_user
from headway.engines.protocol import Engine
from headway.settings import Resolved, Settings

NAME = "local"


def own_pool(resolved: Resolved, alone: bool) -> Pool | None:
    """Who shares a server asks for local nodes in so many words: a team's jobs seldom run where its server does."""
    settings = resolved.settings
    asked = alone or resolved.sources.get("local_nodes") != "built in"
    nodes = settings.local_nodes if asked else 0
    return Pool(NAME, NAME, nodes_min=nodes, nodes_max=nodes, lease_s=settings.local_lease_s) if nodes else None


def refusal(settings: Settings) -> BadInput | None:
    """Local nodes would run what others submit as the server's own user."""
    if settings.accounts != "on" or settings.local_user:
        return None
    return BadInput(
        "people sign in on this server, and jobs on its own machine could read its keys and tokens",
        'set local_user = "…", a system user of its own as whom they run; see docs/how-to/accounts.md',
    )


def check(settings: Settings, own_files: Sequence[Path]) -> None:
    if settings.local_user:
        check_user(settings, own_files)


def make(pool: Pool, around: Surroundings) -> Engine:
    settings, urls = around.settings, around.addresses if around.several else None
    local = LocalEngine(
        around.home_of_nodes, pool, around.agent, around.storage_dir, settings, around.token_for, around.env, urls
    )
    if not settings.local_user:
        return local
    words = (around.home, pool, around.agent, settings, around.urls, around.house, around.token_for)
    return LocalUserEngine(local, around.own_files, *words, env=around.env)


KIND = EngineKind(
    name=NAME,
    says="nodes on the server's own machine",
    read=read_options,
    make=make,
    own_pool=own_pool,
    refusal=refusal,
    check=check,
    proves_death=True,
    lease_s=86400.0,
    grants_shape=True,
    at_server=True,
)
