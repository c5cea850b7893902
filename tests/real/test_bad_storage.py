"""A whole job while its bucket misbehaves for some seconds: the job trains on, and nothing acknowledged is lost."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from headway.storage.objects import ObjectStorage
from headway_agent.files.restore import restore
from tests.buckets import seaweed
from tests.faults import FAULTS, FaultyProxy
from tests.living import Living
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real

STEPS, EVERY = 160, 20
SCRIPT = f"""
import os, time
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
def save(step):
    with open(f"{{place}}/model.tmp", "wb") as file:
        file.write(b"%d." % step * 50_000)
    os.replace(f"{{place}}/model.tmp", f"{{place}}/model.bin")
for step in range(1, {STEPS} + 1):
    print(f"step {{step:04d}}", "\\u00fc" * 300, flush=True)
    if step % {EVERY} == 0:
        save(step)
    while step == 60 and not os.path.exists("healed"):
        time.sleep(0.02)
    while step == 140 and not os.path.exists("enough"):
        save(step)
        time.sleep(0.1)
    time.sleep(0.01)
with open(os.environ["HEADWAY_OUTPUT_DIR"] + "/final.bin", "wb") as file:
    file.write(b"final." * 100_000)
"""
LOG = "".join(f"step {step:04d} {'ü' * 300}\n" for step in range(1, STEPS + 1))


class Direct:
    """The bucket itself, as the agent's restoring reads it."""

    def __init__(self, storage: ObjectStorage) -> None:
        self.read = storage.get
        self.read_all = storage.get


def test_a_job_whose_bucket_misbehaves_for_a_while_loses_nothing(living: Living) -> None:
    below, at = living.place.name, urlsplit(seaweed().endpoint)
    proxy = FaultyProxy(at.hostname or "", at.port or 0, seed=5, share=1.0)
    proxy.on = False
    living.env["HEADWAY_HOUSEKEEPING_EVERY_S"] = "3600"  # Every checkpoint stays, to be restored.
    living.env.update(seaweed().settings(living.home, below, f"http://127.0.0.1:{proxy.port}"))
    living.script("train.py", SCRIPT)
    job = living.submit("--no-bundle", "train.py")
    wait_until(lambda: "step 0030" in living.run("logs", job).stdout, what="the first lines in storage")

    proxy.faults, proxy.on = ("500", "503", "reset"), True
    with pytest.raises(HTTPError, match="503"):  # What cannot be read is not shown. (The command would try again.)
        _raw_log(living, job)
    wait_until(lambda: "trouble:" in living.ok("server", "status"), what="the trouble to be told")
    proxy.faults, proxy.share = FAULTS, 0.4
    (living.place / "healed").touch()  # The job goes on now, with a bucket that is bad, not dead.
    met = proxy.met.total()
    wait_until(lambda: proxy.met.total() > met + 15 and len(proxy.met) >= 5, what="calls of a job that goes on")
    proxy.on = False
    (living.place / "enough").touch()

    ended = living.wait(job)
    assert ended["state"] == "succeeded", ended["sentence"]
    assert ended["attempt"] == 1
    assert living.log(job) == LOG
    living.ok("cp", f"{job}:final.bin", str(living.place / "back.bin"))
    assert (living.place / "back.bin").read_bytes() == b"final." * 100_000
    saved = json.loads(living.ok("checkpoints", job, "--json"))["checkpoints"]
    assert max(each["step"] for each in saved) > 0
    assert wait_until(lambda: "trouble" not in living.ok("server", "status"), what="the end of the trouble")
    _restorable(seaweed().open(below), job, len(saved), living.place)
    proxy.close()


def _raw_log(living: Living, job: str) -> bytes:
    url = json.loads((living.home / "state/server.json").read_text())["url"]
    token = (living.home / "state/token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    with urlopen(Request(f"{url}/api/v1/jobs/{job}/logs/raw?attempt=1", headers=headers), timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


def _restorable(storage: ObjectStorage, job: str, count: int, place: Path) -> None:
    """Every checkpoint that was acknowledged can be restored, from the bucket itself."""
    keys = [kept.key for kept in storage.list(f"jobs/{job}/1/checkpoints")]
    assert len(keys) >= count
    contents = set()
    for number, key in enumerate(keys):
        restore(Direct(storage), key, str(place / f"restored-{number}"), lambda: None)  # type: ignore[arg-type]
        contents.add((place / f"restored-{number}/model.bin").read_bytes()[:50])
    assert (b"%d." % STEPS * 50)[:50] in contents, "the last checkpoint"
