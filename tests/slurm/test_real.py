"""Jobs on a real Slurm: orders, gangs, warm allocations, notices, node failure, restarts; and nothing is left.

Slurm takes its time, above all for limits, which it looks at every half minute. So that nobody waits twice, each test
plays several stories at once, each in a pool of its own on its own machines of the lab.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.living import Living
from tests.slurm.conftest import Slurmed
from tests.slurmlab import SlurmLab
from tests.waiting import wait_until

pytestmark = pytest.mark.real


def orders(lab: SlurmLab, pool: str) -> list[str]:
    """The orders of a pool that Slurm has, and how many nodes each has."""
    lines = lab.do("squeue", "-h", "-o", "%j %D").splitlines()
    return sorted(line for line in lines if f"-{pool}-" in line)


def sentence(headway: Living, job: str, word: str) -> str:
    said = lambda: [each for each in [headway.job(job)["sentence"]] if word in each]  # noqa: E731
    return wait_until(said, every_s=0.3, what=f"{word} in the sentence")[0]


TRAIN = """
import json, os, signal, sys, time
from pathlib import Path

steps, trace = int(sys.argv[1]), open(sys.argv[2], "a")
place = Path(os.environ["HEADWAY_CHECKPOINT_DIR"])
saved = sorted(place.glob("step-*.json"), key=lambda path: int(path.stem[5:]))
step = json.loads(saved[-1].read_text())["step"] if saved else 0
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
say = lambda what: (trace.write(f"{os.environ['HEADWAY_ATTEMPT']} {what} {step} {time.time()}\\n"), trace.flush())
say("begins")
enough = Path(sys.argv[2] + ".enough")
while step < steps and not enough.exists():
    step += 1
    say("step")
    time.sleep(0.1)
    if told or step % 50 == 0:
        draft = place / "draft.tmp"
        draft.write_text(json.dumps({"step": step}))
        draft.rename(place / f"step-{step}.json")
    if told:
        say("told")
        sys.exit(143)
say("done")
"""


@dataclass(frozen=True)
class Training:
    """A job that writes down each of its steps."""

    headway: Living
    job: str
    trace: Path

    def lines(self) -> list[tuple[int, str, int, float]]:
        lines = [line.split() for line in self.trace.read_text().splitlines()] if self.trace.exists() else []
        return [(int(words[0]), words[1], int(words[2]), float(words[3])) for words in lines if len(words) == 4]

    def wait_for(self, what: str, attempt: int = 0) -> int:
        """Wait for this word of an attempt, or of any; says of which."""
        seen = lambda: [each[0] for each in self.lines() if each[1] == what and attempt in (0, each[0])]  # noqa: E731
        said = f'"{what}" of attempt {attempt or "any"} in {self.trace.name}'
        return wait_until(seen, every_s=0.2, what=said, story=lambda: self.headway.ok("describe", self.job))[0]

    def let_end(self) -> None:
        self.trace.with_name(self.trace.name + ".enough").touch()

    def node(self, attempt: int) -> str:
        return str(self.headway.job(self.job)["attempts"][attempt - 1]["tasks"][0]["node"])

    def resumed_without_loss(self, first: int = 1) -> None:
        told = next(step for attempt, what, step, _ in self.lines() if what == "told" and attempt == first)
        begun = next(step for attempt, what, step, _ in self.lines() if what == "begins" and attempt == first + 1)
        assert begun == told, "no step was lost"


def train(headway: Living, script: Path, pool: str, steps: int = 100_000) -> Training:
    """A training that goes on until it is let end, or has done its steps."""
    trace = headway.place / pool
    return Training(headway, headway.submit("--pool", pool, str(script), str(steps), str(trace)), trace)


def test_orders_follow_from_jobs_stay_warm_outlive_the_server_and_leave_nothing(
    slurmed: Slurmed, lab: SlurmLab
) -> None:
    headway = slurmed(
        kept=("", ""),
        warm=("idle = '10m'", ""),
        gang=("max = 2\nidle = '10m'", ""),
        fast=("gpus = 2\ngpu_type = 'a100'\nidle = '1s'", "constraint = 'fast'"),
        shut=("", "partition = 'shut'"),
        lost=("", "partition = 'nowhere'"),
    )
    kept = train(headway, headway.script("train.py", TRAIN), "kept")
    told = "echo hello from $HEADWAY_JOB_ID; exit 3"
    first = headway.submit("--pool", "warm", "--", "sh", "-c", told)
    gang = headway.submit("--pool", "gang", "--nodes", "2", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    gpus = ["--pool", "fast", "--gpus", "2", "--gpu-type", "a100", "--", "sh", "-c", "echo has $CUDA_VISIBLE_DEVICES"]
    fast = headway.submit(*gpus)
    shut, lost = (headway.submit("--pool", pool, "--", "true") for pool in ("shut", "lost"))

    done = headway.wait(first)
    assert (done["state"], done["cause"], done["attempts"][0]["exit_code"]) == ("failed", "user_code", 3), done
    assert headway.log(first) == f"hello from {first}\n"
    warm = orders(lab, "warm")
    assert len(warm) == 1
    second = headway.submit("--pool", "warm", "--", "sh", "-c", "env | grep -c ^SLURM_")
    assert headway.wait(second)["state"] == "failed", "a rank sees nothing of Slurm"
    assert orders(lab, "warm") == warm, "the second one ran in the first one's allocation"

    kept.wait_for("step")
    visited = headway.run("exec", kept.job, "--", "sh", "-c", "echo $HEADWAY_JOB_ID; exit 7")
    assert (visited.returncode, visited.stdout) == (7, f"{kept.job}\n")
    assert headway.wait(fast)["state"] == "succeeded"
    assert headway.log(fast) == "has 0,1\n", "from the one machine with GPUs and the feature"
    before = orders(lab, "kept")
    headway.kill(headway.server)

    done = headway.wait(gang)
    assert done["state"] == "succeeded", done["sentence"]
    assert [each.split()[1] for each in orders(lab, "gang")] == ["2"], "a gang has one allocation"
    nodes = [task["node"] for task in done["attempts"][0]["tasks"]]
    assert len(set(nodes)) == 2
    assert len({node.rpartition("-")[0] for node in nodes}) == 1, "both are of one order"

    said = sentence(headway, shut, "Slurm says")
    assert 'a node of pool "shut" ordered' in said
    assert "Slurm says: PartitionDown" in said
    assert "invalid partition specified: nowhere" in sentence(headway, lost, "refused")
    check_doctor_and_dry_run(headway, lab)

    kept.let_end()
    done = headway.wait(kept.job)
    assert (done["state"], len(done["attempts"])) == ("succeeded", 1), done["sentence"]
    assert orders(lab, "kept") == before, "a server that comes back finds its allocations again"

    headway.ok("stop", shut, lost)
    for pool in ("warm", "gang", "kept"):
        headway.ok("pool", "set", pool, "idle=1s")
    wait_until(lambda: not lab.jobs(), what="the allocations to be given back, and the order to be cancelled")
    wait_until(lambda: not list(headway.home.glob("headway-*/*")), what="an empty node directory")


def check_doctor_and_dry_run(headway: Living, lab: SlurmLab) -> None:
    headway.ok("pool", "set", "lost", "options.conf=/nowhere/slurm.conf")
    found = {each["what"]: each for each in json.loads(headway.run("doctor", "--json").stdout)}
    assert found["slurm of pool warm"]["verdict"] == "ok"
    assert "slurmctld answers" in found["slurm of pool warm"]["found"]
    assert found["slurm of pool lost"]["verdict"] == "fail"
    assert "everybody's jobs run there as one system user" in found["pool warm"]["found"]
    said = headway.ok("pool", "render", "gang", "--nodes", "2")
    assert said.startswith("sbatch --parsable --job-name=headway-")
    argv, _, rest = said.partition(" <<'SCRIPT'\n")
    # Slurm itself finds nothing wrong with it, and starts nothing.
    lab.do(*argv.split(), "--test-only", input=rest.removesuffix("SCRIPT\n"))
    refused = headway.run("pool", "render", "gang", "--nodes", "3")
    assert refused.returncode == 2
    assert 'pool "gang" has at most 2' in refused.stderr


def test_limits_preemption_and_node_failure_lose_nothing(slurmed: Slurmed, lab: SlurmLab) -> None:
    headway = slurmed(
        limited=("max = 2", "time = '1m'\nnotice = '58s'\nsbatch = '--nodelist=n3'"),
        evicted=("", "grace = '20s'\nsbatch = '--nodelist=n1'"),
        broken=("max = 2\nlease = '40s'", "requeue = 'yes'\nsbatch = '--exclude=n1,n3'"),
    )
    script = headway.script("train.py", TRAIN)
    limited, evicted, broken = (train(headway, script, pool) for pool in ("limited", "evicted", "broken"))
    for each in (limited, evicted, broken):
        each.wait_for("step")
    high = evict(lab)
    broken_node = break_down(lab, broken)
    try:
        evicted.wait_for("told", 1)
        wait_until(lambda: headway.job(evicted.job)["state"] == "queued", what="the job to be queued again")
        lab.do("scancel", high)
        check_broken(broken, broken_node)
    finally:
        lab.mend_nodes()
    evicted.wait_for("step", 2)
    evicted.let_end()
    done = headway.wait(evicted.job)
    assert done["state"] == "succeeded", done["sentence"]
    evicted.resumed_without_loss()
    assert [each["cause"] for each in done["attempts"]] == ["reclaimed", None]
    assert not done["retries"]["user"], "it costs no retry"
    check_limited(limited)
    headway.ok("stop", limited.job, broken.job)


def evict(lab: SlurmLab) -> str:
    """Let a partition of higher rank want the whole of n1."""
    stub = "#!/bin/sh\nexec sleep 3000\n"
    words = ["--parsable", "-p", "high", "-w", "n1", "--exclusive", "-o", "/dev/null"]
    return lab.do("sbatch", *words, input=stub).strip()


def check_limited(limited: Training) -> None:
    # Slurm says it up to half a minute early: to an allocation that has no job yet, on a slow machine.
    told = limited.wait_for("told")
    limited.wait_for("begins", told + 1)
    first, second = (limited.node(attempt) for attempt in (told, told + 1))
    assert first.rpartition("-")[0] != second.rpartition("-")[0], "it runs in another allocation"
    limited.resumed_without_loss(told)


def break_down(lab: SlurmLab, broken: Training) -> str:
    """slurmd dies without a word: its step lives on. Slurm, told by its operator, gives the node up and requeues."""
    node = broken.node(1)
    name = next(line for line in orders(lab, "broken")).split()[0]
    machine = lab.do("squeue", "-h", "-n", name, "-o", "%N").strip()
    lab.kill_node(machine)
    lab.do("scontrol", "update", f"nodename={machine}", "state=down", "reason=test")
    return node


def check_broken(broken: Training, node: str) -> None:
    """The job must not run twice, although Slurm starts a copy of its allocation."""
    headway = broken.headway
    place = next(headway.home.glob(f"headway-*/{node}"))
    done = headway.job(broken.job)
    assert (done["state"], len(done["attempts"])) == ("running", 1), (
        f"Slurm's word alone ends nothing: {done['attempts']}"
    )
    # Now the node falls silent, too: its keeper ends the ranks before the lease is over.
    for pid in with_words(str(place), b"ordered", b"agent"):
        os.kill(pid, signal.SIGKILL)
    broken.wait_for("begins", 2)
    seen = broken.lines()
    last = max(at for attempt, _, _, at in seen if attempt == 1)
    first = min(at for attempt, _, _, at in seen if attempt == 2)
    assert last < first, "the old attempt had ended before the new one began"
    assert broken.node(2) != node


def with_words(place: str, *words: bytes) -> list[int]:
    """Processes of a node whose command line has one of these words."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            said = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if place.encode() in said and any(word in said for word in words):
            found.append(int(entry.name))
    return found
