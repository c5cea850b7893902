"""Jobs that tell their step in the ways that people have, and under which step their checkpoints are shown."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest

from tests.living import Living
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.real

STEPS = 12
SCRIPT = """
import json, os, pickle, sys, time

habit, steps, place = sys.argv[1], int(sys.argv[2]), os.environ["HEADWAY_CHECKPOINT_DIR"]


def put(name, data):
    with open(f"{place}/{name}.tmp", "wb") as file:
        file.write(data)
    os.replace(f"{place}/{name}.tmp", f"{place}/{name}")


def save(done):
    data = f"opaque {done}".encode()  # A format that tells nothing.
    if habit == "named":
        put(f"step_{done:04d}.state", data)
    elif habit == "in place":
        with open(f"{place}/newest.state", "wb") as file:
            file.write(data)
    else:
        put("newest.state", data)
    if habit == "content":
        put("snapshot.pkl", pickle.dumps({"step": done, "weights": [1.0] * 50}))


def tell(done):
    if habit in ("printed", "in place", "told after"):
        print(f"step {done}/100 loss={1 / done:.3f}", flush=True)
    elif habit == "from zero":
        print(f"step {done - 1} loss={1 / done:.3f}", flush=True)
    elif habit == "epochs":
        print(f"Epoch {done}/{steps}", flush=True)
    elif habit == "bar":
        print(f"training:  {done:2d}%|████    | {done}/{steps} [00:{done:02d}<00:09,  2.48it/s]", flush=True)
    elif habit == "log":
        import headway
        headway.log({"loss": 1 / done}, step=done)


for done in range(1, steps + 1):
    time.sleep(0.3)
    for act in (save, tell) if habit == "told after" else (tell, save):
        act(done)
"""
SHOWN = {
    "printed": ("step", STEPS),
    "in place": ("step", STEPS),
    "told after": ("step", STEPS),
    "from zero": ("step", STEPS - 1),  # Its own word: Headway does not count for it.
    "epochs": ("epoch", STEPS),
    "bar": ("step", STEPS),
    "log": ("step", STEPS),
    "named": ("step", STEPS),
    "content": ("step", STEPS),
    "silent": ("save", STEPS),
}


def content_of(living: Living, job: str, step: int, path: str) -> bytes:
    """A file of a checkpoint, as storage has it."""
    said = json.loads((living.home / "state/server.json").read_text())
    token = (living.home / "state/token").read_text().strip()
    address = f"{said['url']}/api/v1/jobs/{job}/checkpoints/{step}/raw?path={path}"
    with urlopen(Request(address, headers={"Authorization": f"Bearer {token}"}), timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


def test_a_checkpoint_is_shown_under_the_step_that_its_job_told(living: Living) -> None:
    living.env["HEADWAY_LOCAL_CPUS"] = "16"
    living.script("train.py", SCRIPT)
    jobs = {habit: living.submit("--no-bundle", "train.py", habit, str(STEPS)) for habit in SHOWN}
    for habit, job in jobs.items():
        told = living.wait(job)
        newest = told["checkpoint"]
        unit, step = SHOWN[habit]
        # Of a job that tells nothing saves are counted; on a busy machine its first two may be found by one look.
        steps = (step - 1, step) if habit == "silent" else (step,)
        assert (told["state"], newest["unit"]) == ("succeeded", unit), habit
        assert newest["step"] in steps, habit
        shown = json.loads(living.ok("checkpoints", job, "--json"))["checkpoints"]
        for each in shown:
            path = f"step_{each['step']:04d}.state" if habit == "named" else "newest.state"
            done = int(content_of(living, job, each["step"], path).split()[1])
            # What is only printed has no place in the file: it may be the line before or after on a busy machine.
            assert abs(done - (STEPS - SHOWN[habit][1]) - each["step"]) <= 1, (habit, each)
        assert len(shown) == 3, habit
