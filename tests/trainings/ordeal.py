"""One training that is ended again and again, in ways and at moments drawn from a seed, until it is done.

It goes through the real command line to a real server with local nodes. A lost machine is one whose processes are all
killed and whose disk is gone.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.living import Living, start_of
from tests.real.training import events_of
from tests.trainings.habits import SCRIPTS, Habit
from tests.trainings.journal import Journal
from tests.trainings.judge import MACHINE, NOTICE, RANK, RANKS, Commit, End, Evidence, Verdict, judge
from tests.waiting import wait_until

SOURCES = Path(__file__).resolve().parents[2] / "src"
TRIES = 3
LOSSES = (RANK, MACHINE, RANKS)
SETTINGS = {"HEADWAY_LOOK_EVERY_S": "0.2", "HEADWAY_TICK_EVERY_S": "0.2", "HEADWAY_LOCAL_CPUS": "8"}
OVER = ("succeeded", "failed", "cancelled")
LOOK_EVERY_S = 0.7  # At what the server says, while the journal is watched.


def plan(notices: int, losses: int, chance: random.Random) -> list[str]:
    ways = [NOTICE] * notices + [LOSSES[number % len(LOSSES)] for number in range(losses)]
    chance.shuffle(ways)
    return ways


@dataclass
class Ordeal:
    living: Living
    habit: Habit
    python: str = sys.executable
    seed: int = 1
    job: str = ""
    steps: int = 0
    price_per_hour: float = 0.0
    ends: list[End] = field(default_factory=list)

    # --- the training ---

    def run(self, ways: Sequence[str]) -> Verdict:
        chance = random.Random(self.seed)
        advances = [chance.randint(1, 5 * self.habit.every // 2) for _ in ways]
        # As many again as it may run beyond each end's moment, on a machine that is busy.
        self.steps = sum(advances) + (len(ways) + 3) * self.habit.every + 1
        self._begin()
        attempt = self._next_attempt(0)
        for way, advance in zip(ways, advances, strict=True):
            attempt = self._advance(attempt, advance, chance)
            self._strike(way, attempt, chance)
            attempt = self._next_attempt(attempt)
        self._allow(10**9)
        self.living.run("wait", self.job)
        return judge(self._evidence())

    def _begin(self) -> None:
        place = self.living.place / "project"
        shutil.copytree(SCRIPTS, place, ignore=shutil.ignore_patterns("__pycache__"))
        self._allow(0)
        nodes = self.habit.nodes + 1
        self.living.env = {**SETTINGS, "HEADWAY_LOCAL_NODES": str(nodes)}
        words = ["--bundle" if self.habit.bundle else "--no-bundle", "--workdir", str(place), "--max-retries", "1000"]
        words += ["--nodes", str(self.habit.nodes), "--ranks-per-node", str(self.habit.ranks_per_node)]
        words += ["--env", f"TRAINING_JOURNAL={self.journal_file}", "--env", f"TRAINING_CEILING={self.ceiling_file}"]
        if self.price_per_hour:
            self.living.ok("pool", "set", "local", f"price={self.price_per_hour}")
        self.job = self.living.submit(*words, *self.habit.submit, "--", *self._command())

    def _command(self) -> list[str]:
        amounts = ["--steps", str(self.steps), "--save-every", str(self.habit.every)]
        return [self.python, self.habit.script, *self.habit.words, *amounts]

    @property
    def journal_file(self) -> Path:
        return self.living.place / "journal"

    @property
    def ceiling_file(self) -> Path:
        return self.living.place / "ceiling"

    @property
    def journal(self) -> Journal:
        return Journal.read(self.journal_file)

    def _allow(self, step: int) -> None:
        """Let it go on to this step; to its end only when all ends that were planned are behind it."""
        fresh = self.ceiling_file.with_suffix(".new")
        fresh.write_text(f"{step} {self.habit.pace_s}")
        fresh.replace(self.ceiling_file)

    # --- waiting for it ---

    def _next_attempt(self, attempt: int) -> int:
        """Wait until all ranks of a later attempt have begun. It need not wait out its pause."""
        looked_at = time.monotonic()

        def found() -> int:
            nonlocal looked_at
            later = [each for each in self.journal.attempts(self.habit.ranks) if each > attempt]
            if not later and time.monotonic() - looked_at > LOOK_EVERY_S:
                looked_at = time.monotonic()
                self._alive()
                self.living.run("retry", self.job)
            return later[-1] if later else 0

        return wait_until(found, every_s=0.02, what=f"an attempt after {attempt}", story=self.story)

    def _alive(self) -> dict[str, Any]:
        said = self.living.job(self.job)
        assert said["state"] not in OVER, f"{said['sentence']}\n{self.story()}"
        return said

    def _advance(self, attempt: int, steps: int, chance: random.Random) -> int:
        """Let it go on by so many steps and a part of one interval. Returns the attempt that it is in by then."""
        target = min(self.journal.began(attempt) + steps, self.steps - 1)
        self._allow(min(target + self.habit.every, self.steps - 1))

        def come() -> bool:
            now = self.journal
            return now.reached(attempt) >= target or max(now.attempts(self.habit.ranks)) > attempt

        wait_until(come, every_s=0.01, what=f"step {target} of attempt {attempt}", story=self.story)
        if self.habit.within_saves:
            self._until_a_save(attempt)
        until = time.monotonic() + chance.random() * self.habit.every * self.habit.pace_s
        wait_until(lambda: time.monotonic() >= until, every_s=0.005)
        return max(self.journal.attempts(self.habit.ranks))

    def _until_a_save(self, attempt: int) -> None:
        """Wait until it begins its next save, unless no more of them come."""
        now = self.journal
        begun, last = len(now.of(attempt, "saving")), min(now.reached(attempt) + 2 * self.habit.every, self.steps - 1)
        self._allow(last)

        def come() -> bool:
            now = self.journal
            return len(now.of(attempt, "saving")) > begun or now.reached(attempt) >= last

        wait_until(come, every_s=0.005, what="a save", story=self.story)

    # --- ending it ---

    def _strike(self, way: str, attempt: int, chance: random.Random) -> None:
        ranks = {line.rank: line for line in self.journal.of(attempt, "began")}
        if way == NOTICE:
            self.ends.append(End(attempt, way, time.time()))
            self.living.ok("preempt", self.job, "-q")
        elif way == MACHINE:
            # A begin that the server has not heard of goes with the machine, and is the same attempt's once more.
            wait_until(lambda: self._heard_of(attempt), every_s=0.02, what=f"the server to hear of attempt {attempt}")
            lost = Path(ranks[chance.choice(sorted(ranks))].node)
            self.ends.append(End(attempt, way, time.time()))
            lose_machine(lost)
        else:
            picked = sorted(ranks) if way == RANKS else [chance.choice(sorted(ranks))]
            self.ends.append(End(attempt, way, time.time()))
            kill([ranks[rank].pid for rank in picked])

    def _heard_of(self, attempt: int) -> bool:
        told = self.living.job(self.job)
        return told["attempt"] > attempt or (told["attempt"] == attempt and told["state"] != "starting")

    # --- what was found ---

    def _evidence(self) -> Evidence:
        told = self.living.job(self.job)
        events = events_of(self.living, self.job)
        commits = [
            Commit(each["attempt"], each["data"]["step"], each["at"])
            for each in events
            if each["kind"] == "CheckpointCommitted"
        ]
        shown = json.loads(self.living.ok("checkpoints", self.job, "--json"))["checkpoints"]
        return Evidence(
            self.journal, self.ends, commits, told, shown, self.undisturbed(),
            self.habit.ranks, self.habit.heeds, self.habit.unsure_s, self.habit.several,
            self.habit.tells_begun, self.habit.tells_later,
            slow_to_end=self.python != sys.executable,
            price_per_s=self.price_per_hour * self.habit.nodes / 3600 or None,
        )  # fmt: skip

    def undisturbed(self) -> dict[int, str]:
        """What the same training ends with where nobody touches it, and no Headway is around."""
        for number in range(TRIES):  # The port that was free may be taken by the time that the ranks meet there.
            place = self.living.place / f"undisturbed-{number}"
            if self._alone(place):
                return Journal.read(place / "journal").results()
        raise AssertionError("a training that nobody touches fails")

    def _alone(self, place: Path) -> bool:
        shutil.copytree(SCRIPTS, place, ignore=shutil.ignore_patterns("__pycache__"))
        env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        # Where no Headway is around, nobody brings the SDK along.
        env |= {"PYTHONPATH": str(SOURCES), "TRAINING_JOURNAL": str(place / "journal")}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(self.habit.ranks)}
        env["LOCAL_WORLD_SIZE"] = str(self.habit.ranks_per_node)
        ranks = []
        for rank in range(self.habit.ranks):
            node, local = divmod(rank, self.habit.ranks_per_node)
            folder = place / f"checkpoints-{node}"  # Of each node its own.
            folder.mkdir(exist_ok=True)
            mine = env | {"RANK": str(rank), "LOCAL_RANK": str(local), "GROUP_RANK": str(node)}
            mine["HEADWAY_CHECKPOINT_DIR"] = str(folder)
            ranks.append(subprocess.Popen(self._command(), cwd=place, env=mine, stdout=subprocess.DEVNULL))

        def over() -> bool:
            codes = [each.poll() for each in ranks]
            return any(codes) or None not in codes

        wait_until(over, what="the end of a training that nobody touches")
        kill([each.pid for each in ranks if each.poll() is None])
        return not any(each.wait() for each in ranks)

    def story(self) -> str:
        """What is needed to see why it went wrong."""
        tail = self.journal_file.read_text().splitlines()[-12:] if self.journal_file.exists() else []
        said = self.living.run("describe", self.job).stdout
        log = self.living.run("logs", self.job).stdout.splitlines()[-12:]
        return "\n".join([f"ends: {self.ends}", *tail, said, *log])


def kill(pids: Sequence[int]) -> None:
    """Stop all of them, then kill them: none sees the end of another."""
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass
    wait_until(lambda: all(start_of(pid) is None for pid in pids), what=f"the end of {pids}")


def lose_machine(node: Path) -> None:
    """All that runs on this node is killed at once, and its disk is gone.

    Its successor may come to life in between, and would go on with half a disk for ever: it goes too.
    """
    while pids := _naming(node):
        kill(pids)
        shutil.rmtree(node, ignore_errors=True)


def _naming(node: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                said = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            except OSError:
                continue
            if re.search(re.escape(os.fsencode(node)) + rb"[/\0]", said) and start_of(int(entry.name)) is not None:
                found.append(int(entry.name))
    return found


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
