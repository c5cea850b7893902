"""From a claim to what the keeper starts: directories, output files and the environment of each rank.

Pure. The names are those that launchers of training jobs set everywhere (RANK, WORLD_SIZE, MASTER_ADDR, …), and ours.
"""

from __future__ import annotations

import json
import os
import signal

from headway_agent.launch import gang_env
from headway_agent.launch.sdk_shim import search_path
from headway_agent.node.directory import STDIN_FILE
from headway_agent.prepare.python_names import names_python
from headway_wire.sync import LOGGED
from headway_wire.tasks import split_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

    from headway_agent.prepare.steps import Prepared
    from headway_wire.claim import Claim, Program

INHERITED = ("HOME", "PATH", "LANG", "USER", "TMPDIR")


def base_env(own: Mapping[str, str]) -> dict[str, str]:
    """What every rank gets from the agent's own environment. No more: the agent's secrets are not the rank's."""
    return {name: own[name] for name in INHERITED if name in own}


def launch_of(
    claim: Claim,
    task_dir: str,
    address: str,
    port: int,
    node_gpus: int,
    prepared: Prepared | None = None,
    shim: str = "",
    own: Sequence[str] = (),
    posts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Everything the keeper needs to start the task's ranks once `go` is given."""
    launcher = claim.launcher or "plain"
    ranks = claim.ranks or 1 if launcher == "plain" else 1
    first = claim.first_rank
    cwd = (prepared.cwd if prepared else "") or claim.workdir or f"{task_dir}/work"
    split = claim.streams == "split"
    common = {**(posts or {}), **_task_env(claim, task_dir, node_gpus, address)}
    common.update(prepared.env if prepared else {})
    if shim:
        common["PYTHONPATH"] = search_path(common.get("PYTHONPATH", ""), shim)
    python = prepared.python if prepared else ""
    argv = _argv(claim.argv, python)
    if launcher == "torchrun":
        argv = gang_env.torchrun_argv(argv, python, claim.ranks or 1)
    elif launcher == "mpi":
        argv = gang_env.mpi_argv(argv, own, claim, task_dir)
    stdin = {"stdin": f"{task_dir}/{STDIN_FILE}"} if claim.progress.stdin else {}
    launch: dict[str, Any] = {
        "task": claim.task,
        "grace_s": claim.grace_s,
        "address": address,
        "port": port,
        "ranks": [
            {
                "rank": first + local,
                "argv": argv,
                "env": {**_found_env(first + local, task_dir), **common, **_rank_env(first + local, local, task_dir)},
                "cwd": cwd,
                "out": f"{task_dir}/rank{first + local}.out",
                "err": f"{task_dir}/rank{first + local}.err" if split else "",
                **stdin,
            }
            for local in range(ranks)
        ],
    }
    if claim.progress.stay:
        launch["stay"] = claim.progress.stay.show()
    sign = claim.progress.notice_signal or "SIGTERM"
    if sign != "SIGTERM":
        launch["notice_signal"] = int(getattr(signal, sign, signal.SIGTERM))
    limits = limits_of(claim)
    return dict(launch, limits=limits) if limits else launch


def limits_of(claim: Claim) -> dict[str, Any]:
    """What the task may use, as far as it is limited at all."""
    limits = {**claim.limits.show(), **claim.progress.limits.show()}
    if not limits.get("pin_cpus"):
        limits.pop("cpus", None)  # How many processors to pin to; by itself it limits nothing.
    return {name: limit for name, limit in limits.items() if limit}


def _argv(argv: Sequence[str], python: str) -> list[str]:
    """The command, with the environment's interpreter where it names any."""
    return [python, *argv[1:]] if python and names_python(argv[0]) else list(argv)


def _rank_env(rank: int, local: int, task_dir: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "HEADWAY_RANK": str(rank),
        "HEADWAY_METRICS_FILE": f"{task_dir}/sdk/rank{rank}.{LOGGED}",
    }


def _found_env(rank: int, task_dir: str) -> dict[str, str]:
    """Where a rank's reports of results go, unless its job says it: figures are found there."""
    return {"CLOUD_ML_HP_METRIC_FILE": f"{task_dir}/sdk/hypertune-{rank}"}


def _task_env(claim: Claim, task_dir: str, node_gpus: int, address: str) -> dict[str, str]:
    job, attempt, _ = split_key(claim.task)
    ranks = claim.ranks or 1
    # A bar of tqdm looks at the clock at every step: by itself it would stand still for ten seconds after a resume,
    # since it takes those that were skipped for its usual pace.
    env = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "TQDM_MINITERS": "1"}
    if claim.gpus or node_gpus:
        # Without a GPU of its own a task sees none, or it would take those of its neighbours.
        env["CUDA_VISIBLE_DEVICES"] = ",".join(_device(index) for index in claim.gpus)
    env.update(gang_env.static_env(claim, task_dir, address))
    env.update({name: str(value) for name, value in claim.env.items()})
    env.update(
        HEADWAY_JOB_ID=claim.job or job,
        HEADWAY_JOB_NAME=claim.name,
        HEADWAY_ATTEMPT=str(claim.attempt or attempt),
        HEADWAY_WORLD_SIZE=str(claim.world_size or ranks),
        HEADWAY_NODE_RANK=str(claim.node_rank),
        HEADWAY_NUM_NODES=str(claim.nodes or 1),
        HEADWAY_CHECKPOINT_DIR=f"{task_dir}/checkpoints",
        HEADWAY_OUTPUT_DIR=f"{task_dir}/output",
        HEADWAY_SDK_DIR=f"{task_dir}/sdk",
        HEADWAY_NOTICE_FILE=f"{task_dir}/notice.json",
        WORLD_SIZE=str(claim.world_size or ranks),
        LOCAL_WORLD_SIZE=str(ranks),
        NODE_RANK=str(claim.node_rank),
    )
    if claim.array:
        env.update(HEADWAY_ARRAY_ID=claim.array[0], HEADWAY_ARRAY_INDEX=str(claim.array[1]))
    if claim.resume:
        env["HEADWAY_RESUME_STEP"] = str(claim.resume.step)
    env.update(_asked_env(claim.progress, env))
    return env


def _device(index: int) -> str:
    """The machine's name of the GPU with this number here: a part of its GPUs may be ours."""
    ours = [each for each in os.environ.get("HEADWAY_AGENT_VISIBLE_GPUS", "").split(",") if each]
    return ours[index] if index < len(ours) else str(index)


def _asked_env(asked: Program, given: Mapping[str, str]) -> dict[str, str]:
    """Parameters, seed and signal, as far as the job has them."""
    env: dict[str, str] = {}
    params = asked.params
    if params:
        env["HEADWAY_PARAMS"] = json.dumps(params)
    for name, value in params.items():
        env[f"HEADWAY_PARAM_{_variable(name)}"] = str(value).lower() if isinstance(value, bool) else str(value)
    if asked.seed is not None:
        env["HEADWAY_SEED"] = str(asked.seed)
        env["PYTHONHASHSEED"] = given.get("PYTHONHASHSEED") or str(asked.seed)
    if asked.notice_signal:
        env["HEADWAY_NOTICE_SIGNAL"] = asked.notice_signal
    return env


def _variable(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name).upper()
