"""The Slurm engine keeps the law of ordered engines, against a real Slurm. No server: nobody needs to call home."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.core.grow import Order
from headway.core.model import Pool, Resources
from headway.engines.conformance import OrderedEngineConformance
from headway.engines.slurm import SlurmEngine
from headway.engines.slurm_script import job_name
from headway.settings import Settings
from tests.slurmlab import SlurmLab
from tests.waiting import wait_until

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.real
class TestSlurmEngine(OrderedEngineConformance):
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
        tokens = [f"headway-*/{node}/token" for node in order.nodes]
        wait_until(lambda: all(list(place.glob(token)) for token in tokens), what="the nodes' own files")
        self.lab.do("scancel", "-n", job_name(place.name, order.id))

    def left_over(self, place: Path) -> list[str]:
        files = [str(path) for path in place.glob("headway-*/*")]
        return files + [name for name in self.lab.jobs() if name.startswith(job_name(place.name, ""))]
