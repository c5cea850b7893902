"""Arrays as one thing, through the command line, with real nodes."""

from __future__ import annotations

import json

import pytest

from headway.cli.frame import exits
from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

# One of them fails until a file is there.
SCRIPT = """import os, sys
index = int(os.environ["HEADWAY_ARRAY_INDEX"])
print("element", index, flush=True)
sys.exit(3 if index == 1 and not os.path.exists("healed") else 0)
"""


def test_an_array_is_followed_fails_with_one_of_its_jobs_and_succeeds_when_that_is_retried(living: Living) -> None:
    living.script("train.py", SCRIPT)
    ran = living.run("run", "--no-bundle", "--array", "3%2", "--cpus", "0.1", "--name", "sweep", "train.py")
    assert ran.returncode == exits.JOB_FAILED, ran
    assert "has ended: 2 succeeded, 1 failed" in ran.stderr
    array = living.ok("ps", "-q").strip()
    lines = living.ok("logs", "sweep").splitlines()
    assert sorted(lines) == [f"[{array}-{at}] element {at}" for at in range(3)]
    (living.place / "healed").write_text("")
    assert living.ok("retry", "--failed", "sweep") == f"{array} 1 job submitted again\n"
    assert "3 succeeded" in living.ok("wait", "sweep")
    assert json.loads(living.ok("describe", array, "--json"))["states"] == {"succeeded": 3}


def test_the_logs_of_an_array_are_followed_until_its_end(living: Living) -> None:
    living.script("train.py", SCRIPT)
    (living.place / "healed").write_text("")
    array = living.submit("--no-bundle", "--array", "4%2", "--cpus", "0.1", "train.py")
    followed = living.run("logs", "-f", array)
    assert (followed.returncode, sorted(followed.stdout.splitlines())) == (
        0,
        [f"[{array}-{at}] element {at}" for at in range(4)],
    )


def test_no_more_of_an_array_run_at_once_than_it_says_and_the_rest_says_why(living: Living) -> None:
    array = living.submit("--array", "3%1", "--cpus", "0.1", "--", "sleep", "300")
    wait_until(lambda: living.job(f"{array}-0")["state"] == "running", what="the first to run")
    said = living.ok("why", f"{array}-1")
    assert f"1 of array {array} has a place, and 1 may at once" in said
    living.ok("set", array, "--at-once", "2")
    wait_until(lambda: living.job(f"{array}-1")["state"] == "running", what="the second to run")
    assert living.job(f"{array}-2")["state"] == "queued"
    assert "3 jobs asked to end" in living.ok("stop", array, "--force")
