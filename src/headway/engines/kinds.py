"""What an engine says of itself, in one place beside its code: its rules, and how one is made for a pool.

Which engines there are is table.py. Whatever else the server would have to know of a single engine is a field here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.core.errors import BadInput
from headway.core.model import NodeId, Pool
from headway.core.spec.engine import EngineRules, with_lease_of
from headway.engines.agent_zip import AgentZip
from headway.engines.protocol import Engine
from headway.settings import Home, Resolved, Settings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a server has that its engines may need: who it is, where it is reached, and what nodes are given."""

    settings: Settings
    home: Home
    home_of_nodes: Home  # Where nodes on this very machine have their directories.
    house: str  # The id of this server's database: what is put on a platform bears it, so that others' is left alone.
    agent: AgentZip
    storage_dir: str  # Where storage is a folder of this machine; else empty.
    own_files: Sequence[Path]  # Of the server's own, that no job should see.
    token_for: Callable[[NodeId], str]  # What a node shows. By the newest key, whenever it is asked for.
    code_for: Callable[[NodeId], str]  # For such a code a node is given its token: it may stand where others can read.
    listens_at: str  # The address of this very server.
    addresses: Callable[[], Sequence[str]]  # Where nodes find a server, now.
    several: bool  # Whether other servers work on the same database.
    env: Mapping[str, str]

    @property
    def urls(self) -> str:
        return ",".join(self.addresses())


def no_pool(resolved: Resolved, alone: bool) -> Pool | None:
    return None


def no_refusal(settings: Settings) -> BadInput | None:
    return None


def nothing_to_check(settings: Settings, own_files: Sequence[Path]) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineKind(EngineRules):
    make: Callable[[Pool, Surroundings], Engine]
    own_pool: Callable[[Resolved, bool], Pool | None] = no_pool  # The pool that there is without anybody's asking.
    refusal: Callable[[Settings], BadInput | None] = no_refusal  # Why these settings allow no pool of it.
    check: Callable[[Settings, Sequence[Path]], None] = nothing_to_check  # Refuses a server that it could not serve.


def kinds_for(settings: Settings, kinds: Sequence[EngineKind]) -> dict[str, EngineKind]:
    """The engines by name, each as these settings let it be."""
    found = {kind.name: with_lease_of(settings.lease_s_min, kind) for kind in kinds}
    refused = {name: refusal for name, kind in found.items() if (refusal := kind.refusal(settings))}
    return found | {name: replace(found[name], read=_refusing(refusal)) for name, refusal in refused.items()}


def _refusing(refusal: BadInput) -> Callable[[Pool], Pool]:
    def read(pool: Pool) -> Pool:
        raise BadInput(f"pool {pool.name}: {refusal.message}", refusal.hint)

    return read
