"""The Slurm engine keeps the law of ordered engines, against a real Slurm. No server: nobody needs to call home."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.core.growth.grow import Order
from headway.core.model import Pool, Resources
from headway.engines.conformance import OrderedEngineConformance
from headway.engines.slurm.engine import KIND, SlurmEngine
from headway.engines.slurm.script import job_name
from headway.settings import Settings
from tests.slurmlab import SlurmLab
from tests.waiting import wait_until

NOWHERE = "http://127.0.0.1:9"
SMALL = Resources(1.0, 64 << 20)


@pytest.mark.real
class TestSlurmEngine(OrderedEngineConformance):
    kind = KIND

    @pytest.fixture(autouse=True)
    def _in_a_lab(self, lab: SlurmLab) -> None:
        self.lab = lab

    def an_engine(self, place: Path, **options: str) -> SlurmEngine:
        words = {"conf": f"{self.lab.path}/slurm.conf", "node_dir": str(place), **options}
        pool = Pool(self.pool, "slurm", 0, 4, shape=Resources(1.0, 64 << 20), options=words)
        return SlurmEngine(pool, place.name, NOWHERE, lambda node: f"secret-{node}", Settings())

    def open_engine(self, place: Path) -> SlurmEngine:
        return self.an_engine(place)

    def open_waiting_engine(self, place: Path) -> SlurmEngine:
        return self.an_engine(place, partition="shut")

    def take_away(self, place: Path, order: Order) -> None:
        files = [f"headway-*/{node}/ordered.json" for node in order.nodes]
        wait_until(lambda: all(list(place.glob(file)) for file in files), what="the nodes' own files")
        self.lab.do("scancel", "-n", job_name(place.name, order.id))

    def left_over(self, place: Path) -> list[str]:
        files = [str(path) for path in place.glob("headway-*/*")]
        return files + [name for name in self.lab.jobs() if name.startswith(job_name(place.name, ""))]


@pytest.mark.real
@pytest.mark.parametrize(
    ("shape", "options", "verdicts", "said"),
    [
        (SMALL, {}, ["ok"], "Slurm takes an order of one node"),
        (Resources(1.0, 64 << 20, 2), {"constraint": "fast", "partition": "batch,high"}, ["ok"], "Slurm takes"),
        (SMALL, {"partition": "nowhere"}, ["fail"], "Invalid partition name specified (it has batch, high, shut)"),
        (SMALL, {"partition": "shut"}, ["ok", "warn"], "partition shut is not up: orders wait until it is"),
        (Resources(64.0), {}, ["fail"], "of 4 nodes the largest has 4 cpus and 4.0 GiB; it has the generic resources"),
        (SMALL, {"constraint": "huge"}, ["fail"], "Invalid feature specification (it has the features fast)"),
        (SMALL, {"gres": "fpga:1"}, ["fail"], "it has the generic resources gpu:a100:2"),
        (SMALL, {"account": "vision", "qos": "fast"}, ["ok", "ok", "ok"], 'no accounts here: qos "fast" means nothing'),
    ],
)  # fmt: skip
def test_a_pool_is_held_against_the_cluster(
    lab: SlurmLab, shape: Resources, options: dict[str, str], verdicts: list[str], said: str
) -> None:
    pool = Pool("lab", "slurm", 0, 4, shape=shape, options={"conf": f"{lab.path}/slurm.conf", **options})
    (found,) = SlurmEngine(pool, "house", NOWHERE, str, Settings()).examine()
    assert [each["verdict"] for each in found["findings"]] == verdicts, found
    assert said in " ".join(each["found"] for each in found["findings"])
    assert not [name for name in lab.jobs() if "trial" in name], "nothing was ordered"
