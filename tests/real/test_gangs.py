"""Gangs on several local nodes: what ranks know of each other, who failed first, and a node that dies half way.

One of them is a real torch.distributed job over gloo; torch is installed once per machine (torching.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.core.errors import BadInput
from headway.core.spec.job import read_spec
from tests.living import Living
from tests.real.mpi import have_mpich, have_open_mpi
from tests.real.torching import torch_python
from tests.waiting import wait_until

pytestmark = pytest.mark.real

SAY = """
import json, os
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT NODES HEADWAY_NODES"
said = {name: os.environ.get(name) for name in names.split()}
said["TF_CONFIG"] = json.loads(os.environ["TF_CONFIG"])
said["hosts"] = open(os.environ["HEADWAY_HOSTFILE"]).read()
print(json.dumps(said))
"""
MPI = """
import ctypes, os, signal, sys, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world, number, add = (
    ctypes.byref(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}")) for name in ("comm_world", "int", "op_sum")
)
mine, total = ctypes.c_int(int(os.environ["RANK"])), ctypes.c_int(0)
mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, number, add, world)
env = os.environ
assert env["RANK"] == env["OMPI_COMM_WORLD_RANK"]
node = os.path.basename(env["HEADWAY_NODE_DIR"])
assert f"/{node}/" in env["HEADWAY_CHECKPOINT_DIR"]
print(f"rank {mine.value} local {env['LOCAL_RANK']} on {node} sum {total.value}\\n", end="", flush=True)
if sys.argv[1:]:
    signal.signal(signal.SIGTERM, lambda *_: (print(f"told {mine.value}\\n", end="", flush=True), sys.exit(0)))
    time.sleep(1200)
mpi.MPI_Finalize()
"""
MPICH = """
import ctypes, os, signal, sys, time
mpi = ctypes.CDLL("libmpich.so.12", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world, number, add = 0x44000000, 0x4C000405, 0x58000003  # As mpi.h has them.
mine, total, rank = ctypes.c_int(), ctypes.c_int(0), os.environ["RANK"]
mpi.MPI_Comm_rank(world, ctypes.byref(mine))
mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, number, add, world)
assert mine.value == int(rank)
node = os.path.basename(os.environ["HEADWAY_NODE_DIR"])
os.write(1, f"rank {rank} local {os.environ['LOCAL_RANK']} on {node} sum {total.value}\\n".encode())
if sys.argv[1] == "fail":
    sys.exit(7) if rank == "1" else time.sleep(600)
elif sys.argv[1] == "stay":
    signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), os.write(1, f"told {rank}\\n".encode()), sys.exit(0)))
    time.sleep(600)
mpi.MPI_Finalize()
"""
TRAIN = """
import os, sys, time, torch, torch.distributed as dist
from pathlib import Path

steps, every, pace_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
assert (rank, world) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
place = Path(os.environ["HEADWAY_CHECKPOINT_DIR"])
torch.manual_seed(7)
model = torch.nn.Linear(8, 1)
net = torch.nn.parallel.DistributedDataParallel(model)
rate = 0.1
step = 0
saved = sorted(place.glob("step-*.pt"), key=lambda path: int(path.stem[5:]))
if saved:
    state = torch.load(saved[-1])
    step = state["step"]
    model.load_state_dict(state["model"])
print(f"rank {rank} of {world} from step {step}", flush=True)
while step < steps:
    chance = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(16, 8, generator=chance)
    loss = ((net(x) - x.sum(1, keepdim=True)) ** 2).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= rate * weight.grad
    step += 1
    if step % every == 0 and os.environ["LOCAL_RANK"] == "0":
        draft = place / "draft.tmp"
        torch.save({"step": step, "model": model.state_dict()}, draft)
        draft.rename(place / f"step-{step}.pt")
        for old in place.glob("step-*.pt"):
            if int(old.stem[5:]) <= step - 3 * every:
                old.unlink()
    print(f"step {step}", flush=True)
    time.sleep(pace_s)
    while pace_s and step == 15 and os.environ["HEADWAY_ATTEMPT"] == "1":
        time.sleep(0.1)  # Until its node dies.
total = torch.cat([weight.detach().flatten() for weight in model.parameters()]).double().sum().item()
print(f"done {total:.12f}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def nodes(living: Living) -> Living:
    """Four local nodes with room for everything: what is tried is the gang, not the machine."""
    config = living.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text('[pool.local]\nnodes = 4\ncpus = 4\nmemory = "4G"\n')
    return living


def log_of(living: Living, job: str, attempt: int, task: int, rank: int) -> str:
    from headway.client.sdk import Client

    client = Client({"HEADWAY_HOME": str(living.home)})
    try:
        return client.logs_raw(job, attempt, 0, task=task, rank=rank).data.decode()
    finally:
        client.close()


def test_every_rank_knows_its_gang(nodes: Living) -> None:
    script = nodes.script("say.py", SAY)
    job = nodes.submit("--nodes", "2", "--ranks-per-node", "2", "--cpus", "0.5", str(script))
    done = nodes.wait(job)
    assert done["state"] == "succeeded", done["sentence"]
    said = [json.loads(log_of(nodes, job, 1, rank // 2, rank)) for rank in range(4)]
    numbers = [(each["RANK"], each["LOCAL_RANK"], each["NODE_RANK"], each["GROUP_RANK"]) for each in said]
    assert numbers == [("0", "0", "0", "0"), ("1", "1", "0", "0"), ("2", "0", "1", "1"), ("3", "1", "1", "1")]
    assert {(each["WORLD_SIZE"], each["LOCAL_WORLD_SIZE"]) for each in said} == {("4", "2")}
    assert len({(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in said}) == 1
    assert {each["NODES"] for each in said} == {"127.0.0.1,127.0.0.1"} == {each["HEADWAY_NODES"] for each in said}
    assert {each["hosts"] for each in said} == {"127.0.0.1 slots=4\n"}
    clusters = [each["TF_CONFIG"]["cluster"] for each in said]
    assert all(cluster == clusters[0] for cluster in clusters)
    assert len({*clusters[0]["chief"], *clusters[0]["worker"]}) == 4
    roles = [(each["TF_CONFIG"]["task"]["type"], each["TF_CONFIG"]["task"]["index"]) for each in said]
    assert roles == [("chief", 0), ("worker", 0), ("worker", 1), ("worker", 2)]


def test_the_first_failing_rank_is_named_with_its_node(nodes: Living) -> None:
    script = nodes.script(
        "fail.py", "import os, time\nr = int(os.environ['RANK'])\ntime.sleep(600 if r != 2 else 0.2)\n1 / 0\n"
    )
    job = nodes.submit("--nodes", "3", "--cpus", "0.5", "--grace", "1s", str(script))
    done = nodes.wait(job)
    assert (done["state"], done["cause"]) == ("failed", "user_code")
    node = done["attempts"][0]["tasks"][2]["node"]
    assert f"(rank 2 on {node}, exit code " in done["sentence"]
    assert "ZeroDivisionError" in done["sentence"]


def six_ranks_summed(nodes: Living, job: str) -> None:
    """See that two ranks on each of three nodes met, and that every one of them wrote its line."""
    done = nodes.wait(job)
    said = log_of(nodes, job, 1, 0, 0)
    assert done["state"] == "succeeded", f"{done['sentence']}\n{said}"
    places = [task["node"] for task in done["attempts"][0]["tasks"]]
    assert sorted(said.splitlines()) == [
        f"rank {rank} local {rank % 2} on {places[rank // 2]} sum 15" for rank in range(6)
    ]


def a_stop_is_told_to_both(nodes: Living, job: str) -> None:
    wait_until(lambda: nodes.job(job)["state"] == "running", what="its start")
    wait_until(lambda: log_of(nodes, job, 1, 0, 0).count("sum 1") == 2, what="both ranks")
    nodes.ok("stop", job)
    assert nodes.wait(job)["state"] == "cancelled"
    assert {"told 0", "told 1"} <= set(log_of(nodes, job, 1, 0, 0).splitlines())


def test_a_real_mpirun_has_its_ranks_on_every_node_without_ssh(nodes: Living) -> None:
    have_open_mpi()
    nodes.script("sum.py", MPI)
    words = ["--nodes", "3", "--ranks-per-node", "2", "--cpus", "0.5", "--launcher", "mpi", "--max-duration", "10m"]
    job = nodes.submit(*words, "--env", "PATH=/usr/bin:/bin", "--", "python3", "sum.py")
    six_ranks_summed(nodes, job)


def test_a_stop_reaches_the_ranks_of_mpirun_on_every_node(nodes: Living) -> None:
    have_open_mpi()
    nodes.script("sum.py", MPI)
    words = ["--nodes", "2", "--cpus", "0.5", "--launcher", "mpi", "--max-duration", "10m", "--grace", "60s"]
    job = nodes.submit(*words, "--env", "PATH=/usr/bin:/bin", "--", "python3", "sum.py", "stay")
    a_stop_is_told_to_both(nodes, job)
    assert not [pid for pid in nodes.processes() if b"sum.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_mpich_works_as_well_and_a_rank_that_fails_elsewhere_ends_the_gang(nodes: Living) -> None:
    have_mpich()
    nodes.script("sum.py", MPICH)
    words = ["--ranks-per-node", "2", "--cpus", "0.5", "--launcher", "mpi", "--max-duration", "10m", "--grace", "60s"]
    words += ["--env", "HEADWAY_MPIRUN=mpirun.mpich", "--env", "PATH=/usr/bin:/bin"]
    job = nodes.submit(*words, "--nodes", "3", "--", "python3", "sum.py", "sum")
    six_ranks_summed(nodes, job)
    words[1] = "1"
    job = nodes.submit(*words, "--nodes", "2", "--", "python3", "sum.py", "fail")
    done = nodes.wait(job)
    assert (done["state"], done["cause"], done["attempts"][0]["exit_code"]) == ("failed", "user_code", 7)
    assert "rank 1" in done["sentence"]
    assert "exit code 7" in done["sentence"]
    job = nodes.submit(*words, "--nodes", "2", "--", "python3", "sum.py", "stay")
    a_stop_is_told_to_both(nodes, job)


def test_without_mpirun_a_sentence_says_so(nodes: Living) -> None:
    job = nodes.submit(
        "--nodes", "2", "--cpus", "0.5", "--launcher", "mpi", "--env", "PATH=/nowhere", "--", "/bin/true"
    )
    done = nodes.wait(job)
    assert done["state"] == "failed"
    assert "no mpirun on the PATH" in log_of(nodes, job, 1, 0, 0)


def test_a_thousand_ranks_per_node_are_refused() -> None:
    with pytest.raises(BadInput, match="ranks_per_node: 1000 is outside 1 to 256"):
        read_spec({"command": ["true"], "ranks_per_node": 1000})


def test_torchrun_starts_the_ranks_of_every_node(nodes: Living) -> None:
    python = torch_python()
    script = nodes.script("train.py", TRAIN)
    words = ["--nodes", "2", "--ranks-per-node", "2", "--cpus", "1", "--launcher", "torchrun", "--max-duration", "14m"]
    job = nodes.submit(*words, "--", python, str(script), "4", "2", "0")
    done = nodes.wait(job)
    assert done["state"] == "succeeded", f"{done['sentence']}\n{nodes.log(job)}"
    said = log_of(nodes, job, 1, 0, 0) + log_of(nodes, job, 1, 1, 2)
    assert {f"rank {rank} of 4 from step 0" for rank in range(4)} <= set(said.splitlines())


@pytest.mark.parametrize("size", [2, 4])
def test_a_node_dies_half_way_and_the_gang_goes_on_from_its_last_common_checkpoint(nodes: Living, size: int) -> None:
    python = torch_python()
    script = nodes.script("train.py", TRAIN)
    words = ["--cpus", "1", "--max-duration", "14m", "--grace", "2s", "--nodes", str(size)]
    quiet = nodes.submit(*words, "-n", "quiet", "--", python, str(script), "30", "5", "0")
    job = nodes.submit(*words, "-n", "hit", "--after", "quiet", "--", python, str(script), "30", "5", "0.1")
    wait_until(lambda: _committed(nodes, job) >= 5, what="a checkpoint of all nodes", limit_s=600)
    before = nodes.job(job)["attempts"][0]["tasks"]
    _kill_node(nodes, before[1]["node"])
    done = nodes.wait(job)
    assert done["state"] == "succeeded", f"{done['sentence']}\n{nodes.log(job)}"
    first, *later = done["attempts"]
    assert first["cause"] in ("node_lost", "outcome_lost"), first["sentence"]
    assert done["retries"]["user"] == 0
    again = later[-1]
    assert [task["node"] for task in again["tasks"] if task["index"] != 1] == [
        task["node"] for task in before if task["index"] != 1
    ], "the survivors kept their places"
    resumed = again["resumed_step"]
    assert resumed is not None
    assert resumed >= 5
    for index in range(size):
        assert f"from step {resumed}" in log_of(nodes, job, again["number"], index, index)
    assert _result(log_of(nodes, job, again["number"], 0, 0)) == _result(log_of(nodes, quiet, 1, 0, 0))


def _committed(living: Living, job: str) -> int:
    attempts = living.job(job)["attempts"]
    return int(attempts[-1]["committed_step"] or 0) if attempts else 0


def _result(log: str) -> str:
    return next(line for line in log.splitlines() if line.startswith("done"))


def _kill_node(living: Living, node: str) -> None:
    """The agent, the keeper and with it every rank of one node."""
    place = Path(living.home, "state/nodes", node)
    living.kill(living._pid(place / "agent.pid"), living._pid(place / "keeper.pid"))
