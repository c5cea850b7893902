"""The agent is killed in the middle of large uploads to a bucket: the next one goes on behind what has arrived."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import pytest

from tests.buckets import seaweed
from tests.faults import FaultyProxy
from tests.living import Living
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real

MIB = 1 << 20
SCRIPT = """
import os, time
def write(path, mark):
    with open(path + ".tmp", "wb") as file:
        for number in range(70):
            file.write(bytes([mark, number]) * (1 << 19))
    os.replace(path + ".tmp", path)
write(os.environ["HEADWAY_CHECKPOINT_DIR"] + "/model.bin", 1)
while not os.path.exists("saved"):
    time.sleep(0.05)
write(os.environ["HEADWAY_OUTPUT_DIR"] + "/large.bin", 2)
"""


class Counting:
    """Counts the PUTs below a prefix, and holds those after the first two until the agent is dead."""

    def __init__(self, at_once: int = 1) -> None:
        self.names: list[str] = []
        self.at_once = at_once
        self.held = threading.Event()
        self.free = threading.Event()

    def __call__(self, path: str) -> None:
        if "/parts/" not in path:
            return
        self.names.append(urlsplit(path).path.rpartition("/")[2])
        if len(self.names) == 2 + self.at_once:
            self.held.set()  # So many more are sent only when the first two were answered.
        if len(self.names) > 2:
            self.free.wait(PATIENCE_S)


def killed_in_the_middle(living: Living, proxy: FaultyProxy, at_once: int) -> list[str]:
    """Let two objects arrive, end the agent, and return the names of those that were sent afterwards."""
    counting = proxy.on_put = Counting(at_once)
    assert counting.held.wait(PATIENCE_S)
    living.kill(living.agent)
    proxy.on_put = later = Counting()
    later.free.set()
    counting.free.set()
    return later.names


def test_what_has_arrived_of_large_files_is_not_sent_again_by_the_next_agent(living: Living) -> None:
    below, at = living.place.name, urlsplit(seaweed().endpoint)
    proxy = FaultyProxy(at.hostname or "", at.port or 0, seed=1)
    proxy.on = False
    living.env.update(seaweed().settings(living.home, below, f"http://127.0.0.1:{proxy.port}"))
    living.script("large.py", SCRIPT)
    job = living.submit("--no-bundle", "large.py")
    sent = killed_in_the_middle(living, proxy, at_once=2)
    wait_until(lambda: len(living.run("checkpoints", job, "-o", "name").stdout.split()) == 1, what="a checkpoint")
    assert len(sent) == 3, f"of 70 MiB in objects of 16, two had arrived: {sent}"

    (living.place / "saved").touch()
    sent = killed_in_the_middle(living, proxy, at_once=1)
    ended = living.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended["sentence"]
    assert len(sent) == 3, sent
    living.ok("cp", f"{job}:large.bin", str(living.place / "back.bin"))
    content = b"".join(bytes([2, number]) * (1 << 19) for number in range(70))
    assert (living.place / "back.bin").read_bytes() == content
    proxy.close()
