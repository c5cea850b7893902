"""A job that neither its terminal, its server nor its agent can take down: real processes, really killed."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.living import HEADWAY, Living, start_of
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real

# Prints its pid, then numbered lines as fast as the test's file allows: line N once the file holds a number above N.
PACED = """
import os, sys, time
print("pid", os.getpid(), "attempt", os.environ["HEADWAY_ATTEMPT"], flush=True)
last, path = int(sys.argv[1]), sys.argv[2]
for number in range(last):
    while True:
        try:
            if int(open(path).read() or 0) > number:
                break
        except (OSError, ValueError):
            pass
        time.sleep(0.01)
    print("line", number, flush=True)
"""


class Paced:
    """A job that prints lines when it is told to."""

    def __init__(self, living: Living, lines: int) -> None:
        living.script("paced.py", PACED)
        self.pace = living.place / "pace"
        self.pace.write_text("0")
        self.lines = lines
        self.living = living
        self.job = living.submit("paced.py", str(lines), str(self.pace))
        self.pid = 0

    def until(self, line: int) -> None:
        draft = self.pace.with_suffix(".new")
        draft.write_text(str(line))
        draft.rename(self.pace)

    def started(self) -> int:
        """Wait for the rank; returns its pid."""

        def first_line() -> int:
            words = self.living.log(self.job).split() if self.living.job(self.job)["attempt"] else []
            return int(words[1]) if len(words) >= 4 else 0

        self.pid = wait_until(first_line, what="the first line of the job")
        return self.pid

    def check_log(self, attempt: int = 1) -> None:
        """Every line once, in order, to the byte."""
        said = self.living.log(self.job, str(attempt)).splitlines()
        assert said[0].startswith("pid ")
        assert said[0].endswith(f"attempt {attempt}")
        assert said[1:] == [f"line {number}" for number in range(self.lines)]


@pytest.fixture
def paced(living: Living) -> Paced:
    made = Paced(living, 300)
    made.started()
    return made


def ended_as_first_attempt(living: Living, paced: Paced) -> None:
    job = living.wait(paced.job)
    assert (job["state"], job["attempt"], job["exit_code"]) == ("succeeded", 1, 0), job["sentence"]
    assert job["retries"] == {"user": 0, "platform": 0, "capacity": 0}
    paced.check_log()


def test_killing_the_server_leaves_the_job_alone(living: Living, paced: Paced) -> None:
    paced.until(100)
    living.kill(living.server)
    paced.until(200)
    assert start_of(paced.pid) is not None
    living.ok("ps")  # Starts the server again by itself.
    paced.until(300)
    ended_as_first_attempt(living, paced)


def test_a_job_that_ends_while_the_server_is_away_keeps_its_outcome(living: Living, paced: Paced) -> None:
    living.kill(living.server)
    paced.until(300)
    wait_until(lambda: start_of(paced.pid) is None, what="the end of the rank")
    ended_as_first_attempt(living, paced)


def test_killing_the_agent_leaves_the_job_alone(living: Living, paced: Paced) -> None:
    paced.until(100)
    old = living.agent
    living.kill(old)
    paced.until(200)
    wait_until(lambda: living.agent not in (0, old), what="a new agent")
    assert start_of(paced.pid) is not None
    paced.until(300)
    ended_as_first_attempt(living, paced)


def test_killing_both_and_ending_meanwhile_loses_nothing(living: Living, paced: Paced) -> None:
    paced.until(150)
    living.kill(living.server, living.agent)
    paced.until(300)
    wait_until(lambda: start_of(paced.pid) is None, what="the end of the rank")
    ended_as_first_attempt(living, paced)


def test_killing_them_again_and_again_at_any_moment_loses_nothing(living: Living) -> None:
    chance = random.Random(7)
    paced = Paced(living, 1000)
    paced.started()
    for turn in range(1, 11):
        paced.until(100 * turn)
        victims = chance.choice([("server",), ("agent",), ("server", "agent")])
        living.kill(*(pid for name in victims if (pid := getattr(living, name))))
        if chance.random() < 0.7:
            living.ok("ps")
    ended_as_first_attempt(living, paced)


def test_killing_the_keeper_takes_the_job_up_again_free_of_charge(living: Living, paced: Paced) -> None:
    keeper = living.keeper
    assert b"keeper" in Path(f"/proc/{keeper}/cmdline").read_bytes()
    living.kill(keeper)
    wait_until(lambda: start_of(paced.pid) is None, what="the end of the rank with its keeper")
    paced.until(300)
    job = living.wait(paced.job)
    assert (job["state"], job["attempt"]) == ("succeeded", 2), job["sentence"]
    assert job["retries"] == {"user": 0, "platform": 1, "capacity": 0}
    assert job["attempts"][0]["cause"] == "outcome_lost"
    assert "keeper" in job["attempts"][0]["sentence"]
    paced.check_log(attempt=2)
    story = living.ok("logs", paced.job)
    assert story.index("attempt 1\n") < story.index("attempt 2\n")


def test_a_machine_that_loses_everything_at_once_starts_the_job_again(living: Living, paced: Paced) -> None:
    paced.until(50)
    living.kill(*living.processes())
    assert start_of(paced.pid) is None
    paced.until(300)
    living.ok("ps")
    job = living.wait(paced.job)
    assert (job["state"], job["attempt"]) == ("succeeded", 2), job["sentence"]
    assert job["retries"]["user"] == 0
    assert job["retries"]["platform"] == 1
    paced.check_log(attempt=2)


def test_suspending_and_waking_relaunches_nothing(living: Living) -> None:
    living.env = {
        "HEADWAY_SILENT_AFTER_S": "0.5",
        "HEADWAY_TICK_EVERY_S": "0.2",
        "HEADWAY_TICK_GAP_S": "1",
        "HEADWAY_LEASE_MARGIN_S": "0.1",
        "HEADWAY_LOCAL_LEASE_S": "600",
    }
    paced = Paced(living, 300)
    paced.started()
    everything = living.processes()
    living.kill(*everything, sign=signal.SIGSTOP)
    try:
        # Longer than what is called silent and than a gap between two looks.
        subprocess.run(["sleep", "4"], check=True)
    finally:
        living.kill(*everything, sign=signal.SIGCONT)
    paced.until(300)
    ended_as_first_attempt(living, paced)


def test_a_suspended_server_begins_every_lease_anew(living: Living) -> None:
    living.env = {
        "HEADWAY_TICK_EVERY_S": "0.2",
        "HEADWAY_TICK_GAP_S": "1",
        "HEADWAY_LEASE_MARGIN_S": "0",
        "HEADWAY_LOCAL_LEASE_S": "600",
        "HEADWAY_SYNC_WAIT_S": "1",
    }
    paced = Paced(living, 300)
    paced.started()
    server = living.server
    living.kill(server, sign=signal.SIGSTOP)
    try:
        subprocess.run(["sleep", "5"], check=True)
    finally:
        living.kill(server, sign=signal.SIGCONT)
    paced.until(300)
    ended_as_first_attempt(living, paced)


def test_a_server_that_starts_with_a_shorter_lease_counts_the_one_that_the_node_still_holds(living: Living) -> None:
    living.env = {
        "HEADWAY_LOCAL_LEASE_S": "600",
        "HEADWAY_LEASE_MARGIN_S": "0.1",
        "HEADWAY_TICK_EVERY_S": "0.2",
        "HEADWAY_SYNC_WAIT_S": "1",
    }
    paced = Paced(living, 300)
    paced.started()
    agent = living.agent
    living.kill(agent, sign=signal.SIGSTOP)
    try:
        living.kill(living.server)
        living.env["HEADWAY_LOCAL_LEASE_S"] = "1"

        def heard_s() -> float:
            """For how long the new server has heard nothing of the node. It must not have given it up."""
            (node,) = json.loads(living.ok("nodes", "--json"))["nodes"]
            return float(node["heard_s"])

        wait_until(lambda: heard_s() > 5.0, what="several of the shorter leases to run out")
        assert (living.job(paced.job)["state"], living.job(paced.job)["attempt"]) == ("running", 1)
        living.ok("pool", "set", "local", "lease=600")  # On a busy machine a second is soon over.
    finally:
        living.kill(agent, sign=signal.SIGCONT)
    paced.until(300)
    ended_as_first_attempt(living, paced)


def test_closing_the_terminal_leaves_the_job_alone(living: Living) -> None:
    living.script("paced.py", PACED)
    pace = living.place / "pace"
    pace.write_text("1")
    main, other = pty.openpty()
    follower = subprocess.Popen(
        [*HEADWAY, "run", "--name", "closed", "paced.py", "50", str(pace)],
        cwd=living.place,
        env={**os.environ, **living.env},
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    os.close(other)
    seen = b""
    while b"line 0" not in seen:
        seen += os.read(main, 4096)
    os.close(main)
    follower.send_signal(signal.SIGHUP)
    follower.wait(timeout=PATIENCE_S)
    pace.write_text("50")
    job = living.wait("closed")
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    assert living.log("closed").splitlines()[-1] == "line 49"
