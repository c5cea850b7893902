"""The command line with the real server, agent and keeper, each a process of its own, in a private home."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import HEADWAY, PATIENT, Living
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real


class Home(Living):
    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        env = {**PATIENT, **os.environ, **self.env}
        return subprocess.Popen([*HEADWAY, *words], cwd=self.place, stdout=pipe, stderr=pipe, text=True, env=env)


@pytest.fixture
def home(headway_home: Path, tmp_path: Path) -> Iterator[Home]:
    made = Home(headway_home, tmp_path)
    yield made
    made.end()


# A script that goes on when the test says so.
PACED = """import os, sys, time
for number in range(int(sys.argv[1])):
    print("line", number)
    while not os.path.exists(f"go-{number}"):
        time.sleep(0.01)
"""


def test_a_job_from_submit_to_forgotten(home: Home) -> None:
    home.script("train.py", "import os, sys\nprint('hello', *sys.argv[1:], os.getcwd())\n")
    ran = home.run("run", "train.py", "--lr", "0.1", "--json", "-f")
    assert ran.returncode == 0, ran
    assert ran.stdout == f"hello --lr 0.1 --json -f {home.place}\n"
    assert " is submitted\n" in ran.stderr
    assert " (train) succeeded after " in ran.stderr
    job = home.run("ps", "-q").stdout.strip()
    assert home.run("logs", job[:4]).stdout == ran.stdout
    assert home.run("logs", "train", "--attempt", "last").stdout == ran.stdout
    shown = json.loads(home.run("describe", job, "--json").stdout)
    assert (shown["state"], shown["exit_code"], shown["name"]) == ("succeeded", 0, "train")
    assert home.run("why", job).stdout == f"{job} succeeded\n"
    story = {each["kind"]: each["request"] for each in json.loads(home.run("events", job, "--json").stdout)["events"]}
    assert story["AttemptStarted"].startswith("local-1:")
    said = (home.home / "state/nodes/local-1/agent.log").read_text()
    assert story["AttemptStarted"] in said, "the agent's log does not know its own call"
    assert f'"duties": ["{job}/1/0"]' in said
    assert home.run("wait", job).returncode == 0
    again = home.run("retry", job, "-q").stdout.strip()
    assert again != job
    assert home.run("wait", again).returncode == 0
    assert json.loads(home.run("describe", again, "--json").stdout)["retry_of"] == job
    assert home.run("rm", job, again).returncode == 0
    assert home.run("describe", job).returncode == 5
    assert home.run("ps", "--json").stdout == '{\n  "jobs": []\n}\n'


def test_how_jobs_end_is_told_by_exit_code_and_sentence(home: Home) -> None:
    home.script("bad.py", "def oops(:\n")
    home.script("boom.py", "raise ValueError('no data')\n")
    for words, code, said in (
        (["boom.py"], 100, "failed: ValueError: no data (rank 0, exit code 1) in attempt 1"),
        (["bad.py"], 100, "syntax error"),
        (["--", "sh", "-c", "exit 7"], 100, "exit code 7"),
        (["--exit-code-from-job", "--", "sh", "-c", "exit 7"], 7, "exit code 7"),
        (["--", "no-such-program"], 100, "not found"),
        (["--max-duration", "0.2s", "--grace", "0.1s", "--", "sleep", "600"], 104, "time limit"),
    ):
        ran = home.run("run", *words)
        assert ran.returncode == code, ran
        assert said in ran.stderr, ran
        assert "hint: " in ran.stderr


def test_one_server_for_many_callers_at_once(home: Home) -> None:
    callers = [home.start("ps", "--json") for _ in range(6)]
    for caller in callers:
        out, err = caller.communicate(timeout=PATIENCE_S)
        assert (caller.returncode, json.loads(out), err) == (0, {"jobs": []}, "")
    serving = [pid for pid in home.processes() if b"--foreground" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert serving == [home.server]
    token = home.home / "state/token"
    assert token.stat().st_mode & 0o777 == 0o600
    refused = home.run("server", "start", "--foreground")
    assert refused.returncode == 2
    assert "a server owns" in refused.stderr


def test_a_follower_survives_the_servers_death_without_a_lost_or_doubled_line(home: Home) -> None:
    home.script("paced.py", PACED)
    follower = home.start("run", "paced.py", "4")
    assert follower.stdout
    assert follower.stdout.readline() == "line 0\n"
    first = home.server
    home.kill(first)
    (home.place / "go-0").touch()
    assert follower.stdout.readline() == "line 1\n"
    assert home.server not in (0, first)
    (home.place / "go-1").touch()
    assert follower.stdout.readline() == "line 2\n"
    assert home.run("server", "restart").returncode == 0
    for number in (2, 3):
        (home.place / f"go-{number}").touch()
    out, err = follower.communicate(timeout=PATIENCE_S)
    assert (follower.returncode, out) == (0, "line 3\n"), err
    assert home.run("logs", "paced").stdout == "line 0\nline 1\nline 2\nline 3\n"
    assert json.loads(home.run("describe", "paced", "--json").stdout)["attempt"] == 1


def test_the_story_tells_of_an_attempt_that_lost_its_keeper(home: Home) -> None:
    home.script("paced.py", "import os\nprint('attempt', os.environ['HEADWAY_ATTEMPT'], flush=True)\n" + PACED)
    follower = home.start("run", "paced.py", "1")
    assert follower.stdout
    assert [follower.stdout.readline(), follower.stdout.readline()] == ["attempt 1\n", "line 0\n"]
    home.kill(home.keeper)
    mark = follower.stdout.readline()
    assert mark.startswith("── headway: attempt 2 on local-1, after: attempt 1 "), mark
    (home.place / "go-0").touch()
    out, err = follower.communicate(timeout=PATIENCE_S)
    assert (follower.returncode, out) == (0, "attempt 2\nline 0\n"), err
    assert "succeeded with attempt 2" in err
    assert home.run("logs", "paced").stdout == "attempt 1\nline 0\n" + mark + out
    assert home.run("logs", "paced", "--attempt", "1").stdout == "attempt 1\nline 0\n"
    assert home.run("logs", "paced", "--tail", "1").stdout == mark + "line 0\n"
    shown = json.loads(home.run("describe", "paced", "--json").stdout)
    assert shown["retries"] == {"user": 0, "platform": 1, "capacity": 0}


def test_a_job_goes_on_while_the_server_is_stopped(home: Home) -> None:
    home.script("paced.py", PACED)
    job = home.run("run", "-d", "-o", "name", "paced.py", "1").stdout.strip()
    wait_until(lambda: home.run("logs", job).stdout == "line 0\n", what="the first line")
    assert home.run("server", "stop").stdout == "the server is stopped; running jobs go on\n"
    assert home.run("server", "stop").stdout == "no server runs here\n"
    assert home.run("server", "status").returncode == 3
    (home.place / "go-0").touch()
    assert home.run("wait", job).returncode == 0
    assert json.loads(home.run("server", "status", "--json").stdout)["jobs"]["succeeded"] == 1


def test_stopping_a_job(home: Home) -> None:
    job = home.run("run", "-d", "-o", "name", "--", "sleep", "600").stdout.strip()
    wait_until(lambda: "running" in home.run("ps").stdout, what="a running job")
    assert home.run("rm", job).returncode == 1
    assert home.run("stop", job, "--grace", "5s").returncode == 0
    ended = home.run("wait", job)
    assert ended.returncode == 103, ended
    assert "stopped on request" in ended.stdout
    refused = home.run("run", "-d", "-q", "--gpus", "1000", "--", "true")
    assert refused.returncode == 2
    waiting = home.run("run", "-d", "-q", "--force", "--gpus", "1000", "--", "true").stdout.strip()
    assert "waits: " in home.run("why", waiting).stdout
    assert home.run("cancel", waiting, "--force").returncode == 0
    assert home.run("wait", waiting).returncode == 103


def test_ranks_and_separate_streams(home: Home) -> None:
    program = "echo out $RANK; echo err $RANK >&2"
    ran = home.run("run", "--ranks-per-node", "2", "--split-streams", "--", "sh", "-c", program)
    assert ran.returncode == 0, ran
    assert sorted(ran.stdout.splitlines()) == ["[rank 0] out 0", "[rank 1] out 1"]
    assert [line for line in sorted(ran.stderr.splitlines()) if "err" in line] == ["[rank 0] err 0", "[rank 1] err 1"]
    assert home.run("logs", "sh", "--rank", "1").stdout == "out 1\n"


def test_the_doctor_finds_a_sound_installation_sound(home: Home) -> None:
    found = home.run("doctor", "--json")
    checks = json.loads(found.stdout)
    assert found.returncode == 0, checks
    assert {"python", "state", "data", "disk", "clock", "server", "node local-1"} <= {check["what"] for check in checks}
    (home.home / "state/token").chmod(0o644)
    said = home.run("doctor")
    assert said.returncode == 1
    assert "chmod 600" in said.stdout


def test_a_server_that_cannot_start_says_why(home: Home) -> None:
    home.env.update(HEADWAY_HOST="203.0.113.1", HEADWAY_ACCOUNTS="on", HEADWAY_INSECURE_HTTP="on")
    said = home.run("server", "start")
    assert said.returncode == 3
    assert "cannot listen on 203.0.113.1" in said.stderr
    # With accounts it is a shared server, which no other command starts by the way.
    said = home.run("ps")
    assert said.returncode == 3
    assert "does not run" in said.stderr


def test_the_sdk_submits_waits_and_reads(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    import headway

    monkeypatch.chdir(home.place)
    home.script("train.py", "import sys\nprint('a', sys.argv[1])\nprint('b', end='')\n")
    job = headway.submit("train.py", "x", cpus=0.5)
    assert list(job.logs(follow=True)) == ["a x", "b"]
    assert job.wait() == "succeeded"
    assert list(job.logs()) == ["a x", "b"]
    kinds = [event["kind"] for event, _ in zip(job.client.events(job=job.id), range(3), strict=False)]
    assert len(kinds) == 3
    many = job.client.submit_many([{"command": ["true"]}] * 3)
    assert [job.client.wait(each)[0]["state"] for each in many] == ["succeeded"] * 3
    job.client.close()
