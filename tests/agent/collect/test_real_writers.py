"""Event files of the real libraries, read here and by TensorBoard itself."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest

from headway_agent.collect.event_files import EventFile
from tests.real.pythons import python_with
from tests.real.torching import TENSORBOARD, VERSION

pytestmark = pytest.mark.real
SCRIPT = Path(__file__).with_name("real_writers.py")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("written")
    python = python_with(TENSORBOARD, f"tensorboard-{VERSION}", 1500)
    subprocess.run([python, str(SCRIPT), str(place)], check=True, capture_output=True, timeout=300)
    return place


def read(folder: Path) -> tuple[list, dict]:
    points, params = [], {}
    for path in sorted(folder.rglob("*tfevents*")):
        file = EventFile()
        points += file.feed(path.read_bytes())
        assert file.offset == path.stat().st_size
        assert file.damaged_bytes == 0
        params.update(file.params)
    return points, params


def test_scalars_of_both_kinds_are_what_tensorboard_reads(written):
    said = json.loads((written / "said.json").read_text())
    points, _ = read(written / "run")
    plain = [(step, value) for name, value, step, _, _ in points if name == "loss"]
    assert len(plain) == len(said["loss"]) == 302
    for (step, value), (their_step, their_value) in zip(plain, said["loss"], strict=True):
        assert step == their_step
        assert value == their_value or (math.isnan(value) and math.isnan(their_value))
    for name in ("new", "double"):
        found = {step: value for tag, value, step, _, _ in points if tag == name}
        assert len(found) == 300
        assert all(math.isclose(found[step], step / 7, rel_tol=1e-6) for step in range(300))
    assert {name for name, *_ in points} == {"loss", "new", "double"}


def test_hyperparameters_and_their_results_are_read(written):
    points, params = read(written / "tuned")
    assert params == {"lr": 0.1, "optimizer": "adam", "amp": 1.0}
    assert [(name, value) for name, value, *_ in points] == [("hparam/acc", 0.75)]
