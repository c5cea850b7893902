"""Real deaths: of the agent, of the keeper, of the server, of the lease; and what outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import zipfile
from functools import partial
from pathlib import Path

import pytest

from headway.engines import agent_zip
from headway_agent.node.directory import boottime_s
from tests.agent.home import Node, alive
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real


def a_long_task(node: Node, gate: Path, name: str = "job1/1/0") -> tuple[str, int]:
    """A task that says its pid and ends with 7 when the gate opens."""
    script = f"echo $$; while [ ! -e {gate} ]; do sleep 0.02; done; echo end; exit 7"
    task = node.server.give(name, "sh", "-c", script)
    return task, first_line(node, name)


def another_version(program: Path) -> agent_zip.AgentZip:
    with zipfile.ZipFile(program) as archive:
        sources = {name: archive.read(name) for name in archive.namelist()}
    return agent_zip.pack({**sources, "more.py": b"# another version\n"})


def syncs_of(node: Node, agent: int, least: int) -> bool:
    """Whether so many syncs have come from this agent, counted from 1."""
    epochs = [body["agent_epoch"] for body in list(node.server.bodies)]
    lives = sorted(set(epochs))
    return len(lives) >= agent and epochs.count(lives[agent - 1]) >= least


def first_line(node: Node, name: str) -> int:
    out = node.path / "tasks" / name.replace("/", "-") / "rank0.out"
    return int(wait_until(lambda: out.exists() and out.read_text().split("\n")[0], every_s=0.01))


def test_a_killed_agent_comes_back_to_the_same_rank(node: Node, headway_home: Path) -> None:
    node.start()
    gate = headway_home / "gate"
    task, pid = a_long_task(node, gate)
    node.kill_agent()
    assert alive(pid)
    node.start()
    wait_until(lambda: syncs_of(node, 2, 1), every_s=0.01)
    assert node.server.phase(task) == "running"
    gate.touch()
    outcome = node.server.outcome(task)
    assert (outcome["exit_code"], outcome["cause"]) == (7, "user_code")
    assert node.server.output(task) == b"%d\nend\n" % pid


def test_an_exit_outlives_the_agent_that_was_dead_when_it_happened(node: Node, headway_home: Path) -> None:
    node.start()
    gate = headway_home / "gate"
    task, pid = a_long_task(node, gate)
    node.kill_agent()
    gate.touch()
    wait_until(lambda: not alive(pid), every_s=0.01)
    node.start()
    assert node.server.outcome(task)["exit_code"] == 7
    assert node.server.output(task) == b"%d\nend\n" % pid


def test_a_claim_outlives_the_agent(node: Node) -> None:
    node.server.hold_go = True
    node.start()
    task = node.server.give("job1/1/0", "echo", "hello")
    wait_until(lambda: node.server.phase(task) == "claimed", every_s=0.01)
    node.kill_agent()
    node.server.tell(task, "go", peers=[])
    node.start()
    assert node.server.outcome(task)["cause"] is None
    assert node.server.output(task) == b"hello\n"


def test_with_the_keeper_die_its_ranks_and_all_their_descendants(node: Node, headway_home: Path) -> None:
    node.start()
    pids = headway_home / "pids"
    child = f"echo $$ >> {pids}; exec sleep 600"
    script = f'sh -c "$0" & setsid sh -c "$0" & setsid env -i PATH="$PATH" sh -c "$0" & echo $$ >> {pids}; wait'
    task = node.server.give("job1/1/0", "sh", "-c", script, child)
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 4, every_s=0.01)
    old = node.pid("keeper.pid")
    os.kill(old, signal.SIGKILL)
    assert node.server.outcome(task)["cause"] == "outcome_lost"
    assert [pid for pid in map(int, pids.read_text().split()) if alive(pid)] == []
    again = node.server.give("job1/2/0", "echo", "again")
    assert node.server.outcome(again)["cause"] is None
    assert node.pid("keeper.pid") != old


def test_the_guard_sweeps_with_the_agent_dead_too(node: Node, headway_home: Path) -> None:
    node.start()
    _, pid = a_long_task(node, headway_home / "gate")
    node.kill_agent()
    os.kill(node.pid("keeper.pid"), signal.SIGKILL)
    wait_until(lambda: not alive(pid), every_s=0.01)


def test_a_lease_that_runs_out_ends_the_ranks_with_the_agent_dead(node: Node, headway_home: Path) -> None:
    late_s = []
    for number in range(1, 4):  # A machine may be too busy to be in time; a keeper that is late is so every time.
        node.start("--poll-wait-s", "0.3")
        task, pid = a_long_task(node, headway_home / "gate", f"job{number}/1/0")
        node.server.lease_left_s = 4.0  # Only now: it must not run out before the rank has begun.
        syncs = len(node.server.bodies)
        wait_until(lambda seen=syncs: len(node.server.bodies) > seen + 2, every_s=0.01)  # type: ignore[misc]
        node.kill_agent()
        granted_until_s = boottime_s() + 4.0
        wait_until(lambda pid=pid: not alive(pid), every_s=0.01)  # type: ignore[misc]
        late_s.append(boottime_s() - granted_until_s)
        node.server.lease_left_s = 3600.0
        node.start()
        assert node.server.outcome(task)["cause"] == "node_lost"
        if late_s[-1] < 0.1:
            return
        node.kill_agent()
    pytest.fail(f"every time the rank outlived its lease, by so many seconds: {late_s}")


def test_a_server_that_is_away_is_waited_for(node: Node, headway_home: Path) -> None:
    node.start()
    gate = headway_home / "gate"
    task, pid = a_long_task(node, gate)
    node.server.refuse_status = 503
    gate.touch()
    wait_until(lambda: not alive(pid), every_s=0.01)
    node.server.refuse_status = 0
    assert node.server.outcome(task)["exit_code"] == 7
    assert node.server.output(task) == b"%d\nend\n" % pid


def test_two_agents_never_serve_one_directory(node: Node) -> None:
    node.start()
    wait_until(lambda: node.server.bodies, every_s=0.01)
    second = subprocess.run(node.command(), capture_output=True, text=True, timeout=PATIENCE_S)
    assert second.returncode == 3
    assert "another agent" in second.stderr


def test_an_agent_is_replaced_under_a_running_task(node: Node, headway_home: Path) -> None:
    node.start()
    gate = headway_home / "gate"
    task, pid = a_long_task(node, gate)
    assert node.agent is not None
    keeper_pid = node.pid("keeper.pid")
    newer = another_version(node.program)
    node.server.program, node.server.version = newer.data, newer.version
    wait_until(lambda: node.server.bodies[-1]["agent_version"] == newer.version, every_s=0.01)
    assert syncs_of(node, 2, 1)
    assert node.agent.poll() is None
    gate.touch()
    assert node.server.outcome(task)["exit_code"] == 7
    assert node.server.output(task) == b"%d\nend\n" % pid
    assert node.pid("keeper.pid") == keeper_pid


def test_an_agent_that_is_asked_to_end_leaves_the_ranks_alone(node: Node, headway_home: Path) -> None:
    node.start()
    gate = headway_home / "gate"
    task, pid = a_long_task(node, gate)
    assert node.agent is not None
    node.agent.send_signal(signal.SIGTERM)
    assert node.agent.wait(timeout=PATIENCE_S) == 0
    assert alive(pid)
    node.start()
    gate.touch()
    assert node.server.outcome(task)["exit_code"] == 7


def test_release_leaves_nothing(node: Node, headway_home: Path) -> None:
    node.start()
    _, pid = a_long_task(node, headway_home / "gate")
    keeper_pid, agent_pid = node.pid("keeper.pid"), node.pid("agent.pid")
    node.release()
    assert [each for each in (pid, keeper_pid, agent_pid) if alive(each)] == []
    assert not any(str(node.path) in command for command in commands())


def test_nothing_outlives_the_removal_of_the_nodes_directory(node: Node, headway_home: Path) -> None:
    node.start("--poll-wait-s", "0.1")
    _, pid = a_long_task(node, headway_home / "gate")
    pids = [pid, node.pid("keeper.pid"), node.pid("agent.pid")]
    node.path.rename(headway_home / "moved")
    assert node.agent is not None
    node.agent.wait(timeout=PATIENCE_S)
    wait_until(lambda: not any(map(alive, pids)), every_s=0.01)


def test_a_keeper_without_agent_and_directory_ends(node: Node) -> None:
    node.start()
    pid = int(wait_until(lambda: node.pid("keeper.pid"), every_s=0.01))
    node.kill_agent()
    node.path.rename(node.path.with_name("moved"))
    wait_until(lambda: not alive(pid), every_s=0.05)


def commands() -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                found.append(Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
    return found


def test_output_is_exact_across_many_deaths_of_the_agent(node: Node, headway_home: Path) -> None:
    gate = headway_home / "gate"
    lines = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i of $0; done"
    script = f"{lines}; while [ ! -e {gate} ]; do sleep 0.01; done; {lines}; exit 3"
    tasks = [node.server.give(f"job{number}/1/0", "sh", "-c", script, str(number)) for number in range(8)]
    node.server.follow = tasks
    for epoch in range(1, 9):
        node.start()
        # Alternately at its first and at its second sync, that is before and after it has heard what is safe.
        syncs = partial(syncs_of, node, epoch, 1 + epoch % 2)
        wait_until(syncs, every_s=0.002)
        if epoch == 6:
            gate.touch()
        node.kill_agent()
    node.start()
    for number, task in enumerate(tasks):
        assert node.server.outcome(task)["exit_code"] == 3
        expected = b"".join(b"line %d of %d\n" % (line, number) for line in range(1, 401))
        assert node.server.output(task) == expected * 2


def test_a_cut_shorter_than_half_of_the_lease_ends_no_rank(node: Node, headway_home: Path) -> None:
    node.server.lease_left_s = 40.0
    node.start()
    gate = headway_home / "gate"
    script = f"trap 'echo stopped' TERM; echo $$; while [ ! -e {gate} ]; do sleep 0.02; done; exit 7"
    task = node.server.give("job1/1/0", "sh", "-c", script, grace_s=30.0)
    pid = first_line(node, "job1/1/0")
    node.server.refuse_status = 503
    until_s = boottime_s() + 15.0
    wait_until(lambda: boottime_s() >= until_s, what="the cut to be over")
    node.server.refuse_status = 0
    calls = len(node.server.bodies)
    wait_until(lambda: len(node.server.bodies) > calls + 1, what="the agent to be back")
    assert alive(pid)
    gate.touch()
    assert node.server.outcome(task)["exit_code"] == 7
    assert node.server.output(task) == b"%d\n" % pid
