"""What the ranks of a gang must know of each other: variables, host file, and the words of torchrun and mpirun.

Pure. Addresses and ports are those with which the nodes claimed; they are known once all have, that is with `go`.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from headway_wire.claim import Claim

HOSTS = "hosts"
MPI_HOSTS = "mpi-hosts"
LOOPBACK = ("127.", "::1", "localhost")


def static_env(claim: Claim, task_dir: str, address: str) -> dict[str, str]:
    """Variables that a task has from the start, if it is part of something larger than one process."""
    nodes, ranks = claim.nodes or 1, claim.ranks or 1
    if nodes * ranks == 1:
        return {}
    env = {"GROUP_RANK": str(claim.node_rank), "HEADWAY_HOSTFILE": f"{task_dir}/{HOSTS}"}
    if nodes > 1:
        env.update(
            PET_NNODES=str(nodes),
            PET_NODE_RANK=str(claim.node_rank),
            PET_RDZV_BACKEND="static",  # Ranks stay where we put them; c10d would give them out as nodes come.
            PET_RDZV_ID="-".join(claim.task.split("/")[:2]),
        )
    if claim.gang_key:
        env["HEADWAY_GANG_KEY"] = claim.gang_key
    if address.startswith(LOOPBACK):
        env["GLOO_SOCKET_IFNAME"] = "lo"  # Else it takes the interface of the machine's name, which may have none.
    return env


def go_env(peers: Sequence[tuple[str, int]], address: str, port: int, ranks: int = 1, index: int = 0) -> dict[str, Any]:
    """Variables that are known with `go`. A value that differs from rank to rank is a mapping of ranks to values."""
    known = list(peers) or [(address, port)]
    master, master_port = known[0]
    env: dict[str, Any] = {
        "MASTER_ADDR": master,
        "MASTER_PORT": str(master_port),
        "HEADWAY_MASTER_ADDR": master,
        "NODES": ",".join(host for host, _ in known),
        "HEADWAY_NODES": ",".join(host for host, _ in known),
    }
    if len(known) * ranks > 1:
        env["TF_CONFIG"] = _tf_configs(known, ranks, index)
    if len(known) > 1:
        # For who asks for c10d: alone it does not find out who the host is where an address stands for several nodes.
        env.update(
            PET_RDZV_ENDPOINT=f"{master}:{master_port}",
            PET_RDZV_CONF=f"is_host={'true' if index == 0 else 'false'}",
            PET_LOCAL_ADDR=known[index][0] if index < len(known) else address,
            PET_MASTER_ADDR=master,
            PET_MASTER_PORT=str(master_port),
        )
    return env


def _tf_configs(known: Sequence[tuple[str, int]], ranks: int, index: int) -> dict[str, str]:
    """For each rank of this node its TF_CONFIG. Rank 0 is the chief; further ranks of a node take the next ports."""
    everyone = [f"{host}:{port + local}" for host, port in known for local in range(ranks)]
    cluster = {"chief": everyone[:1], "worker": everyone[1:]}
    configs = {}
    for local in range(ranks):
        rank = index * ranks + local
        task = {"type": "worker", "index": rank - 1} if rank else {"type": "chief", "index": 0}
        configs[str(rank)] = json.dumps({"cluster": cluster, "task": task}, separators=(",", ":"))
    return configs


def host_file(peers: Sequence[tuple[str, int]], ranks: int) -> str:
    """One line per machine, as mpirun reads it: `10.0.0.1 slots=8`."""
    slots: dict[str, int] = {}
    for host, _ in peers:
        slots[host] = slots.get(host, 0) + ranks
    return "".join(f"{host} slots={count}\n" for host, count in slots.items())


def torchrun_argv(argv: Sequence[str], python: str, ranks: int) -> list[str]:
    """torchrun around a command. What it must know of the gang is in its variables."""
    name = argv[0].rpartition("/")[2]
    is_python = name.startswith("python")
    run = [argv[0] if is_python else python or "python3", "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    rest = list(argv[1:])
    if is_python:
        while rest[:1] in (["-u"], ["-B"], ["-O"]):
            rest = rest[1:]
        if rest[:1] == ["-m"] or (rest and not rest[0].startswith("-")):
            return run + rest
    return [*run, "--no-python", *argv]


def mpi_argv(argv: Sequence[str], own: Sequence[str], claim: Claim, task_dir: str) -> list[str]:
    """On the first node mpirun around the command; on the others something that waits for its end."""
    if claim.node_rank:
        return [*own, "mpi-hold"]
    world = str(claim.world_size or 1)
    return [*own, "mpi-lead", f"{task_dir}/{MPI_HOSTS}", world, *argv]
