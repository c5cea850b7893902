"""Real agents that keep what their tasks write: into a folder, through the server, into a store that is full."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway_agent.files.watch import WATCH_AFTER_S
from tests.agent.home import Node, a_node
from tests.waiting import wait_until

pytestmark = pytest.mark.real

SAVES = """
import os, sys, time
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
print("from", sorted(os.listdir(place)), os.environ.get("HEADWAY_RESUME_STEP"), flush=True)
for step in range(1, int(sys.argv[1]) + 1):
    with open(f"{place}/x.tmp", "wb") as file:
        file.write(bytes([step % 256]) * int(sys.argv[2]))
    os.replace(f"{place}/x.tmp", f"{place}/step-{step}.pt")
    if step > 2:
        os.unlink(f"{place}/step-{step - 2}.pt")
    print("saved", step, flush=True)
    time.sleep(float(sys.argv[3]))
"""


def saves(steps: int, size: int, pause_s: float) -> list[str]:
    return ["python3", "-c", SAVES, str(steps), str(size), str(pause_s)]


def steps_of(node: Node, task: str) -> list[int]:
    return [each["step"] for each in node.server.checkpoints if each["task"] == task]


@pytest.fixture(params=["folder", "http"])
def either(request: pytest.FixtureRequest, headway_home: Path, program: Path) -> Iterator[Node]:
    with a_node(headway_home, program, direct=request.param == "folder") as node:
        yield node


def test_checkpoints_are_committed_restored_and_not_sent_twice(either: Node) -> None:
    node = either
    node.start()
    first = node.server.give("job1/1/0", *saves(4, 1000, 0.3))
    assert node.server.outcome(first)["cause"] is None
    newest = node.server.checkpoints[-1]
    assert (newest["step"], newest["how"], newest["files"], newest["bytes"]) == (4, "renamed", 2, 2000)
    resume = {"step": 4, "key": newest["key"], "how": "renamed"}
    show = 'ls "$HEADWAY_CHECKPOINT_DIR"; echo "$HEADWAY_RESUME_STEP"; cksum < "$HEADWAY_CHECKPOINT_DIR/step-4.pt"'
    second = node.server.give("job1/2/0", "sh", "-c", show, resume=resume)
    assert node.server.outcome(second)["cause"] is None
    said = node.server.output(second).decode().split()
    assert said[:3] == ["step-3.pt", "step-4.pt", "4"]
    assert said[3:] == subprocess.run(["cksum"], input=b"\4" * 1000, capture_output=True).stdout.decode().split()
    assert steps_of(node, second) == []


def test_a_bad_checkpoint_is_told_and_the_next_claim_brings_another(node: Node) -> None:
    node.start()
    first = node.server.give("job1/1/0", *saves(2, 1000, 0.4))
    node.server.outcome(first)
    resume = {"step": 9, "key": "jobs/job1/1/checkpoints/none.json", "how": "renamed"}
    second = node.server.give("job1/2/0", "sh", "-c", "echo $HEADWAY_RESUME_STEP", resume=resume)
    wait_until(lambda: node.server.bad, every_s=0.01)
    assert node.server.bad[0]["key"] == resume["key"]
    assert node.server.phase(second) == "preparing"
    newest = node.server.checkpoints[-1]
    node.server.forget("nobody")
    with node.server.lock:
        node.server.sent = {}  # The changed claim travels with the next reply.
    node.server.give(
        "job1/2/0", "sh", "-c", "echo $HEADWAY_RESUME_STEP", resume=dict(resume, step=2, key=newest["key"])
    )
    assert node.server.outcome(second)["cause"] is None
    assert node.server.output(second) == b"2\n"


def test_what_a_killed_rank_had_finished_is_told_before_its_end(node: Node, headway_home: Path) -> None:
    node.start()
    seen = headway_home / "seen"
    wait = f"    while step == 5 and not os.path.exists('{seen}'):\n        time.sleep(0.02)\n"
    program = SAVES.replace("    with open", wait + "    with open").replace(
        'print("saved"', 'step > 4 and os.kill(os.getpid(), 9); print("saved"'
    )
    task = node.server.give("job1/1/0", "python3", "-c", program, "9", "500000", "0.3")
    wait_until(lambda: steps_of(node, task), every_s=0.01, what="a checkpoint: its directory is watched by now")
    seen.touch()
    outcome = node.server.outcome(task)
    assert outcome["signal"] == 9
    assert steps_of(node, task)[-1] == 5


def test_an_agent_killed_while_it_stores_leaves_nothing_half(either: Node) -> None:
    node = either
    node.start()
    task = node.server.give("job1/1/0", *saves(30, 30_000_000, 0.05))
    wait_until(lambda: len(steps_of(node, task)) > 1, every_s=0.01)
    for _ in range(3):
        before = len(steps_of(node, task))
        node.kill_agent()
        node.start()
        wait_until(lambda n=before: len(steps_of(node, task)) > n, every_s=0.01)  # type: ignore[misc]
    assert node.server.outcome(task)["cause"] is None
    assert steps_of(node, task)[-1] == 30, (steps_of(node, task), (node.path / "agent.log").read_text()[-4000:])
    for told in node.server.checkpoints:
        for part in [part for file in json.loads(stored(node, told["key"]))["files"] for part in file["parts"]]:
            content = stored(node, part["key"])[part["offset"] : part["offset"] + part["size"]]
            assert hashlib.sha256(content).hexdigest() == part["sha256"], part


def stored(node: Node, key: str) -> bytes:
    return (node.storage / key).read_bytes() if node.storage else node.server.objects[key]


def test_a_task_that_ends_while_its_agent_is_dead_is_salvaged(node: Node) -> None:
    node.start()
    task = node.server.give("job1/1/0", *saves(3, 1000, 0.6))
    wait_until(lambda: steps_of(node, task), every_s=0.01)
    node.kill_agent()
    wait_until(lambda: b"saved 3" in (node.path / "tasks/job1-1-0/rank0.out").read_bytes(), every_s=0.01)
    wait_until(lambda: node.pid("keeper.pid") and not _rank_alive(task), every_s=0.01)
    node.start()
    outcome = node.server.outcome(task)
    assert (outcome["cause"], outcome["unasked"]) == (None, True)
    assert steps_of(node, task)[-1] == 3


def test_a_working_directory_is_found_though_the_agent_died_before_it_had_noted_it(node: Node) -> None:
    node.start()
    saves_there = """
import pickle, time
print("begun", flush=True)
for step in range(1, 1000):
    time.sleep(0.3)
    pickle.dump({"step": step}, open("snapshot.pkl", "wb"))
"""
    task = node.server.give("job1/1/0", "python3", "-c", saves_there)
    output, note = node.path / "tasks/job1-1-0/rank0.out", node.path / "tasks/job1-1-0/workdir.json"
    wait_until(lambda: output.exists() and output.read_bytes(), every_s=0.01)
    node.kill_agent()
    note.unlink(missing_ok=True)  # On a machine that is busy, it had the time.
    node.start()
    wait_until(lambda: steps_of(node, task), every_s=0.01, what="a checkpoint")


def test_what_a_rank_finished_before_it_was_killed_is_kept_though_its_agent_was_dead(
    node: Node, headway_home: Path
) -> None:
    node.start()
    gate = headway_home / "gate"
    wait = f"step == 3 and [time.sleep(0.01) for _ in iter(lambda: os.path.exists({str(gate)!r}), True)]; "
    killed = "step == 5 and os.kill(os.getpid(), 9); "
    script = SAVES.replace('print("saved"', wait + killed + 'print("saved"')
    task = node.server.give("job1/1/0", "python3", "-c", script, "9", "1000", "0.1")
    wait_until(lambda: 3 in steps_of(node, task), every_s=0.01)
    node.kill_agent()
    gate.touch()
    wait_until(lambda: not _rank_alive(task), every_s=0.01)
    node.start()
    assert node.server.outcome(task)["signal"] == 9
    newest = node.server.checkpoints[-1]
    assert (newest["step"], newest["how"]) == (5, "renamed")


TORN = """
import os, signal, sys, time
import headway
model = os.environ["HEADWAY_CHECKPOINT_DIR"] + "/model.pt"
for step in range(1, 4):
    while step == 2 and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    with open(model, "wb") as file:
        file.write(bytes([step]) * (10 if step == 3 else 1000))
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL) if step == 3 else None
    headway.checkpoint(step, "model.pt")
    time.sleep(0.1)
"""


def test_what_was_declared_and_is_being_written_anew_when_it_is_heard_is_not_taken_for_finished(
    node: Node, headway_home: Path
) -> None:
    node.start()
    gate = headway_home / "gate"
    task = node.server.give("job1/1/0", "python3", "-c", TORN, str(gate))
    wait_until(lambda: 1 in steps_of(node, task), every_s=0.01)
    node.kill_agent()
    gate.touch()
    wait_until(lambda: not _rank_alive(task), every_s=0.01)
    node.start()
    assert node.server.outcome(task)["signal"] == 9
    assert [each["bytes"] for each in node.server.checkpoints] == [1000] * len(node.server.checkpoints)
    assert set(steps_of(node, task)) == {1}


IN_PLACE = """
import os, signal, sys, time
place, marker, gate, end = os.environ["HEADWAY_CHECKPOINT_DIR"], sys.argv[1], sys.argv[2], sys.argv[3]
for step in (1, 2, 3):
    while step == 2 and not os.path.exists(gate):
        time.sleep(0.01)
    with open(f"{place}/step-{step}.pt", "wb") as file:
        file.write(b"x" * 1000)
    if step < 3 and marker:
        open(f"{place}/step-{step}.pt.{marker}", "w").close()
    if step < 3:
        time.sleep(3.5)  # Longer than `settle`: then it counts as finished; the third is cut off.
print("wrote 3", flush=True)
os.kill(os.getpid(), signal.SIGKILL) if end == "killed" else sys.exit(1)
"""


@pytest.mark.parametrize("end", ["killed", "failed"])
@pytest.mark.parametrize(("how", "marker"), [("settled", ""), ("marker", "DONE")])
def test_what_was_written_in_place_is_kept_though_the_agent_was_dead(
    node: Node, headway_home: Path, end: str, how: str, marker: str
) -> None:
    node.start()
    gate = headway_home / "gate"
    keeping = {"settle_s": 1.0, **({"marker": marker} if marker else {})}
    words = ["python3", "-c", IN_PLACE, marker, str(gate), end]
    task = node.server.give("job1/1/0", *words, progress={"checkpoint": keeping})
    wait_until(lambda: 1 in steps_of(node, task), every_s=0.01)
    node.kill_agent()
    gate.touch()
    wait_until(lambda: not _rank_alive(task), every_s=0.01)
    node.start()
    assert node.server.outcome(task)["exit_code"] == (None if end == "killed" else 1)
    newest = node.server.checkpoints[-1]
    assert (newest["step"], newest["how"]) == (2, how), "the third may be cut off"


TWO_RANKS = """
import os, signal, sys, time
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
if os.environ["RANK"] == "0":
    with open(f"{place}/step-1.pt", "wb") as file:
        file.write(b"half of it")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
while not told:
    time.sleep(0.02)
time.sleep(3.0)  # Six times as long as a file must be quiet to be settled.
"""


def test_what_a_killed_rank_left_half_written_does_not_settle_while_another_lives_on(node: Node) -> None:
    node.start()
    asked = {"checkpoint": {"settle_s": 0.5}}
    task = node.server.give("job1/1/0", "python3", "-c", TWO_RANKS, progress=asked, ranks=2, grace_s=600.0)
    assert node.server.outcome(task)["signal"] == 9
    assert steps_of(node, task) == []


def _rank_alive(task: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if f"HEADWAY_TASK={task}".encode() in (entry / "environ").read_bytes():
                return True
        except OSError:
            continue
    return False


@pytest.fixture
def small_store(headway_home: Path, program: Path) -> Iterator[Node]:
    place = headway_home / "storage"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here (needs root and tmpfs)")
    with a_node(headway_home, program) as node:
        yield node
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_store_stops_no_training_and_is_made_good_when_there_is_room(small_store: Node) -> None:
    node = small_store
    node.start()
    task = node.server.give("job1/1/0", *saves(12, 400_000, 0.3))
    wait_until(lambda: [each for each in node.server.troubles if "wait on the node" in each["detail"]], every_s=0.01)
    out = node.path / "tasks/job1-1-0/rank0.out"
    wait_until(lambda: b"saved 8" in out.read_bytes(), every_s=0.01)
    subprocess.run(["mount", "-o", "remount,size=64m", str(node.storage)], check=True)
    assert node.server.outcome(task)["cause"] is None
    assert steps_of(node, task)[-1] == 12
    wait_until(lambda: not node.server.troubles, every_s=0.01)


def test_artifacts_are_kept_on_failure_too(either: Node, headway_home: Path) -> None:
    node = either
    node.start()
    place = headway_home / "place"
    (place / "results").mkdir(parents=True)
    (place / "results/old.csv").write_text("from before")
    os.utime(place / "results/old.csv", (1, 1))
    write = (
        'mkdir -p output; echo one > "$HEADWAY_OUTPUT_DIR/a b.txt"; echo two > output/two.txt; '
        "echo three > results/r.csv; ln -s /etc/passwd output/bad; exit 3"
    )
    progress = {"outputs": ["output/", "results/*.csv"]}
    task = node.server.give("job1/1/0", "sh", "-c", write, workdir=str(place), progress=progress)
    assert node.server.outcome(task)["exit_code"] == 3
    assert set(node.server.artifacts) == {"a b.txt", "output/two.txt", "results/r.csv"}
    if node.storage:
        assert (node.storage / "jobs/job1/1/output/a b.txt").read_text() == "one\n"
    else:
        assert node.server.objects["jobs/job1/1/output/a%20b.txt"] == b"one\n"


def test_steps_and_declarations_of_the_sdk_are_told(node: Node) -> None:
    node.start()
    script = (
        'echo x > "$HEADWAY_CHECKPOINT_DIR/model"; '
        'echo \'{"step": 41, "loss": 1.0}\' >> "$HEADWAY_METRICS_FILE"; '
        'echo \'{"step": 40, "path": "model", "metrics": {"loss": 0.5}}\' >> "$HEADWAY_SDK_DIR/declared.jsonl"; exit 1'
    )
    task = node.server.give("job1/1/0", "sh", "-c", script)
    node.server.outcome(task)
    told: dict[str, Any] = node.server.checkpoints[-1]
    assert (told["step"], told["how"], told["metrics"]) == (40, "declared", {"loss": 0.5})
    assert node.server.steps[task] == 41


def test_a_notice_names_cause_and_time_before_the_signal_comes(node: Node) -> None:
    node.start()
    wait = "trap 'cat $HEADWAY_NOTICE_FILE; exit 7' USR2; echo ready; while :; do sleep 0.05; done"
    task = node.server.give("job1/1/0", "sh", "-c", wait, progress={"notice_signal": "SIGUSR2"})
    wait_until(lambda: b"ready" in node.server.output(task), every_s=0.01)
    node.server.tell(task, "stop", cause="preempted", grace_s=9.0)
    assert node.server.outcome(task)["exit_code"] == 7
    said = json.loads(node.server.output(task).decode().splitlines()[-1])
    assert (said["cause"], said["seconds_left"]) == ("preempted", 9.0)


def test_the_machine_s_notice_ends_all_tasks_and_new_ones_are_refused(node: Node) -> None:
    node.start()
    tasks = [node.server.give(f"job{number}/1/0", "sleep", "60") for number in (1, 2)]
    for task in tasks:
        wait_until(lambda task=task: node.server.phase(task) == "running", every_s=0.01)  # type: ignore[misc]
    assert node.agent is not None
    node.agent.send_signal(signal.SIGUSR1)
    for task in tasks:
        assert node.server.outcome(task)["cause"] == "reclaimed"
    assert any(body.get("notice", {}).get("cause") == "reclaimed" for body in node.server.bodies)
    late = node.server.give("job3/1/0", "true")
    wait_until(lambda: node.server.phase(late) == "refused", every_s=0.01)
    node.kill_agent()
    node.server.bodies.clear()
    node.start()  # Its successor knows it too, and does not tell the server that the machine stays.
    wait_until(lambda: [body for body in node.server.bodies if body["full"]], every_s=0.01)
    assert all(body["notice"]["cause"] == "reclaimed" for body in node.server.bodies if body["full"])
    later = node.server.give("job4/1/0", "true")
    wait_until(lambda: node.server.phase(later) == "refused", every_s=0.01)


def test_a_task_that_keeps_nothing_costs_no_thread_and_no_watch(node: Node) -> None:
    node.start()
    longest_s = 0.0
    for number in range(20):
        began_s = time.monotonic()
        node.server.outcome(node.server.give(f"job{number}/1/0", "true"))
        longest_s = max(longest_s, time.monotonic() - began_s)
    assert node.agent is not None
    threads = [entry.read_text().strip() for entry in Path(f"/proc/{node.agent.pid}/task").glob("*/comm")]
    maps = Path(f"/proc/{node.agent.pid}/maps").read_text()
    assert len(threads) <= 6
    assert "libcrypto" not in maps
    if longest_s >= WATCH_AFTER_S:
        return  # On a machine this busy even `true` may have lived long enough to be watched.
    fds = [os.readlink(entry) for entry in Path(f"/proc/{node.agent.pid}/fd").iterdir()]
    assert not [name for name in fds if "inotify" in name]
