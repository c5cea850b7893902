"""A job that is lost and preempted, on a pool with a price: what that cost, and that a rerun gives the same bits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.living import Living
from tests.real.training import Training
from tests.waiting import wait_until

pytestmark = pytest.mark.real

SEEDED = """
import os, random, signal, sys, time
place, steps = os.environ["HEADWAY_CHECKPOINT_DIR"], 120
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
saved = sorted(int(name[6:-4]) for name in os.listdir(place) if name.endswith(".txt"))
step, weight = 0, random.Random(int(os.environ["HEADWAY_SEED"])).random()
if saved:
    step, weight = saved[-1], float.fromhex(open(f"{place}/model-{saved[-1]}.txt").read())
print("from", step, flush=True)
while step < steps:
    while step >= int(open(sys.argv[1]).read()) and not told:
        time.sleep(0.01)
    step += 1
    weight = (weight + random.Random(f"{os.environ['HEADWAY_SEED']} {step}").random()) % 1.0
    if told or step % 10 == 0:
        with open(f"{place}/x.tmp", "w") as file:
            file.write(weight.hex())
        os.replace(f"{place}/x.tmp", f"{place}/model-{step}.txt")
        [os.unlink(f"{place}/{name}") for name in os.listdir(place) if name != f"model-{step}.txt"]
    print("step", step, flush=True)
    if told:
        sys.exit(1)
    time.sleep(0.01)
with open(os.environ["HEADWAY_OUTPUT_DIR"] + "/model.txt", "w") as file:
    file.write(weight.hex())
"""


def test_what_was_lost_has_a_price_and_a_rerun_gives_the_same_bits(living: Living) -> None:
    living.ok("pool", "set", "local", "price=36000")  # Ten a second: what is lost shows.
    living.script("train.py", SEEDED)
    training = Training(living, 120)
    training.allow(training.ahead)
    training.job = job = living.submit("--bundle", "--max-retries", "3", "train.py", str(training.ceiling))
    training.began(1)
    training.until(1, 15)
    living.kill(living.keeper)
    resumed = training.began(2)
    training.until(2, resumed + 15)
    living.ok("preempt", job, "-q")
    training.began(3)
    training.allow(training.steps)
    ended = living.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 3)

    lost = ended["account"]["by_cause"]
    assert set(lost) == {"outcome_lost", "preempted"}
    assert lost["preempted"]["steps"] == 0
    for each in lost.values():
        assert each["money"] == pytest.approx(each["seconds"] * 10, abs=0.02)
    assert ended["account"]["total"]["money"] > 0
    shown = next(line for line in living.ok("describe", job).splitlines() if line.startswith("lost:"))
    assert "in money (outcome_lost: " in shown

    again = living.ok("rerun", job, "-d", "-o", "name").strip()
    assert living.wait(again)["state"] == "succeeded"
    for which in (job, again):
        living.ok("cp", f"{which}:model.txt", str(living.place / which))
    assert (living.place / job).read_bytes() == (living.place / again).read_bytes()
    told = living.ok("diff", job, again)
    for group in ("code", "environment", "params", "spec", "hardware", "results"):
        assert f"{group}: the same" in told
    assert "attempts: 3 → 1" in told

    other = living.submit("--bundle", "--seed", "1", "train.py", str(training.ceiling))
    living.wait(other)
    told = living.ok("diff", job, other)
    assert "artifacts.model.txt: " in told
    assert "checkpoint.model-120.txt: " in told


def an_environment(place: Path, **packages: str) -> Path:
    """A virtual environment with these packages, as an installer leaves them; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (library,) = place.glob("lib/python3*/site-packages")
    for name, version in packages.items():
        (library / f"{name}-{version}.dist-info").mkdir()
    return place / "bin/python"


def test_jobs_that_ran_in_place_are_told_apart_by_the_packages_of_their_pythons(living: Living) -> None:
    old = an_environment(living.place / "old", torch="2.5.0", numpy="1.26.4", Sound_File="0.1")
    new = an_environment(living.place / "new", torch="2.6.0", numpy="1.26.4", einops="0.8")
    script = living.script("train.py", "import os, time\nwhile not os.path.exists('gate'):\n    time.sleep(0.05)\n")
    # Once directly, once as somebody's script does it: which Python it is, only the running process tells.
    jobs = [
        living.submit("--", str(old), str(script)),
        living.submit("--", "sh", "-c", f"PATH={new.parent}:$PATH; python {script}; true"),
    ]
    notes = [living.home / f"data/storage/jobs/{job}/1/packages/0.json" for job in jobs]
    wait_until(lambda: all(note.exists() for note in notes), what="a look at both")
    (living.place / "gate").touch()
    assert [living.wait(job)["state"] for job in jobs] == ["succeeded"] * 2
    apart = json.loads(living.ok("diff", *jobs, "--json"))["environment"]
    expected = {"torch": ["2.5.0", "2.6.0"], "sound-file": ["0.1", None], "einops": [None, "0.8"]}
    assert apart == {"packages": expected}
    assert "2.5.0" in living.ok("diff", *jobs)
