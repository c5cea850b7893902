"""Scripts that know nothing of Headway, save in places of their own, and go on from there after any end."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.living import Living
from tests.real.training import Training, events_of
from tests.waiting import wait_until

pytestmark = pytest.mark.real

LOOP = """
import glob, json, os, pickle, shutil, sys, time

steps, pace_s, every, ceiling = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def held(step):
    with open(ceiling) as file:
        return step >= int(file.read())

%s
step, weights = load() or (0, [((i * 2654435761) %% 2**32) / 2**32 for i in range(700)])
print("from", step, flush=True)
while step < steps:
    while held(step):
        time.sleep(0.01)
    for i in range(0, len(weights), 7):
        weights[i] = (weights[i] * 3.7 * (1 - weights[i]) + weights[i - 1] * 1e-3) %% 1.0
    step += 1
    if step %% every == 0:
        save(step, weights)
        print("saved", step, flush=True)
    print("step", step, flush=True)
    time.sleep(pace_s)
with open("final.pkl", "wb") as file:
    pickle.dump((step, weights), file)
"""

# One file in the working directory, written in place.
SNAPSHOT = """
def load():
    if os.path.exists("snapshot.pkl"):
        with open("snapshot.pkl", "rb") as file:
            return pickle.load(file)


def save(step, weights):
    with open("snapshot.pkl", "wb") as file:
        pickle.dump((step, weights), file)
"""

# A folder for each checkpoint, several files in it, the two newest kept; the newest is the one with the largest number.
FOLDERS = """
def load():
    found = sorted(glob.glob("outputs/checkpoint-*"), key=lambda path: int(path.rpartition("-")[2]))
    if found:
        with open(found[-1] + "/trainer_state.json") as file:
            step = json.load(file)["global_step"]
        with open(found[-1] + "/weights.pkl", "rb") as file:
            return step, pickle.load(file)


def save(step, weights):
    place = f"outputs/checkpoint-{step}"
    os.makedirs(place)
    with open(place + "/weights.pkl", "wb") as file:
        pickle.dump(weights, file)
    with open(place + "/trainer_state.json", "w") as file:
        json.dump({"global_step": step}, file)
    if os.path.exists(f"outputs/checkpoint-{step - 2 * every}"):
        shutil.rmtree(f"outputs/checkpoint-{step - 2 * every}")
"""

# A file for each checkpoint, in a folder that says nothing, beside a file with its name.
POINTED = """
def load():
    if os.path.exists("exp/last_checkpoint"):
        with open("exp/last_checkpoint") as file:
            name = file.read()
        with open("exp/" + name, "rb") as file:
            return pickle.load(file)


def save(step, weights):
    os.makedirs("exp", exist_ok=True)
    with open(f"exp/model_{step:07d}.pkl", "wb") as file:
        pickle.dump((step, weights), file)
    with open("exp/last_checkpoint", "w") as file:
        file.write(f"model_{step:07d}.pkl")
    if os.path.exists(f"exp/model_{step - 3 * every:07d}.pkl"):
        os.unlink(f"exp/model_{step - 3 * every:07d}.pkl")
"""

# The same folders; in its first attempt it dies in the middle of its tenth save.
DIES = FOLDERS.replace(
    "        pickle.dump(weights, file)",
    """        if step == 10 * every and not os.path.exists("died"):
            open("died", "w").close()
            file.write(pickle.dumps(weights)[:3000])
            file.flush()
            os.kill(os.getpid(), 9)
        pickle.dump(weights, file)""",
)
ANYTHING = SNAPSHOT.replace("snapshot.pkl", "kept/anything.else").replace(
    "def save(step, weights):", "def save(step, weights):\n    os.makedirs('kept', exist_ok=True)"
)
HABITS = {"snapshot": SNAPSHOT, "folders": FOLDERS, "pointed": POINTED, "dies": DIES, "anything": ANYTHING}
SAID = {
    "snapshot": "snapshot.pkl, found as pickle",
    "folders": "outputs/checkpoint-*, found as Hugging Face Trainer",
    "pointed": "exp/model_*.pkl, exp/last_checkpoint, found as pickle",
}


@dataclass
class Script(Training):
    """A training whose script has not one word about Headway."""

    pace_s: float = 0.03
    ahead: int = 60

    def submit(self, habit: str, *words: str) -> Script:
        self.living.script("train.py", LOOP % HABITS[habit])
        self.allow(2 * self.ahead)
        numbers = [str(self.steps), str(self.pace_s), str(self.every), str(self.ceiling)]
        self.job = self.living.submit("--outputs", "final.pkl", *words, "train.py", *numbers)
        return self

    def end(self, attempt: int, way: str) -> int:
        """End an attempt by force or with notice; the step that the next one began from."""
        if way == "notice":
            self.living.ok("preempt", self.job, "-q")
        else:
            self.living.kill(self.pid() if way == "rank" else self.living.keeper)
            self.ended(attempt)
            self.living.run("retry", self.job)
        return self.began(attempt + 1)

    def last_step(self, attempt: int) -> int:
        lines = self.living.log(self.job, str(attempt)).splitlines()
        return max(int(line.split()[1]) for line in lines if line.startswith("step "))

    def found(self) -> str:
        """What the agent has said of what it keeps of the first attempt, and why."""
        report = json.loads((self.directory(1) / "kept.json").read_text())["report"]
        return str(report["found"])


@pytest.mark.parametrize(
    ("habit", "where"),
    [
        ("snapshot", "--bundle"),
        ("snapshot", "--no-bundle"),
        ("folders", "--bundle"),
        ("folders", "--no-bundle"),
        ("pointed", "--bundle"),
    ],
)
def test_a_script_goes_on_from_its_own_files_after_any_end(living: Living, habit: str, where: str) -> None:
    script = Script(living, steps=400).submit(habit, where, "--max-retries", "10")
    resumed = script.began(1)
    for attempt, way in enumerate(["rank", "notice", "keeper"], 1):
        script.until(attempt, resumed + 80)
        assert attempt > 1 or script.found().startswith(SAID[habit])
        assert f" {SAID[habit]}" in living.ok("describe", script.job)
        resumed = script.end(attempt, way)
        assert resumed > 0, f"after the end by {way} it began from nothing"
        assert script.last_step(attempt) - resumed <= 3 * script.every, way
    script.finished_like_an_undisturbed_one()


def test_a_checkpoint_that_a_dead_rank_left_half_written_does_not_mislead_the_next_attempt(living: Living) -> None:
    script = Script(living, steps=200).submit("dies", "--no-bundle", "--max-retries", "3")
    script.ended(1)
    living.run("retry", script.job)
    assert script.began(2) == 90
    aside = living.place / f".headway-set-aside/{script.job}-before-attempt-2"
    assert (aside / "outputs/checkpoint-100/weights.pkl").stat().st_size == 3000
    script.finished_like_an_undisturbed_one()


def test_a_directory_that_is_asked_for_is_kept_and_put_back_whatever_is_in_it(living: Living) -> None:
    words = ("--bundle", "--max-retries", "3", "--checkpoint-dir", "kept")
    script = Script(living, steps=200).submit("anything", *words)
    script.until(1, 100)
    assert script.found() == "kept (asked for)"
    assert script.end(1, "rank") > 0
    script.finished_like_an_undisturbed_one()


def test_two_jobs_in_one_folder_say_that_nothing_is_kept_unless_they_name_their_places(living: Living) -> None:
    one = Script(living, steps=400).submit("snapshot", "--no-bundle")
    two = Script(living, steps=400).submit("snapshot", "--no-bundle")
    one.began(1)
    two.began(1)
    told = lambda: f"job {two.job} runs there too" in json.dumps(events_of(living, one.job))  # noqa: E731
    wait_until(told, what="a word about the other job")
    assert f"job {two.job} runs there too" in living.ok("describe", one.job)
    for script in (one, two):
        script.allow(400)
        living.wait(script.job)
