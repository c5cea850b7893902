"""Each way of ending has its own cause, and a sentence that says what to do."""

from __future__ import annotations

import os
import signal

import pytest

from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real


def test_each_end_has_its_own_cause_and_sentence(living: Living) -> None:
    living.script("broken.py", "def half(:\n    pass\n")
    living.script("raises.py", "import sys\nprint('working')\nraise RuntimeError('no such thing')\n")
    plain = living.script("plain.txt", "not a program\n")
    plain.chmod(0o644)
    cases = {
        ("--", "sh", "-c", "kill -SEGV $$"): ("crashed", "SIGSEGV"),
        ("--", "sh", "-c", "kill -TERM $$"): ("crashed", "SIGTERM"),
        ("--", "sh", "-c", "kill -KILL $$"): ("killed", "SIGKILL"),
        ("--", "no-such-program-here"): ("command_missing", "not found"),
        ("--", "sh", "-c", "exec no-such-program-here"): ("command_missing", "not found"),
        ("--", str(plain)): ("not_executable", "not executable"),
        ("broken.py",): ("syntax_error", "syntax error"),
        ("raises.py",): ("user_code", "RuntimeError: no such thing"),
        ("--", "sh", "-c", "exit 7"): ("user_code", "exit code 7"),
    }
    jobs = {living.submit(*words): expected for words, expected in cases.items()}
    for name, (cause, says) in jobs.items():
        job = living.wait(name)
        assert (job["state"], job["cause"]) == ("failed", cause), job["sentence"]
        assert says in job["sentence"], job["sentence"]
        assert job["hint"], job["sentence"]
        assert job["attempt"] == 1


def test_a_kill_from_outside_is_told_from_one_of_ours(living: Living) -> None:
    job = living.submit("--", "sh", "-c", "echo pid $$; exec sleep 600")

    def pid() -> int:
        words = living.log(job).split() if living.job(job)["attempt"] else []
        return int(words[1]) if len(words) == 2 else 0

    os.kill(wait_until(pid, what="the rank's pid"), signal.SIGKILL)
    ended = living.wait(job)
    assert ended["cause"] == "killed"
    other = living.submit("--", "sh", "-c", "trap '' TERM; while true; do sleep 1; done")
    wait_until(lambda: living.job(other)["state"] == "running", what="the second job")
    living.ok("stop", other, "--grace", "1s")
    assert living.wait(other)["cause"] == "cancelled"


def test_retries_are_counted_and_backed_off(living: Living) -> None:
    living.script("third.sh", 'test "$HEADWAY_ATTEMPT" = 3 && echo done || exit 9\n')
    job = living.submit("--max-retries", "3", "third.sh")
    while living.job(job)["state"] == "queued" or living.job(job)["attempt"] < 3:
        wait_until(lambda: living.job(job)["state"] in ("queued", "succeeded", "running"), what="the pause")
        living.run("retry", job)  # Goes at once instead of backing off.
    ended = living.wait(job)
    assert (ended["state"], ended["attempt"], ended["retries"]["user"]) == ("succeeded", 3, 2)


def test_descendants_that_left_the_session_are_ended_too(living: Living) -> None:
    job = living.submit("--", "sh", "-c", "setsid sh -c 'echo child $$; exec sleep 600' & sleep 600")

    def child() -> int:
        words = living.log(job).split() if living.job(job)["attempt"] else []
        return int(words[1]) if len(words) == 2 else 0

    pid = wait_until(child, what="the child that left the session")
    living.ok("stop", job, "--grace", "0s")
    living.wait(job)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of the child")


def test_the_time_limit_ends_a_job_and_says_so(living: Living) -> None:
    job = living.submit("--max-duration", "1s", "--grace", "1s", "--", "sleep", "600")
    ended = living.wait(job)
    assert (ended["state"], ended["cause"]) == ("failed", "time_limit")
    assert living.run("wait", job).returncode == 104
