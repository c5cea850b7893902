"""What an order would send, for each engine: exactly that, kept in golden/ for Slurm, and nothing secret in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headway.cli.screen.cluster import request
from headway.control.nodes.render import rendered
from headway.core.errors import BadInput
from headway.core.growth.grow import Order
from headway.core.model import NodeId, Pool, Resources
from headway.engines import agent_zip
from headway.engines.local import LocalEngine
from headway.engines.slurm.engine import SlurmEngine
from headway.engines.slurm.script import BEGIN
from headway.engines.ssh.engine import SshEngine
from headway.settings import Settings, home_from

GOLDEN = Path(__file__).parents[1] / "golden" / "slurm-order.txt"
OPTIONS = {
    "partition": "gpu", "account": "vision", "qos": "normal", "constraint": "a100&nvlink", "time": "8h", "notice": "5m",
    "grace": "30s", "requeue": "yes", "sbatch": "--exclude=bad1", "python": "/opt/python 3/bin/python3",
}  # fmt: skip
SLURM = Pool("lab", "slurm", 0, 4, shape=Resources(8.0, 32 << 30, 2), gpu_type="a100", options=OPTIONS)
LOCAL = Pool("here", "local", 2, 2)
SSH = Pool("hosts", "ssh", 2, 2, options={"hosts": ["gpu1", "ada@gpu2:2222"]})
ENV = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "hidden", "UV_INDEX_URL": "https://ada:hidden@packages/simple"}


def token_for(node: NodeId) -> str:
    return f"hidden-{node}"


def an_engine(pool: Pool, home: Path) -> SlurmEngine | LocalEngine | SshEngine:
    place = home_from({"HEADWAY_HOME": str(home)})
    if pool.engine == "slurm":
        return SlurmEngine(pool, "k7m2", "http://head:8080", token_for, Settings(), {})
    agent = agent_zip.build()
    if pool.engine == "ssh":
        return SshEngine(place, pool, agent, Settings(), "http://head:8080", "k7m2", token_for)
    return LocalEngine(place, pool, agent, str(home), Settings(), token_for, ENV)


def test_the_order_for_slurm_is_as_it_was(tmp_path: Path) -> None:
    said = request(rendered(SLURM, an_engine(SLURM, tmp_path), 2, ordered=True))
    # What begins on a node is run by the tests against a real Slurm; here it is the rest that is looked at.
    said = said.replace(BEGIN.rstrip("\n"), "<begin>") + "\n"
    if os.environ.get("HEADWAY_TEST_GOLDEN") == "write":
        GOLDEN.write_text(said)
    assert said == GOLDEN.read_text(), "it differs; HEADWAY_TEST_GOLDEN=write keeps the new text"


@pytest.mark.parametrize(
    ("pool", "nodes"),
    [
        (SLURM, ["lab-0000000000-0", "lab-0000000000-1"]),
        (LOCAL, ["here-1", "here-2"]),
        (SSH, ["hosts-gpu1", "hosts-gpu2"]),
    ],
)
def test_every_engine_says_what_it_would_send_and_nothing_secret(pool: Pool, nodes: list[str], tmp_path: Path) -> None:
    found = rendered(pool, an_engine(pool, tmp_path), 2, ordered=pool is SLURM)
    assert found["nodes"] == nodes
    assert json.loads(json.dumps(found)) == found
    assert "hidden" not in str(found) + request(found)
    assert all(node.rpartition("-")[0] in request(found) for node in nodes)
    assert not list(tmp_path.iterdir()), "nothing was done"


def test_more_nodes_than_the_pool_may_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match='pool "hosts" has at most 2, not 3'):
        rendered(SSH, an_engine(SSH, tmp_path), 3, ordered=False)


@pytest.mark.parametrize(
    ("wanted", "reach"),
    [
        ("", []),
        ("*", []),
        ("AWS_REGION", ["AWS_REGION"]),
        ("HF_TOKEN, AWS_*", ["AWS_REGION", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN"]),
    ],
)
def test_keys_of_the_server_reach_its_local_nodes_only_where_they_are_named(
    wanted: str, reach: list[str], tmp_path: Path
) -> None:
    env = {"PATH": "/bin", "AWS_REGION": "r", "AWS_SECRET_ACCESS_KEY": "s", "HF_TOKEN": "t", "AZURE_KEY": "u"}
    place, settings = home_from({"HEADWAY_HOME": str(tmp_path)}), Settings(agent_env=wanted)
    engine = LocalEngine(place, LOCAL, agent_zip.build(), "", settings, token_for, env)
    (order,) = {json.dumps(start["env"]) for start in rendered_nodes(engine)}
    assert sorted(json.loads(order)) == sorted([*reach, "PATH"])


def rendered_nodes(engine: LocalEngine) -> list[dict[str, Any]]:
    return list(engine.render(Order("o", "here", ("here-1", "here-2"))).text["nodes"].values())
