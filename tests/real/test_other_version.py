"""Agents and servers of two versions work together: those of today, and those from before the words had types.

The other version is taken from the history: src/ as it was at BEFORE. A tree of a server of one version and an agent of
the other is put before all else on the path, so that the server hands out an agent which is not its own.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "8d7422d"
GANG = """
import os, signal, sys, time
told, place = [], os.environ["HEADWAY_CHECKPOINT_DIR"]
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
found = sorted(name for name in os.listdir(place) if name.endswith(".pt"))
print("begins", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "at", os.environ["MASTER_ADDR"] and "master",
      "from", os.environ.get("HEADWAY_RESUME_STEP", "nothing"), "with", ",".join(found) or "nothing", flush=True)
if found:
    sys.exit(0)
with open(f"{place}/x.tmp", "wb") as file:
    file.write(os.urandom(100_000))
os.rename(f"{place}/x.tmp", f"{place}/rank-{os.environ['RANK']}-step-7.pt")
while not told:
    time.sleep(0.02)
"""


def source_before() -> bytes:
    """The sources of the other version as a tar file. Where the history is cut off, there is nothing to try."""
    done = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True)
    if done.returncode:
        why = f"no commit {BEFORE} in this history, so nothing was tried with another version: {done.stderr.decode()}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    return done.stdout


@pytest.fixture(params=["an older agent", "an older server"])
def both(request: pytest.FixtureRequest, living: Living, tmp_path: Path) -> tuple[Living, str]:
    """A home whose server is of one version and whose agents are of the other."""
    old, tree = tmp_path / "old", tmp_path / "tree"
    with tarfile.open(fileobj=io.BytesIO(source_before())) as archive:
        archive.extractall(old, filter="data")
    server, agent = (ROOT / "src", old / "src") if request.param == "an older agent" else (old / "src", ROOT / "src")
    shutil.copytree(server / "headway", tree / "headway", ignore=shutil.ignore_patterns("__pycache__"))
    # How an agent is packed, and with which SDK, goes by what it is made of: both are as they are today.
    shutil.copy(ROOT / "src/headway/engines/agent_zip.py", tree / "headway/engines/agent_zip.py")
    shutil.copytree(ROOT / "src/headway/training", tree / "headway/training", dirs_exist_ok=True)
    for name, source in (("headway_agent", agent), ("headway_wire", ROOT / "src")):
        shutil.copytree(source / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    config = living.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text('[pool.local]\nnodes = 2\ncpus = 4\nmemory = "4G"\n')
    living.env["PYTHONPATH"] = str(tree)
    return living, str(request.param)


def test_a_gang_saves_is_visited_preempted_and_restored_with_another_version(both: tuple[Living, str]) -> None:
    living, version = both
    living.script("gang.py", GANG)
    words = ["--nodes", "2", "--cpus", "0.5", "--no-bundle", "--grace", "60s", "--", "python3", "gang.py"]
    job = living.submit(*words)
    wait_until(
        lambda: '"step": 7' in living.ok("checkpoints", job, "--json"), what="the commit of what both have saved"
    )
    names = zipfile.ZipFile(living.home / "state/nodes/local-1/agent.pyz").namelist()
    assert ("headway_agent/decide.py" in names) == (version == "an older agent")
    visit = living.run("exec", job, "--rank", "1", "--", "sh", "-c", "cat; echo at $RANK; exit 7", input="said ")
    assert (visit.returncode, visit.stdout) == (7, "said at 1\n")
    living.ok("preempt", job)
    done = living.wait(job)
    assert done["state"] == "succeeded", done
    for rank in (0, 1):
        said = living.ok("logs", job, "--attempt", "2", "--rank", str(rank))
        assert f"begins {rank} of 2 at master from 7 with" in said
        assert f"rank-{rank}-step-7.pt" in said
    assert "begins 0 of 2 at master from nothing with nothing" in living.log(job, "1")
    assert living.agent, "the agent has outlived it all"
