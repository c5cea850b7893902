"""A small training that can be compared bit by bit, and a job that runs it in a living Headway."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.living import Living
from tests.waiting import PATIENCE_S, wait_until

SCRIPT = '''
"""The weights after step n depend on nothing but n. Saves by rename every few steps, and when it is told to end."""
import os, pickle, signal, sys, time

steps, pace_s, every = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
ceiling = sys.argv[4] if len(sys.argv) > 4 else ""
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))


def held(step):
    """Whether the test has not allowed the next step yet."""
    if not ceiling:
        return False
    with open(ceiling) as file:
        return step >= int(file.read())


def save(step, weights):
    with open(f"{place}/model.tmp", "wb") as file:
        pickle.dump((step, weights), file)
    os.replace(f"{place}/model.tmp", f"{place}/model-{step}.pkl")
    for name in os.listdir(place):
        if name.endswith(".pkl") and int(name[6:-4]) < step - 2 * every:
            os.unlink(f"{place}/{name}")
    print("saved", step, time.time(), flush=True)


step, weights = 0, [((i * 2654435761) % 2**32) / 2**32 for i in range(700)]
saved = [int(name[6:-4]) for name in os.listdir(place) if name.endswith(".pkl")]
if saved:
    with open(f"{place}/model-{max(saved)}.pkl", "rb") as file:
        step, weights = pickle.load(file)
print("from", step, os.environ.get("HEADWAY_RESUME_STEP", 0), flush=True)
while step < steps:
    while held(step) and not told:
        time.sleep(0.01)
    for i in range(0, len(weights), 7):
        weights[i] = (weights[i] * 3.7 * (1 - weights[i]) + weights[i - 1] * 1e-3) % 1.0
    step += 1
    if told or step % every == 0:
        save(step, weights)
    print("step", step, flush=True)
    if told:
        sys.exit(0)
    time.sleep(pace_s)
with open(os.environ["HEADWAY_OUTPUT_DIR"] + "/final.pkl", "wb") as file:
    pickle.dump((step, weights), file)
'''


def undisturbed(steps: int) -> bytes:
    """The final model of a training that nobody touched."""
    weights = [((i * 2654435761) % 2**32) / 2**32 for i in range(700)]
    for _ in range(steps):
        for i in range(0, len(weights), 7):
            weights[i] = (weights[i] * 3.7 * (1 - weights[i]) + weights[i - 1] * 1e-3) % 1.0
    return pickle.dumps((steps, weights))


def events_of(living: Living, job: str) -> list[dict[str, Any]]:
    """The recorded facts of a job so far."""
    said = json.loads((living.home / "state/server.json").read_text())
    token = (living.home / "state/token").read_text().strip()
    address = f"{said['url']}/api/v1/events/page?job={job}&limit=1000"
    with urlopen(Request(address, headers={"Authorization": f"Bearer {token}"}), timeout=PATIENCE_S) as answer:
        return list(json.load(answer)["events"])


@dataclass
class Training:
    """It runs ahead of the test by some steps, and there waits: it must not be over before it was disturbed."""

    living: Living
    steps: int
    pace_s: float = 0.01
    every: int = 10
    job: str = ""
    ahead: int = 30

    def begin(self, *words: str) -> Training:
        self.living.script("train.py", SCRIPT)
        self.allow(2 * self.ahead)
        numbers = [str(self.steps), str(self.pace_s), str(self.every), str(self.ceiling)]
        self.job = self.living.submit("--no-bundle", *words, "train.py", *numbers)
        return self

    @property
    def ceiling(self) -> Path:
        """The file with the step up to which it may go: not where the script is, which may become a bundle."""
        return self.living.home / "ceiling"

    def allow(self, step: int) -> None:
        """Let it go on to this step."""
        fresh = self.ceiling.with_suffix(".new")
        fresh.write_text(str(step))
        fresh.replace(self.ceiling)

    def directory(self, attempt: int) -> Path:
        name = f"tasks/{self.job}-{attempt}-0"
        nodes = self.living.home / "state/nodes"
        return next((path for path in nodes.glob(f"*/{name}")), nodes / "local-1" / name)

    def words(self, attempt: int, word: str) -> list[int]:
        """The numbers that an attempt wrote after a word, read from the node's own file."""
        try:
            lines = (self.directory(attempt) / "rank0.out").read_text().rpartition("\n")[0].splitlines()
        except OSError:
            return []
        return [int(line.split()[1]) for line in lines if line.startswith(word + " ")]

    def seen(self, attempt: int) -> int:
        return max(self.words(attempt, "step"), default=0)

    def until(self, attempt: int, step: int) -> None:
        self.allow(step + self.ahead)
        wait_until(lambda: self.seen(attempt) >= step, every_s=0.01, what=f"step {step} of attempt {attempt}")

    def began(self, attempt: int) -> int:
        """Wait for the first line of an attempt; the step that it resumed from."""
        return (
            wait_until(lambda: [f + 1 for f in self.words(attempt, "from")], every_s=0.01, what=f"attempt {attempt}")[0]
            - 1
        )

    def ended(self, attempt: int) -> None:
        """Wait until the server has heard of the end of an attempt."""

        def heard() -> bool:
            done = self.living.run("describe", self.job, "--json")
            attempts = json.loads(done.stdout)["attempts"] if done.returncode == 0 else []
            return len(attempts) >= attempt and attempts[attempt - 1]["ended_at"] is not None

        wait_until(heard, what=f"the end of attempt {attempt}")

    def pid(self) -> int:
        for entry in Path("/proc").iterdir():
            try:
                tagged = f"HEADWAY_TASK={self.job}/".encode() in (entry / "environ").read_bytes()
                if tagged and b"train.py" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
            except OSError:
                continue
        return 0

    def checkpoints(self) -> list[dict[str, Any]]:
        return list(json.loads(self.living.ok("checkpoints", self.job, "--json"))["checkpoints"])

    def commits(self) -> list[tuple[int, int, float]]:
        """Attempt, step and time of every commit of a checkpoint so far."""
        events = events_of(self.living, self.job)
        found = [each for each in events if each["kind"] == "CheckpointCommitted"]
        return [(each["attempt"], each["data"]["step"], each["at"]) for each in found]

    def longest_commit_s(self, kills: Sequence[float]) -> float:
        """How long it took at most until a saved step, or a later one, was committed; kills that came first apart."""
        commits, longest_s = self.commits(), 0.0
        for line in self.living.ok("logs", self.job).splitlines():
            if line.startswith("saved "):
                step, saved_at = int(line.split()[1]), float(line.split()[2])
                killed_at = min((at for at in kills if at > saved_at), default=math.inf)
                safe_at = min((at for _, done, at in commits if done >= step and at > saved_at), default=math.inf)
                if safe_at < killed_at:
                    longest_s = max(longest_s, safe_at - saved_at)
        return longest_s

    def finished_like_an_undisturbed_one(self) -> dict[str, Any]:
        self.allow(self.steps)
        ended = self.living.wait(self.job)
        assert ended["state"] == "succeeded", ended["sentence"]
        place = self.living.place / "kept"
        self.living.ok("cp", f"{self.job}:final.pkl", str(place))
        assert place.read_bytes() == undisturbed(self.steps)
        return ended
