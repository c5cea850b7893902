"""What is known of an engine without having one: how its nodes come and go, and how it reads the words of a pool.

Each engine says this of itself, beside its code (engines/); nothing here or above names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from headway.core.errors import BadInput
from headway.core.model import Pool
from headway.core.units import show_duration

LEASE_S = 1800.0


def as_it_is(pool: Pool) -> Pool:
    return pool


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """What pools, nodes and orders of an engine are like. What is not said is the careful answer."""

    name: str
    says: str = ""  # Where its nodes come from, for people.
    options: Mapping[str, str] = field(default_factory=dict)  # The words that a pool may say to it, and their meaning.
    read: Callable[[Pool], Pool] = as_it_is  # The pool as the engine takes it, or BadInput.
    ordered: bool = False  # Its nodes are made when jobs need them and given back when idle; otherwise they stand.
    proves_death: bool = False  # Whether a node that it calls gone can run nothing any more; else that is a claim.
    lease_s: float = LEASE_S  # Of a pool that says none. Where death can be proven, it may be long.
    one_system_user: bool = True  # Everybody's ranks run as one system user, who can read and stop all of them.
    grants_shape: bool = False  # What a node may use is what its pool says, whatever its agent has found.
    at_server: bool = False  # Its nodes are on the server's own machine: another server can neither see nor start them.

    def facts(self) -> dict[str, Any]:
        """What clients are told of it."""
        return {"ordered": self.ordered, "one_system_user": self.one_system_user}


Rules = TypeVar("Rules", bound=EngineRules)
Engines = Mapping[str, EngineRules]
"""The engines that there are, by name. A pool that names none has the first."""


def rules_of(pool: Pool, engines: Engines) -> EngineRules:
    """What is known of a pool's engine. One that this server lacks, as after a downgrade, has no rules of its own."""
    return engines.get(pool.engine) or EngineRules(name=pool.engine)


def with_lease_of(least_s: float, rules: Rules) -> Rules:
    """An engine that takes no pool with a lease below this: see what a lease tolerates, in the page on the protocol."""

    def read(pool: Pool) -> Pool:
        if pool.lease_s < least_s:
            short, least = show_duration(pool.lease_s), show_duration(least_s)
            raise BadInput(
                f'lease: "{short}" is too short: half of it is less than a node may need to find its server again',
                f"a lease of {least} or more; a cut that is shorter than half of it ends nothing",
            )
        return rules.read(pool)

    return replace(rules, read=read)
