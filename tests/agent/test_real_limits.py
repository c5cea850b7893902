"""Real tasks that want too much, do nothing any more, or bring their code, packages and data with them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway_agent.node import cgroups
from tests.agent.home import Node, a_node, alive
from tests.agent.stores import Site80, a_bundle, a_wheel
from tests.waiting import wait_until

pytestmark = pytest.mark.real

MB = 1 << 20
EATER = (
    "import sys\nprint('begins', flush=True)\nkept = []\n"
    "for _ in range(400):\n    kept.append(b'x' * (1 << 20))\nprint('ate all', flush=True)\n"
)
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def grants_groups(version: str) -> bool:
    """Whether this machine lets us make control groups of this version."""
    os.environ["HEADWAY_AGENT_CGROUPS"] = version
    try:
        group = cgroups.make("/tests", "probe", 64 * MB)
    finally:
        del os.environ["HEADWAY_AGENT_CGROUPS"]
    if group is not None:
        group.remove()
    return group is not None


def need_groups(version: str) -> None:
    """Skip where they cannot be had. CI takes no other reason for having no version 1 than that it is not there."""
    if version == "v1" and not has_version_1(Path("/proc/mounts").read_text()):
        pytest.skip("no control groups v1 with memory are mounted on this machine; v2 is tested in a guest")
    if not grants_groups(version):
        pytest.skip(f"this machine grants no control groups {version} with memory; a guest has v2 (tests/guest)")


def has_version_1(mounts: str) -> bool:
    """Whether the kernel has version 1 of the memory controller in use, wherever it is mounted."""
    words = [line.split() for line in mounts.splitlines()]
    return any(kind == "cgroup" and "memory" in options.split(",") for _, _, kind, options, *_ in words)


def test_a_skip_of_version_1_is_excused_only_where_no_version_1_is_mounted() -> None:
    second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,memory_recursiveprot 0 0\nproc /proc proc rw 0 0\n"
    assert not has_version_1(second)
    assert not has_version_1(second + "cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n")
    assert has_version_1(second + "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n")


@pytest.mark.parametrize("version", ["v2", "v1"])
def test_a_control_group_ends_a_task_that_wants_too_much_memory(
    node: Node, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_groups(version)
    monkeypatch.setenv("HEADWAY_AGENT_CGROUPS", version)
    node.start()
    task = node.server.give("job1/1/0", "python3", "-c", EATER, limits={"memory_bytes": 64 * MB})
    modest = node.server.give("job2/1/0", "python3", "-c", "print(1)", limits={"memory_bytes": 64 * MB})
    outcome = node.server.outcome(task)
    assert outcome["cause"] == "out_of_memory"
    assert outcome["detail"] == "the kernel ended it: it used more than its memory limit of 64 MiB"
    assert node.server.output(task) == b"begins\n"
    assert node.server.outcome(modest)["cause"] is None
    names = [name for parent, _ in cgroups._parents() for name in os.listdir(parent)]
    assert not [name for name in names if name.startswith(cgroups._prefix(str(node.path)))]


@pytest.mark.parametrize("version", ["v2", "v1"])
def test_a_node_in_a_limited_control_group_has_no_more_than_that(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_groups(version)
    monkeypatch.setenv("HEADWAY_AGENT_CGROUPS", version)
    group = cgroups.make("/tests", f"facts-{os.getpid()}", 96 * MB)
    assert group is not None
    told = "from headway_agent.node import granted; print(granted.memory_granted())"
    words = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs, sys.executable, "-c", told]
    try:
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    finally:
        group.remove()
    assert int(said) == 96 * MB


def test_without_control_groups_memory_is_watched(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_AGENT_CGROUPS", "none")
    node.start()
    # Two processes, each within the limit: it is the sum that counts.
    program = "import os, time\nos.fork()\nkept = b'x' * (60 << 20)\ntime.sleep(60)"
    task = node.server.give("job1/1/0", "python3", "-c", program, limits={"memory_bytes": 100 * MB})
    outcome = node.server.outcome(task)
    assert outcome["cause"] == "out_of_memory"
    assert "its limit is 100 MiB" in outcome["detail"]


def test_a_stalled_task_leaves_its_stacks_and_ends(node: Node, headway_home: Path) -> None:
    node.start()
    program = "import time\n\ndef waits_for_ever():\n    time.sleep(600)\n\nprint('on', flush=True)\nwaits_for_ever()\n"
    task = node.server.give("job1/1/0", "python3", "-c", program, grace_s=1.0, progress={"limits": {"stalled_s": 4}})
    busy = (
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]):\n    print(1, flush=True)\n    time.sleep(0.1)\n"
    )
    gate = headway_home / "gate"
    other = node.server.give("job2/1/0", "python3", "-c", busy, str(gate), progress={"limits": {"stalled_s": 4}})
    outcome = node.server.outcome(task)
    assert outcome["cause"] == "stalled"
    assert "no log line, metric, checkpoint or disk write" in outcome["detail"]
    dumps = [dump for body in node.server.bodies for dump in body.get("dumps", ())]
    assert [(dump["task"], dump["key"]) for dump in dumps] == [(task, "jobs/job1/1/dumps/0-stalled.txt")]
    stacks = (headway_home / "storage" / dumps[0]["key"]).read_text()
    assert dumps[0]["sha256"] == hashlib.sha256(stacks.encode()).hexdigest()
    assert "=== process" in stacks
    if shutil.which("py-spy", path=str(Path(sys.executable).parent)):
        assert "waits_for_ever" in stacks
    assert any(
        "stalled of job1/1/0" in each["what"] for body in node.server.bodies for each in body.get("troubles", ())
    )
    gate.touch()
    assert node.server.outcome(other)["cause"] is None


def test_a_stall_is_named_by_an_agent_that_came_later(node: Node, headway_home: Path) -> None:
    node.start()
    gate = headway_home / "gate"
    script = f"trap '' TERM; while [ ! -e {gate} ]; do sleep 0.1; done; exit 1"
    task = node.server.give("job1/1/0", "sh", "-c", script, grace_s=60.0, progress={"limits": {"stalled_s": 0.5}})
    wait_until(lambda: (node.path / "tasks/job1-1-0/limit.json").exists())
    node.kill_agent()
    gate.touch()
    node.start()
    assert node.server.outcome(task)["cause"] == "stalled"


def test_too_much_output_ends_the_task(node: Node) -> None:
    node.start()
    script = 'head -c 3000000 /dev/zero > "$HEADWAY_OUTPUT_DIR/big"; exec sleep 60'
    task = node.server.give("job1/1/0", "sh", "-c", script, progress={"limits": {"output_bytes": 1_000_000}})
    outcome = node.server.outcome(task)
    assert (outcome["cause"], "its limit is" in outcome["detail"]) == ("output_limit", True)


def test_open_files_and_processors_are_limited_before_the_first_line_runs(node: Node) -> None:
    node.start()
    program = "import json, os, resource; print(json.dumps([resource.getrlimit(resource.RLIMIT_NOFILE)[0]]))"
    task = node.server.give("job1/1/0", "python3", "-c", program, progress={"limits": {"open_files": 77}})
    assert node.server.outcome(task)["cause"] is None
    assert json.loads(node.server.output(task)) == [77]
    pinned = "import os, time; print(sorted(os.sched_getaffinity(0)), flush=True); time.sleep(60)"
    tasks = [
        node.server.give(f"pin{n}/1/0", "python3", "-c", pinned, progress={"limits": {"pin_cpus": True}})
        for n in range(min(2, len(os.sched_getaffinity(0))))
    ]
    node.server.follow = tasks
    wait_until(lambda: all(node.server.output(task) for task in tasks))
    said = [json.loads(node.server.output(task)) for task in tasks]
    assert all(len(cpus) == 1 for cpus in said)
    assert len({tuple(cpus) for cpus in said}) == len(tasks)


def test_a_limited_command_that_is_not_there_fails_as_ever(node: Node) -> None:
    node.start()
    task = node.server.give("job1/1/0", "no-such-command", progress={"limits": {"open_files": 77}})
    assert node.server.outcome(task)["cause"] == "command_missing"


def test_log_policies_say_what_a_line_means(node: Node) -> None:
    rules = [
        {"pattern": "ECC error", "label": "bad gpu", "action": "exclude_node"},
        {"pattern": "^config: .* is wrong$", "label": "bad config", "action": "stop_retrying"},
        {"pattern": "(a+)+$", "label": "slow", "action": "label"},
    ]
    node.start()
    task = node.server.give(
        "job1/1/0", "sh", "-c", "echo 'config: lr is wrong'; exit 1", progress={"log_policies": rules[:2]}
    )
    outcome = node.server.outcome(task)
    assert outcome["policies"] == [{"label": "bad config", "action": "stop_retrying"}]
    # A pattern without end costs seconds, not the agent, and not what the patterns after it find.
    script = f"echo '{'a' * 40}!'; echo 'an ECC error'; exit 1"
    slow = node.server.give("job2/1/0", "sh", "-c", script, progress={"log_policies": [rules[2], rules[0]]})
    outcome = node.server.outcome(slow)
    assert outcome["cause"] == "user_code"
    assert [each["label"] for each in outcome["policies"]] == ['the pattern of "slow" takes too long', "bad gpu"]


# --- code, packages, data -------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["folder", "server"])
def any_node(request: pytest.FixtureRequest, headway_home: Path, program: Path) -> Iterator[Node]:
    """A node beside its storage, and one that asks the server."""
    with a_node(headway_home, program, direct=request.param) as node:
        yield node


def test_a_bundle_runs_in_its_subdir(any_node: Node, headway_home: Path) -> None:
    files: dict[str, str | bytes] = {"src/train.py": "import lib; print(lib.X)\n", "src/lib.py": "X = 'bundled'\n"}
    files["data.bin"] = os.urandom(5 << 20)
    digest = a_bundle(headway_home / "storage", files)
    any_node.server.serve_storage = True
    any_node.start()
    task = any_node.server.give("job1/1/0", "python3", "train.py", progress={"bundle": digest, "subdir": "src"})
    assert any_node.server.outcome(task)["cause"] is None
    assert any_node.server.output(task) == b"bundled\n"
    assert (task, "preparing") in any_node.server.seen
    again = any_node.server.give("job2/1/0", "python3", "train.py", progress={"bundle": digest, "subdir": "src"})
    assert any_node.server.outcome(again)["cause"] is None
    if any_node.storage is None:  # What came through the server is kept, and not fetched again.
        names = [path.removeprefix("/agent/objects/bundles/") for path in any_node.server.got]
        assert sorted(set(names)) == sorted({f"{digest}.json", *(f"files/{name}" for name in os.listdir(
            headway_home / "storage/bundles/files"))})  # fmt: skip
        assert names.count(f"{digest}.json") == 1


def test_a_bundle_that_is_gone_fails_the_preparation(any_node: Node) -> None:
    any_node.server.serve_storage = True
    any_node.start()
    task = any_node.server.give("job1/1/0", "true", progress={"bundle": "d" * 64})
    wait_until(lambda: any_node.server.phase(task) == "failed_prepare")
    assert any_node.server.reports[task]["cause"] == "bundle_missing"


def test_a_task_can_be_stopped_while_it_is_prepared(node: Node, headway_home: Path) -> None:
    node.server.hold_go = True
    uv = headway_home / "uv"
    uv.write_text(f"#!/bin/sh\necho $$ > {headway_home}/began\nexec sleep 60\n")
    uv.chmod(0o700)
    os.environ["HEADWAY_AGENT_UV"] = str(uv)
    try:
        node.start()
    finally:
        del os.environ["HEADWAY_AGENT_UV"]
    digest = a_bundle(headway_home / "storage", {"requirements.txt": "tinya\n"})
    progress = {"bundle": digest, "environment": {"kind": "requirements"}}
    task = node.server.give("job1/1/0", "true", progress=progress)
    wait_until(lambda: (headway_home / "began").exists() and (headway_home / "began").read_text())
    wait_until(lambda: node.server.reports.get(task, {}).get("detail") == "builds the environment")
    node.server.tell(task, "stop", grace_s=1.0)
    assert node.server.outcome(task)["cause"] == "never_started"
    other = node.server.give("job2/1/0", "true")
    wait_until(lambda: node.server.phase(other) == "claimed")
    wait_until(lambda: not alive(int((headway_home / "began").read_text())), what="the end of the build")


@pytest.mark.skipif(UV is None, reason="NOT TESTED: there is no uv on this machine")
def test_ten_jobs_at_once_run_in_one_environment(
    node: Node, headway_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_wheel(headway_home / "wheels", "tinya")
    counted = headway_home / "uv"
    counted.write_text(f'#!/bin/sh\necho "$1" >> {headway_home}/calls\nexec {UV} "$@"\n')
    counted.chmod(0o700)
    given = {"HEADWAY_AGENT_UV": counted, "UV_FIND_LINKS": headway_home / "wheels", "UV_CACHE_DIR": headway_home / "c"}
    for name, value in {**given, "UV_NO_INDEX": 1, "UV_OFFLINE": 1}.items():
        monkeypatch.setenv(name, str(value))
    node.start()
    code: dict[str, str | bytes] = {"requirements.txt": "tinya\n", "train.py": "import tinya; print(tinya.VERSION)\n"}
    progress: dict[str, Any] = {
        "bundle": a_bundle(headway_home / "storage", code),
        "environment": {"kind": "requirements"},
    }
    tasks = [node.server.give(f"job{n}/1/0", "python", "train.py", progress=progress) for n in range(10)]
    for task in tasks:
        assert node.server.outcome(task)["cause"] is None
        assert node.server.output(task) == b"1.0\n"
    assert (headway_home / "calls").read_text().split() == ["venv", "pip"]
    broken = a_bundle(headway_home / "storage", {"requirements.txt": "tinya==9\n"})
    failing = node.server.give("bad/1/0", "true", progress={**progress, "bundle": broken})
    wait_until(lambda: node.server.phase(failing) == "failed_prepare")
    report = node.server.reports[failing]
    assert report["cause"] == "environment_failed"
    assert "tinya==9" in report["detail"]


def test_an_input_is_fetched_once_and_goes_when_others_need_the_room(
    node: Node, headway_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_AGENT_INPUTS_BYTES_MAX", str(3 * MB))
    site = Site80()
    site.files = {"/one": b"1" * (2 * MB), "/two": b"2" * (2 * MB)}
    node.start()
    read = 'head -c 1 "$HEADWAY_INPUT_DATA"'
    for name in ("a", "b"):
        task = node.server.give(
            f"{name}/1/0", "sh", "-c", read, progress={"inputs": {"data": {"url": f"{site.url}/one"}}}
        )
        assert node.server.outcome(task)["cause"] is None
        assert node.server.output(task) == b"1"
    assert site.fetched == ["/one"]
    wait_until(lambda: not list((node.path / "tasks").glob("[ab]-1-0")), what="the end of the users of the input")
    task = node.server.give("c/1/0", "sh", "-c", read, progress={"inputs": {"data": {"url": f"{site.url}/two"}}})
    assert node.server.outcome(task)["cause"] is None
    kept = [json.loads(file.read_text())["url"] for file in (headway_home / "cache/inputs").glob("*.json")]
    assert kept == [f"{site.url}/two"]
    missing = node.server.give("d/1/0", "true", progress={"inputs": {"data": {"url": f"{site.url}/three"}}})
    wait_until(lambda: node.server.phase(missing) == "failed_prepare")
    assert node.server.reports[missing]["detail"] == f'input "data": {site.url}/three answered 404'
    site.close()
