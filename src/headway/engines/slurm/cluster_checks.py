"""What can be said of a pool against the cluster as it is: why Slurm refuses its orders or would let them wait.

Pure: the text of `sinfo` and `sacctmgr` comes in, findings for `doctor` go out. Who asks Slurm is engine.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from headway.core.model import Pool
from headway.core.units import show_duration, show_size
from headway.engines.checks import Check, check

GROUPS = "%P|%a|%l|%D|%c|%m|%G|%f|%T"
USABLE = ("idle", "mix", "alloc", "comp", "resv", "plan", "powering_up", "powered_down")
NONE = ("(null)", "N/A", "")
NAMES_SHOWN_MAX = 12

# Reasons of a waiting allocation that mean more than "others are ahead", in words for people.
MEANINGS = {
    "PartitionConfig": "more is asked of a node than the partition has or allows",
    "PartitionNodeLimit": "more nodes or longer than the partition allows",
    "PartitionTimeLimit": "longer than the partition allows",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "BadConstraints": "no node is what the order asks for",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "InvalidAccount": "the account is not valid",
    "InvalidQOS": "the quality of service is not valid",
    "AccountNotAllowed": "the account may not use the partition",
    "QOSNotAllowed": "the quality of service may not be used in the partition",
    "JobHeldAdmin": "an administrator of the cluster holds it",
    "JobHeldUser": "somebody holds it",
    "Licenses": "licences that it needs are in use",
}
NOISE = ("sbatch: error: ", "sbatch: ", "allocation failure: ", "Batch job submission failed: ")

Finding = dict[str, str]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one partition that are alike."""

    partition: str
    default: bool
    up: bool
    limit_s: float | None
    count: int
    cpus: int
    memory_bytes: int
    gres: str
    features: str
    state: str

    @property
    def usable(self) -> bool:
        return self.state.startswith(USABLE) and not self.state.endswith("*")


def read_groups(text: str) -> list[NodeGroup]:
    """What `sinfo -h -a -e -o GROUPS` says. Lines that look otherwise are left out."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 9 and all(words[at].isdigit() for at in (3, 4, 5)):
            name, up, limit, count, cpus, memory, gres, features, state = words
            found.append(
                NodeGroup(
                    name.rstrip("*"),
                    name.endswith("*"),
                    up == "up",
                    seconds(limit),
                    int(count),
                    int(cpus),
                    int(memory) << 20,
                    "" if gres in NONE else gres,
                    "" if features in NONE else features,
                    state,
                )
            )
    return found


def seconds(said: str) -> float | None:
    """`1-02:03:04`, `02:03:04` or `3:04` in seconds; None for UNLIMITED and its like."""
    days, _, clock = said.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or (days and not days.isdigit()):
        return None
    found = 0.0
    for part in parts:
        found = found * 60 + int(part)
    return found + int(days or 0) * 86400


def chosen(groups: Sequence[NodeGroup], partition: str) -> list[NodeGroup]:
    """The nodes that an order may get: of the named partitions, or of the default one."""
    names = [name for name in partition.split(",") if name]
    return [each for each in groups if (each.partition in names if names else each.default)]


def reason(said: str) -> str:
    """A waiting allocation's reason as Slurm names it, and what it means where the name does not say."""
    meaning = MEANINGS.get(said.split(",")[0].strip("()"))
    if meaning is None and said.startswith(("Assoc", "QOS", "MaxJobs", "MaxCpu")):
        meaning = "a limit of the account or the quality of service"
    return f"{said}, {meaning}" if meaning else said


def plain(said: str) -> str:
    """What sbatch complained of, each thing once and without its own name."""
    parts = []
    for part in said.split("; "):
        for noise in NOISE:
            part = part.removeprefix(noise)
        parts.append(part)
    return "; ".join(dict.fromkeys(filter(None, parts)))


def because(refusal: str, groups: Sequence[NodeGroup], partition: str) -> str:
    """What the cluster has instead of what Slurm refuses; empty where nothing helps."""
    said, there = refusal.lower(), chosen(groups, partition)
    if "partition" in said and not there:
        return f"it has {_some({each.partition for each in groups})}" if groups else ""
    if "gres" in said or "generic resource" in said:
        return _kinds("generic resources", {each.gres for each in there})
    if "feature" in said:
        return _kinds("features", {word for each in there for word in each.features.split(",")})
    if "configuration" in said and there:
        cpus, memory = max(each.cpus for each in there), max(each.memory_bytes for each in there)
        nodes = sum(each.count for each in there)
        gres = _kinds("generic resources", {each.gres for each in there})
        return f"of {nodes} nodes the largest has {cpus} cpus and {show_size(memory)}; {gres}"
    return ""


def findings(
    pool: Pool, given: Mapping[str, Any], groups: Sequence[NodeGroup], refusal: str, books: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """What is right and wrong with a pool; `refusal` is what Slurm says to an order of one node, if it refuses."""
    partition = str(given.get("partition") or "")
    render = f"headway pool render {pool.name} shows the words; headway pool set {pool.name} options.… changes them"
    if refusal:
        more = because(refusal, groups, partition)
        yield _finding("fail", f"Slurm refuses its orders: {refusal}{f' ({more})' if more else ''}", render)
    else:
        yield _finding("ok", "Slurm takes an order of one node")
    there = chosen(groups, partition)
    yield from _partitions(pool, given, there)
    yield from _booked(pool, given, books)


def platform_checks(pool: str, each: Mapping[str, Any]) -> Iterator[Check]:
    """What `doctor` says: Slurm's programs, its controller, what it says to the pool, and what nodes may see of us."""
    what = f"slurm of pool {pool}"
    missing = [name for name, path in each["programs"].items() if not path]
    if missing:
        remedy = f"install Slurm's client programs there, or: headway pool set {pool} options.bin=DIRECTORY"
        yield check(what, "fail", f"the server does not find {', '.join(missing)}", remedy)
    if each.get("seen_by_nodes"):
        said = f"jobs run as {each['user']}, and nodes may see the server's {', '.join(each['seen_by_nodes'][:3])}"
        remedy = "whoever may submit could read its keys: put them on a disk of the server's own machine (HEADWAY_HOME)"
        yield check(f"{what}: files", "warn", said, remedy)
    if "error" not in each:
        yield check(what, "ok", f"slurmctld answers in {each['took_ms']} ms; orders are made as {each['user']}")
        for finding in each.get("findings") or ():
            yield check(f"{what}: orders", finding["verdict"], finding["found"], finding["remedy"])
    elif "scontrol" not in missing:
        yield check(what, "fail", str(each["error"]), "try scontrol ping there; options.conf names another slurm.conf")


def read_books(user: str, text: str) -> dict[str, Sequence[str]]:
    """Accounts and qualities of service of a user, as `sacctmgr -nP show assoc format=account,qos` tells them."""
    lines = [line.split("|") for line in text.splitlines() if line.count("|") == 1]
    accounts = sorted({account for account, _ in lines})
    return {"user": [user], "account": accounts, "qos": sorted({word for _, qos in lines for word in qos.split(",")})}


def _partitions(pool: Pool, given: Mapping[str, Any], there: Sequence[NodeGroup]) -> Iterator[Finding]:
    if not there:
        return
    names = _some({each.partition for each in there})
    if not any(each.up for each in there):
        yield _finding("warn", f"partition {names} is not up: orders wait until it is", "ask who runs the cluster")
    nodes, usable = sum(each.count for each in there), sum(each.count for each in there if each.usable)
    if not usable:
        states = _some({each.state for each in there})
        yield _finding(
            "warn", f"none of the {nodes} nodes of partition {names} can be used ({states})", "sinfo -R says why"
        )
    elif pool.nodes_max > nodes:
        said = f"the pool may have {pool.nodes_max} nodes, partition {names} has {nodes}: wider gangs wait for ever"
        yield _finding("warn", said, f"headway pool set {pool.name} max={nodes}")
    life_s, limits = given.get("life_s"), [each.limit_s for each in there]
    longest = max((each for each in limits if each is not None), default=0.0)
    if life_s and None not in limits and life_s > longest:
        said = f"options.time is {show_duration(life_s)}, and partition {names} allows {show_duration(longest)}"
        remedy = f"headway pool set {pool.name} options.time={int(longest // 60)}m"
        yield _finding("fail", f"{said}: such orders wait for ever", remedy)


def _booked(pool: Pool, given: Mapping[str, Any], books: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """The account and the quality of service, where Slurm keeps books of them."""
    for key in ("account", "qos"):
        wanted = str(given.get(key) or "")
        if not wanted:
            continue
        if not books:
            yield _finding("ok", f'Slurm keeps no accounts here: {key} "{wanted}" means nothing')
        elif wanted not in books[key]:
            near = get_close_matches(wanted, books[key], 1)
            known = f'did you mean "{near[0]}"?' if near else f"it has {_some(books[key])}"
            said = f'{key} "{wanted}" is not one that {books["user"][0]} may use: {known}'
            # Where Slurm insists on it, it has refused the order above.
            yield _finding("warn", said, f"headway pool set {pool.name} options.{key}=…")


def _finding(verdict: str, found: str, remedy: str = "") -> Finding:
    return {"verdict": verdict, "found": found, "remedy": remedy}


def _kinds(what: str, words: set[str]) -> str:
    words = {word for word in words if word}
    return f"it has the {what} {_some(words)}" if words else f"its nodes have no {what}"


def _some(words: set[str] | Sequence[str]) -> str:
    named = sorted(set(words))
    more = f" and {len(named) - NAMES_SHOWN_MAX} more" if len(named) > NAMES_SHOWN_MAX else ""
    return ", ".join(named[:NAMES_SHOWN_MAX]) + more
