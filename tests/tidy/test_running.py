"""How the tests themselves are run: nothing is left, and no order loses one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import leftovers, order
from tests.waiting import wait_until


@pytest.mark.parametrize("said", [leftovers.WELL, b""], ids=["ended", "killed"])
def test_what_names_the_ground_of_a_run_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    ground = tmp_path / "ground"
    (ground / "deep").mkdir(parents=True)
    words = [sys.executable, "-S", "-m", "tests.leftovers", str(ground)]
    env = {**os.environ, "HEADWAY_TEST_ENDING_S": "0.2"}
    with subprocess.Popen(["sleep", "1000"], env={"TMPDIR": str(ground)}, start_new_session=True) as left:
        done = subprocess.run(words, cwd=leftovers.ROOT, env=env, input=said, capture_output=True, timeout=300)
        wait_until(lambda: left.poll() is not None, what="the end of what was left")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == (f"{left.pid} sleep 1000 \n" if said else "")
    assert not ground.exists()


@pytest.mark.parametrize("workers", [2, 3, 7])
def test_every_test_is_dealt_once_and_long_modules_come_first_and_whole(workers: int) -> None:
    names = ["tests/core/test_a.py"] * 50 + ["tests/real/test_gangs.py"] * 3 + ["tests/core/test_b.py"] * 20
    names += ["tests/slurm/test_engine.py"] * 2 + ["tests/slurm/test_real.py"] * 2 + ["tests/ssh/test_hosts.py"] * 4
    dealt = order.dealt(names, workers)
    assert sorted(dealt) == list(range(len(names)))
    shown = [names[index] for index in dealt]
    assert shown[:4] == ["tests/slurm/test_engine.py"] * 2 + ["tests/slurm/test_real.py"] * 2
    size = len(names) // workers
    assert shown[size : size + 4] == ["tests/ssh/test_hosts.py"] * 4
