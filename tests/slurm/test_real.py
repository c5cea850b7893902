"""Jobs on a real Slurm: orders, gangs, warm allocations, notices, node failure, restarts; and nothing is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.living import Living
from tests.slurm.conftest import Slurmed
from tests.slurmlab import SlurmLab
from tests.waiting import wait_until

pytestmark = pytest.mark.real


def test_a_job_runs_in_an_allocation_which_the_next_one_uses_too_and_then_nothing_is_left(
    slurmed: Slurmed, lab: SlurmLab
) -> None:
    headway = slurmed("idle = '10m'")
    first = headway.submit("--cpus", "1", "--", "sh", "-c", "echo hello from $HEADWAY_JOB_ID; exit 3")
    done = headway.wait(first)
    assert (done["state"], done["cause"], done["attempts"][0]["exit_code"]) == ("failed", "user_code", 3), done
    assert headway.log(first) == f"hello from {first}\n"
    names = lab.jobs()
    assert len(names) == 1
    second = headway.submit("--cpus", "1", "--", "sh", "-c", "env | grep -c ^SLURM_")
    assert headway.wait(second)["state"] == "failed", "a rank sees nothing of Slurm"
    assert lab.jobs() == names, "the second one ran in the first one's allocation"
    headway.ok("pool", "set", "lab", "idle=1s")
    wait_until(lambda: not lab.jobs(), what="the allocation to be given back")
    wait_until(lambda: not list(headway.home.glob("headway-*/*")), what="an empty node directory")


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
while step < steps:
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


def trace_of(path: Path) -> list[tuple[int, str, int, float]]:
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(int(attempt), what, int(step), float(at)) for attempt, what, step, at in lines]


def test_a_gang_has_one_allocation(slurmed: Slurmed, lab: SlurmLab) -> None:
    headway = slurmed("max = 4")
    words = "echo $RANK of $WORLD_SIZE at $MASTER_ADDR"
    job = headway.submit("--nodes", "2", "--cpus", "2", "--", "sh", "-c", words)
    done = headway.wait(job)
    assert done["state"] == "succeeded", done["sentence"]
    assert lab.do("squeue", "-h", "-o", "%D").split() == ["2"]
    nodes = [task["node"] for task in done["attempts"][0]["tasks"]]
    assert len(set(nodes)) == 2
    assert len({node.rpartition("-")[0] for node in nodes}) == 1, "both are of one order"


def _sentence(headway: Living, job: str, word: str) -> str:
    said = lambda: [each for each in [headway.job(job)["sentence"]] if word in each]  # noqa: E731
    return wait_until(said, every_s=0.3, what=f"{word} in the sentence")[0]


def test_why_says_what_slurm_says_and_a_cancel_leaves_nothing(slurmed: Slurmed, lab: SlurmLab) -> None:
    headway = slurmed(options="partition = 'shut'")
    job = headway.submit("--cpus", "1", "--", "true")
    sentence = _sentence(headway, job, "Slurm says")
    assert 'a node of pool "lab" ordered' in sentence
    assert "Slurm says: PartitionDown" in sentence
    headway.ok("stop", job)
    wait_until(lambda: not lab.jobs(), what="the order to be cancelled")


def test_what_slurm_refuses_is_said(slurmed: Slurmed, lab: SlurmLab) -> None:
    headway = slurmed(options="partition = 'nowhere'")
    job = headway.submit("--cpus", "1", "--", "true")
    assert "invalid partition specified: nowhere" in _sentence(headway, job, "refused")
    headway.ok("stop", job)


def test_preemption_by_slurm_is_a_notice_and_no_step_is_lost(slurmed: Slurmed, lab: SlurmLab) -> None:
    headway = slurmed("max = 1", "grace = '20s'")
    trace = headway.place / "trace"
    script = headway.script("train.py", TRAIN)
    job = headway.submit("--cpus", "1", str(script), "120", str(trace))
    wait_until(lambda: len(trace_of(trace)) > 3, what="some steps")
    stub = "#!/bin/sh\nexec sleep 300\n"
    high = lab.do("sbatch", "--parsable", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null", input=stub).strip()
    wait_until(lambda: any(what == "told" for _, what, _, _ in trace_of(trace)), what="the notice")
    wait_until(lambda: headway.job(job)["state"] == "queued", what="the job to be queued again")
    lab.do("scancel", high)
    done = headway.wait(job)
    assert done["state"] == "succeeded", done["sentence"]
    _resumed_without_loss(trace_of(trace))
    assert [each["cause"] for each in done["attempts"]] == ["reclaimed", None]
    assert not done["retries"]["user"], "it costs no retry"


def test_the_time_limit_is_a_notice_and_the_job_goes_on_in_a_new_allocation(slurmed: Slurmed, lab: SlurmLab) -> None:
    headway = slurmed("max = 2", "time = '1m'\nnotice = '58s'")
    trace = headway.place / "trace"
    script = headway.script("train.py", TRAIN)
    job = headway.submit("--cpus", "1", str(script), "400", str(trace))
    wait_until(lambda: any(what == "told" for _, what, _, _ in trace_of(trace)), 90, what="the notice")
    wait_until(lambda: any(attempt == 2 for attempt, *_ in trace_of(trace)), 90, what="the next attempt")
    first, second = (headway.job(job)["attempts"][number]["tasks"][0]["node"] for number in (0, 1))
    assert first.rpartition("-")[0] != second.rpartition("-")[0], "it runs in another allocation"
    _resumed_without_loss(trace_of(trace))
    headway.ok("stop", job)


def _resumed_without_loss(trace: list[tuple[int, str, int, float]]) -> None:
    told = next(step for attempt, what, step, _ in trace if what == "told" and attempt == 1)
    begun = next(step for attempt, what, step, _ in trace if what == "begins" and attempt == 2)
    assert begun == told, "no step was lost"


def test_a_node_that_slurm_gives_up_keeps_its_lease_beside_the_requeued_copy(slurmed: Slurmed, lab: SlurmLab) -> None:
    """slurmd dies without a word: its step lives on. Slurm starts a copy; the job must not run twice."""
    headway = slurmed("max = 2\nlease = '25s'", "requeue = 'yes'")
    trace = headway.place / "trace"
    script = headway.script("train.py", TRAIN)
    job = headway.submit("--cpus", "1", str(script), "600", str(trace))
    wait_until(lambda: len(trace_of(trace)) > 3, what="some steps")
    machine = lab.do("squeue", "-h", "-o", "%N").strip()
    lab.kill_node(machine)
    try:
        wait_until(lambda: lab.states()[machine].startswith("down"), 90, 0.3, what="Slurm to notice")
        node = headway.job(job)["attempts"][0]["tasks"][0]["node"]
        place = next(headway.home.glob(f"headway-*/{node}"))
        assert headway.job(job)["state"] == "running", "Slurm's word alone ends nothing"
        # Now the node falls silent, too: its keeper ends the ranks before the lease is over.
        for pid in _with(str(place), b"ordered", b"agent"):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: any(attempt == 2 for attempt, *_ in trace_of(trace)), 120, 0.3, what="the next attempt")
    finally:
        lab.start_node(machine)
        wait_until(lambda: lab.states()[machine] in ("idle", "mix"), what="the node to be back")
    seen = trace_of(trace)
    last = max(at for attempt, _, _, at in seen if attempt == 1)
    first = min(at for attempt, _, _, at in seen if attempt == 2)
    assert last < first, "the old attempt had ended before the new one began"
    assert headway.job(job)["attempts"][1]["tasks"][0]["node"] != node
    headway.ok("stop", job)


def _with(place: str, *words: bytes) -> list[int]:
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


def test_a_server_that_comes_back_finds_its_allocation_again(slurmed: Slurmed, lab: SlurmLab) -> None:
    headway = slurmed("max = 2")
    trace = headway.place / "trace"
    script = headway.script("train.py", TRAIN)
    job = headway.submit("--cpus", "1", str(script), "60", str(trace))
    wait_until(lambda: len(trace_of(trace)) > 3, what="some steps")
    names = lab.jobs()
    headway.kill(headway.server)
    done = headway.wait(job)
    assert (done["state"], len(done["attempts"])) == ("succeeded", 1), done["sentence"]
    assert lab.jobs() == names
