"""From the job's words to its end: limits, causes, log policies, code, packages and data, with everything real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.stores import Site80, a_wheel
from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
EATER = "kept = []\nfor _ in range(400):\n    kept.append(b'x' * (1 << 20))\n"


@pytest.mark.parametrize("groups", ["", "none"], ids=["as granted", "watched"])
def test_a_memory_limit_is_kept_and_named(living: Living, groups: str) -> None:
    living.env["HEADWAY_AGENT_CGROUPS"] = groups
    living.script("eat.py", EATER + ("" if not groups else "import time\ntime.sleep(60)\n"))
    job = living.wait(living.submit("--mem", "64MiB", "eat.py"))
    assert (job["state"], job["cause"]) == ("failed", "out_of_memory"), job["sentence"]
    assert "limit" in job["sentence"], job["sentence"]
    assert "64 MiB" in job["sentence"], job["sentence"]


def test_a_stalled_job_ends_with_its_stacks_kept(living: Living) -> None:
    living.script("hang.py", "import time\nprint('on', flush=True)\ntime.sleep(600)\n")
    name = living.submit("--stalled-after", "2s", "--grace", "1s", "hang.py")
    job = living.wait(name)
    assert (job["state"], job["cause"]) == ("failed", "stalled"), job["sentence"]
    assert list(living.home.rglob("dumps/0-stalled.txt"))
    assert "headway-dumps/0-stalled.txt" in living.ok("artifacts", "ls", name)


def test_what_the_log_shows_decides_whether_it_is_tried_again(living: Living) -> None:
    living.script("nomodule.py", "import einops_is_not_here\n")
    living.script("config.sh", "echo 'config: lr is wrong'; exit 3\n")
    policies = '[{"pattern": "^config: .* is wrong", "label": "bad config", "action": "stop_retrying"}]'
    missing = living.submit("--max-retries", "2", "nomodule.py")
    told = living.submit("--max-retries", "2", "--set", f"log_policies={policies}", "config.sh")
    job = living.wait(missing)
    assert (job["cause"], job["attempt"]) == ("import_error", 1), job["sentence"]
    job = living.wait(told)
    assert (job["cause"], job["attempt"]) == ("user_code", 1), job["sentence"]


def test_a_bundle_with_inputs_runs_from_its_subdirectory(living: Living) -> None:
    site = Site80()
    site.files["/numbers.txt"] = b"1 2 3\n"
    (living.place / "sub").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=living.place, check=True)
    living.script("lib.py", "X = 'from the bundle'\n")
    living.script("sub/train.py", "import os, sys\nsys.path.insert(0, '..')\nimport lib\nprint(lib.X, os.getcwd())\n"
                  "print(open(os.environ['HEADWAY_INPUT_DATA']).read())\n")  # fmt: skip
    words = ["--bundle", "--input", f"data={site.url}/numbers.txt", "--workdir", "sub", "--", "python3", "train.py"]
    job = living.wait(living.submit(*words))
    assert job["state"] == "succeeded", job["sentence"]
    said = living.log(job["id"])
    assert "from the bundle" in said
    assert "1 2 3" in said
    assert str(living.place) not in said
    lost = living.wait(living.submit("--input", f"data={site.url}/none", "--", "true"))
    assert (lost["state"], lost["cause"]) == ("failed", "input_missing"), lost["sentence"]
    assert f"{site.url}/none answered 404" in lost["sentence"]
    site.close()


def test_a_job_outlasts_a_server_of_its_data_that_is_busy_for_a_while(living: Living) -> None:
    site = Site80()
    site.files["/numbers.txt"], site.busy = b"1 2 3\n", True
    name = living.submit("--input", f"data={site.url}/numbers.txt", "--", "sh", "-c", "cat $HEADWAY_INPUT_DATA")
    refused = f"{site.url}/numbers.txt answered 503"
    wait_until(lambda: refused in living.job(name)["sentence"], what="the first attempt to give up")
    assert living.job(name)["state"] == "queued", living.job(name)["sentence"]
    site.busy = False
    job = living.wait(name)
    assert (job["state"], job["attempt"]) == ("succeeded", 2), job["sentence"]
    assert living.log(name) == "1 2 3\n"
    site.close()


@pytest.mark.skipif(UV is None, reason="NOT TESTED: there is no uv on this machine")
def test_ten_jobs_want_one_environment_and_a_failing_one_shows_uvs_own_words(living: Living) -> None:
    a_wheel(living.home / "wheels", "tinya")
    counted = living.home / "uv"
    counted.write_text(f'#!/bin/sh\necho "$1" >> {living.home}/calls\nexec {UV} "$@"\n')
    counted.chmod(0o700)
    living.env.update(HEADWAY_AGENT_UV=str(counted), UV_FIND_LINKS=str(living.home / "wheels"), UV_OFFLINE="1")
    living.env.update(UV_NO_INDEX="1", UV_CACHE_DIR=str(living.home / "c"))
    living.script("requirements.txt", "tinya\n")
    living.script("train.py", "import tinya\nprint('has', tinya.VERSION)\n")
    jobs = [living.submit("--bundle", "--environment", "requirements.txt", "train.py") for _ in range(10)]
    for name in jobs:
        job = living.wait(name)
        assert job["state"] == "succeeded", job["sentence"]
        assert living.log(name) == "has 1.0\n"
    assert (living.home / "calls").read_text().split() == ["venv", "pip"]
    living.script("requirements.txt", "tinya==9\n")
    job = living.wait(living.submit("--bundle", "--environment", "requirements.txt", "train.py"))
    assert (job["state"], job["cause"]) == ("failed", "environment_failed"), job["sentence"]
    assert "tinya==9" in job["sentence"]
