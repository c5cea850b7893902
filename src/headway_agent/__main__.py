"""The agent's command line: `agent`, `keeper`, `sweep`, `release`, `match`, `host`. Everything is a flag with a value.

Read by hand: argparse would stay in memory for the whole life of a keeper.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

FLAGS: dict[str, dict[str, Callable[[str], Any]]] = {
    "agent": {
        "node-dir": str,
        "node": str,
        "pool": str,
        "server-url": str,
        "server-file": str,
        "token-file": str,
        "storage-dir": str,
        "address": str,
        "cpus": float,
        "memory-bytes": int,
        "gpus": int,
        "poll-wait-s": float,
        "ship-every-s": float,
        "ship-follow-every-s": float,
        "ship-at-bytes": int,
        "dead-man-s": float,
    },
    "keeper": {"node-dir": str},
    "sweep": {"node-dir": str, "generation": int},
    "release": {"node-dir": str},
    "ordered": {"node-dir": str},
    "match": {"task-dir": str},
    "pick": {"task-dir": str},
    "host": {},
}
NEEDED = {
    "agent": ("node-dir", "node", "pool", "token-file"),
    "keeper": ("node-dir",),
    "match": ("task-dir",),
    "pick": ("task-dir",),
    "host": (),
}


class BadFlags(Exception):
    pass


def read_flags(words: list[str]) -> tuple[str, dict[str, Any]]:
    if not words or words[0] not in FLAGS:
        raise BadFlags(f"say one of {', '.join(FLAGS)}")
    known, flags = FLAGS[words[0]], {}
    rest = iter(words[1:])
    for word in rest:
        name = word[2:]
        if not word.startswith("--") or name not in known:
            raise BadFlags(f"unknown flag {word}; {words[0]} knows " + ", ".join(f"--{each}" for each in known))
        value = next(rest, None)
        if value is None:
            raise BadFlags(f"{word} needs a value")
        try:
            flags[name.replace("-", "_")] = known[name](value)
        except ValueError:
            raise BadFlags(f"{word}: {value!r} is not a number") from None
    for name in NEEDED.get(words[0], ("node-dir",)):
        if name.replace("-", "_") not in flags:
            raise BadFlags(f"{words[0]} needs --{name}")
    if words[0] == "agent" and not flags.get("server_url") and not flags.get("server_file"):
        raise BadFlags("agent needs --server-url or --server-file")
    return words[0], flags


def main(words: list[str]) -> int:
    if words[:1] in (["mpi-lead"], ["mpi-hold"], ["mpi-reach"]):
        from headway_agent.launch import mpi

        if words[0] == "mpi-hold":
            return mpi.hold()
        return mpi.lead(words[1:]) if words[0] == "mpi-lead" else mpi.reach(words[1:])
    try:
        command, flags = read_flags(words)
    except BadFlags as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 2
    if command == "agent":
        from headway_agent.loop.agent import main as serve
        from headway_agent.server_link import tls

        tls.adopt(f"{flags['node_dir']}/ca.pem")
        return serve(flags)
    if command == "keeper":
        from headway_agent.keeper.process import main as keep

        return keep(flags["node_dir"])
    if command == "sweep":
        from headway_agent.keeper.sweep import main as sweep

        return sweep(flags["node_dir"], flags.get("generation"))
    if command == "host":
        from headway_agent.entrypoints.ssh_host import main as host

        return host()
    if command == "match":
        from headway_agent.output.log_policies import main as match

        return match(flags["task_dir"])
    if command == "pick":
        from headway_agent.collect.picked_values import main as pick

        return pick(flags["task_dir"])
    if command == "ordered":
        from headway_agent.entrypoints.ordered_node import main as stay

        return stay(flags["node_dir"])
    from headway_agent.entrypoints.release import main as release

    return release(flags["node_dir"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
