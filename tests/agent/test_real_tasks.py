"""Real agents, keepers and ranks: what happens to a task from its claim to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.home import TOKEN, Node, a_node, alive
from tests.waiting import wait_until

pytestmark = pytest.mark.real


def test_a_task_is_claimed_then_goes_then_ends_with_its_output_exact(node: Node) -> None:
    node.start()
    task = node.server.give("job1/1/0", "sh", "-c", "echo one; echo two >&2; printf three")
    outcome = node.server.outcome(task)
    assert outcome["exit_code"] == 0
    assert outcome["cause"] is None
    assert outcome["log_bytes"] == 13
    assert node.server.output(task) == b"one\ntwo\nthree"
    assert [phase for key, phase in node.server.seen if key == task and phase != "running"] == ["claimed", "ended"]


def test_nothing_runs_before_go(node: Node, headway_home: Path) -> None:
    node.server.hold_go = True
    node.start()
    marker = headway_home / "ran"
    task = node.server.give("job1/1/0", "touch", str(marker))
    wait_until(lambda: node.server.phase(task) == "claimed", every_s=0.01)
    other = node.server.give("job2/1/0", "true")
    wait_until(lambda: node.server.phase(other) == "claimed", every_s=0.01)
    assert not marker.exists()
    node.server.tell(task, "go", peers=[])
    assert node.server.outcome(task)["cause"] is None
    assert marker.exists()


def test_each_way_to_fail_has_its_own_cause(node: Node, headway_home: Path) -> None:
    plain, broken = headway_home / "plain", headway_home / "broken.py"
    plain.write_text("echo by the shell\n")
    broken.write_text("def f(:\n")
    script = headway_home / "script"
    script.write_text("echo by the shell\n")
    script.chmod(0o700)
    ways = {
        "a": (["no-such-command"], "command_missing", 127, None),
        "b": ([str(plain)], "not_executable", 126, None),
        "c": (["sh", "-c", "exit 3"], "user_code", 3, None),
        "d": (["sh", "-c", "kill -SEGV $$"], "crashed", None, 11),
        "e": (["sh", "-c", "kill -KILL $$"], "killed", None, 9),
        "f": (["python3", str(broken)], "syntax_error", 1, None),
        "g": ([str(script)], None, 0, None),
        "h": (["python3", "-c", "raise MemoryError"], "out_of_memory", 1, None),
    }
    node.start()
    for name, (argv, *_) in ways.items():
        node.server.give(f"{name}/1/0", *argv)
    for name, (_, cause, exit_code, number) in ways.items():
        outcome = node.server.outcome(f"{name}/1/0")
        assert (name, outcome["cause"], outcome["exit_code"], outcome["signal"]) == (name, cause, exit_code, number)
    assert node.server.output("a/1/0") == b"headway: command not found: no-such-command\n"
    assert "SyntaxError" in node.server.reports["f/1/0"]["outcome"]["detail"]
    assert node.server.output("g/1/0") == b"by the shell\n"


def test_a_missing_working_directory_is_refused(node: Node) -> None:
    node.start()
    task = node.server.give("job1/1/0", "true", workdir="/no/such/place")
    wait_until(lambda: node.server.phase(task) == "refused", every_s=0.01)
    assert "/no/such/place" in node.server.reports[task]["detail"]


def test_the_first_failing_rank_is_named_and_the_others_are_stopped(node: Node) -> None:
    node.start()
    script = 'if [ "$RANK" = 5 ]; then exit 7; fi; exec sleep 600'
    task = node.server.give(
        "job1/1/1", "sh", "-c", script, ranks=3, first_rank=4, world_size=7, node_rank=1, nodes=2, attempt=1
    )
    outcome = node.server.outcome(task)
    assert (outcome["rank"], outcome["exit_code"], outcome["cause"]) == (5, 7, "user_code")


def test_ranks_get_the_usual_variables(node: Node) -> None:
    node.start("--gpus", "4")
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    task = node.server.give(
        "job1/3/1", "python3", "-c", program, name="mnist", job="job1", attempt=3, env={"LR": "0.1", "LANG": "C"},
        ranks=1, first_rank=1, node_rank=1, nodes=2, world_size=2, gpus=[2, 3],
    )  # fmt: skip
    assert node.server.outcome(task)["cause"] is None
    env = json.loads(node.server.output(task, "1/out"))
    expected = {
        "HEADWAY_JOB_ID": "job1", "HEADWAY_JOB_NAME": "mnist", "HEADWAY_ATTEMPT": "3", "HEADWAY_TASK": "job1/3/1",
        "HEADWAY_RANK": "1", "HEADWAY_WORLD_SIZE": "2", "HEADWAY_NODE_RANK": "1", "HEADWAY_NUM_NODES": "2",
        "RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "NODE_RANK": "1",
        "MASTER_ADDR": "127.0.0.1", "CUDA_VISIBLE_DEVICES": "2,3", "PYTHONUNBUFFERED": "1", "LR": "0.1", "LANG": "C",
    }  # fmt: skip
    assert {name: env.get(name) for name in expected} == expected
    assert Path(env["HEADWAY_CHECKPOINT_DIR"]).parent == Path(env["HEADWAY_OUTPUT_DIR"]).parent


def test_two_streams_on_request(node: Node) -> None:
    node.start()
    task = node.server.give("job1/1/0", "sh", "-c", "echo out; echo err >&2", streams="split")
    assert node.server.outcome(task)["log_bytes"] == 8
    assert node.server.output(task, "0/out") == b"out\n"
    assert node.server.output(task, "0/err") == b"err\n"


def test_stop_ends_everything_that_descends_from_the_task(node: Node, headway_home: Path) -> None:
    node.start()
    pids = headway_home / "pids"
    # One in the group, one in a session of its own, one that took off its tag too; none of them hears SIGTERM.
    deaf = f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 1; done"
    bare = 'setsid env -i PATH="$PATH"'
    script = f'trap "" TERM; sh -c "$0" & setsid sh -c "$0" & {bare} sh -c "$0" & echo $$ >> {pids}; wait'
    task = node.server.give("job1/1/0", "sh", "-c", script, deaf)
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 4, every_s=0.01)
    node.server.tell(task, "stop", grace_s=0.3)
    outcome = node.server.outcome(task)
    assert outcome["cause"] == "cancelled"
    assert [pid for pid in map(int, pids.read_text().split()) if alive(pid)] == []


def test_what_a_rank_leaves_behind_is_ended_and_its_last_output_kept(node: Node, headway_home: Path) -> None:
    node.start()
    pid_file = headway_home / "pid"
    leftover = f"trap 'echo last words; exit' TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    script = f'setsid sh -c "$0" & while [ ! -s {pid_file} ]; do sleep 0.02; done; echo done'
    task = node.server.give("job1/1/0", "sh", "-c", script, leftover)
    assert node.server.outcome(task)["cause"] is None
    assert not alive(int(pid_file.read_text()))
    assert node.server.output(task) == b"done\nlast words\n"


def test_a_task_that_is_gone_is_ended_at_once_and_its_directory_removed(node: Node) -> None:
    node.start()
    task = node.server.give("job1/1/0", "sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done")
    directory = node.path / "tasks" / "job1-1-0"
    wait_until(lambda: (directory / "rank0.out").exists() and (directory / "rank0.out").read_text(), every_s=0.01)
    pid = int((directory / "rank0.out").read_text())
    node.server.forget(task)
    wait_until(lambda: not alive(pid) and not directory.exists(), every_s=0.01)


def test_many_tasks_run_on_one_node(node: Node) -> None:
    node.start()
    for number in range(200):
        node.server.give(f"job{number}/1/0", "sh", "-c", f"echo {number}")
    for number in range(200):
        assert node.server.outcome(f"job{number}/1/0")["cause"] is None
        assert node.server.output(f"job{number}/1/0") == b"%d\n" % number


def test_output_is_followed_while_the_task_runs(node: Node, headway_home: Path) -> None:
    node.start()
    gate = headway_home / "gate"
    node.server.follow = ["job1/1/0"]
    task = node.server.give(
        "job1/1/0", "sh", "-c", f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; echo second"
    )
    wait_until(lambda: node.server.output(task) == b"first\n", every_s=0.01)
    gate.touch()
    node.server.outcome(task)
    assert node.server.output(task) == b"first\nsecond\n"


def test_output_goes_through_the_server_where_storage_is_elsewhere(headway_home: Path, program: Path) -> None:
    with a_node(headway_home, program, direct=False) as node:
        node.start()
        task = node.server.give("job1/1/0", "sh", "-c", "seq 1 100000")
        assert node.server.outcome(task)["cause"] is None
        assert node.server.output(task) == b"".join(b"%d\n" % number for number in range(1, 100001))
        assert node.server.objects


def test_storage_that_fails_stops_nothing_and_is_said(node: Node, headway_home: Path) -> None:
    logs = headway_home / "storage" / "logs"
    logs.write_text("in the way")
    node.start()
    task = node.server.give("job1/1/0", "echo", "kept")
    wait_until(lambda: any(body.get("troubles") for body in node.server.bodies), every_s=0.01)
    assert node.server.phase(task) != "ended"
    logs.unlink()
    assert node.server.outcome(task)["cause"] is None
    assert node.server.output(task) == b"kept\n"
    wait_until(lambda: node.server.bodies[-1].get("troubles") in ([], None), every_s=0.01)


def test_a_job_does_not_find_its_nodes_token(node: Node) -> None:
    node.start()
    sought = TOKEN.replace("en", "[e]n")  # So that the search does not find itself.
    look = f'grep -rsl {sought} "$HEADWAY_NODE_DIR"; (env; tr "\\0" "\\n" < /proc/$PPID/environ) | grep -c {sought}'
    task = node.server.give("job1/1/0", "sh", "-c", f"{look}; true")
    assert node.server.outcome(task)["exit_code"] == 0
    assert node.server.output(task) == b"0\n"
    (node.path / "token").write_text(TOKEN)  # Handed over once more.
    wait_until(lambda: not (node.path / "token").exists(), what="the agent to take it away")
