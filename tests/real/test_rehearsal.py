"""`headway doctor checkpoint` with real jobs of many habits: what it says of each, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.living import HEADWAY, PATIENT, Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

BEGIN = """
import os, pickle, sys, time
place = os.environ["HEADWAY_CHECKPOINT_DIR"] + "/"

def save(name, step):
    with open(place + "fresh.tmp", "wb") as file:
        pickle.dump(step, file)
    os.replace(place + "fresh.tmp", place + name)

def load(name):
    try:
        with open(place + name, "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return 0
"""

RESUMES = """
for step in range(load("state.pkl") + 1, 100_000):
    print("step", step)
    time.sleep(0.1)
    if step % 5 == 0:
        save("state.pkl", step)
"""
RESUMES_IN_SILENCE = RESUMES.replace('    print("step", step)\n', "").replace("% 5", "% 30")
SAVES_ON_NOTICE = """
import headway
for step in range(load("state.pkl") + 1, 100_000):
    print("step", step)
    time.sleep(0.1)
    if headway.stop_requested() or step % 20 == 0:
        save("state.pkl", step)
        headway.checkpoint(step, "state.pkl")
    if headway.stop_requested():
        sys.exit(1)
"""
NEVER_LOOKS = """
for epoch in range(100_000):
    print(f"Epoch {epoch} loss {1 / (epoch + 1):.4f}")
    time.sleep(0.6)
    save(f"model_{epoch:04}.pth", epoch)
"""
NEVER_LOOKS_IN_SILENCE = "\n".join(line for line in NEVER_LOOKS.splitlines() if "print" not in line)
SAVES_NOTHING = """
for step in range(100_000):
    print("step", step, file=open("progress.log", "a"))
    time.sleep(0.1)
"""
IN_PLACE = """
start = load("snapshot.pt")
for epoch in range(start, 100_000):
    print("epoch", epoch)
    time.sleep(4)
    with open(place + "snapshot.pt", "wb") as file:
        pickle.dump(epoch + 1, file)
"""
FAILS_ON_RESUME = (
    """
if os.listdir(place):
    raise KeyError("optimizer_state")
"""
    + RESUMES
)
OVER_AT_ONCE = "save('state.pkl', 1)"
FAILS_AT_ONCE = "sys.exit('no data')"

HABITS: dict[str, tuple[str, str, int]] = {
    "resumes": (RESUMES, "resumes", 0),
    "resumes_in_silence": (RESUMES_IN_SILENCE, "resumes", 0),
    "saves_on_notice": (SAVES_ON_NOTICE, "resumes", 0),
    "never_looks": (NEVER_LOOKS, "starts_over", 1),
    "never_looks_in_silence": (NEVER_LOOKS_IN_SILENCE, "starts_over", 1),
    "saves_nothing": (SAVES_NOTHING, "saves_nothing", 1),
    "in_place": (IN_PLACE, "resumes", 0),
    "fails_on_resume": (FAILS_ON_RESUME, "fails_on_resume", 1),
    "over_at_once": (OVER_AT_ONCE, "ended_before", 2),
    "fails_at_once": (FAILS_AT_ONCE, "failed_before", 2),
}


def test_each_habit_is_recognised(living: Living) -> None:
    def rehearse(name: str) -> dict[str, Any]:
        within = "5s" if name == "saves_nothing" else "60s"
        flags = ["--json", "--cpus", "0.05", "--within", within, "--set", "checkpoint.settle=1"]
        done = living.run("doctor", "checkpoint", *flags, f"{name}.py")
        assert done.stdout, done.stderr
        return {**json.loads(done.stdout), "code": done.returncode}

    for name, (script, _, _) in HABITS.items():
        living.script(f"{name}.py", BEGIN + script)
    living.ok("ps")
    with ThreadPoolExecutor(5) as pool:
        found = dict(zip(HABITS, pool.map(rehearse, HABITS), strict=True))
    for name, (_, kind, code) in HABITS.items():
        assert (found[name]["kind"], found[name]["code"]) == (kind, code), found[name]["remarks"]
        job = living.job(found[name]["job"])
        assert job["state"] in ("cancelled", "succeeded", "failed"), "it still runs"
        assert (job["name"], job["tags"]) == (f"{name}-rehearsal", {"rehearsal": "yes"})
    told = {name: {each["what"]: each["found"] for each in found[name]["remarks"]} for name in found}
    assert "went on with" in told["resumes"]["resumes"]
    assert "opened state.pkl" in told["resumes_in_silence"]["resumes"]
    assert told["saves_on_notice"]["notice"] == "it saved when it was told to end: a preemption loses nothing"
    assert 'began with "epoch 0" again' in told["never_looks"]["resumes"]
    assert "did not open it" in told["never_looks_in_silence"]["resumes"]
    assert "progress.log" in told["saves_nothing"]["resumes"]
    assert told["in_place"]["saves"].startswith("snapshot.pt, ")
    assert any("optimizer_state" in line for line in found["fails_on_resume"]["remarks"][0]["quote"])


def test_interrupted_it_leaves_no_job_behind(living: Living) -> None:
    living.script("train.py", BEGIN + SAVES_NOTHING)
    living.ok("ps")
    words = [*HEADWAY, "run", "--rehearse", "train.py"]
    env = {**PATIENT, **os.environ, **living.env}
    with subprocess.Popen(words, cwd=living.place, env=env, stderr=subprocess.PIPE, text=True) as rehearsal:
        wait_until(lambda: "running" in living.ok("ps", "--json"), what="the job's start")
        rehearsal.send_signal(signal.SIGTERM)
        _, said = rehearsal.communicate()
    assert rehearsal.returncode == 130
    assert "interrupted" in said
    assert [job["state"] for job in json.loads(living.ok("ps", "--json"))["jobs"]] == ["cancelled"]
