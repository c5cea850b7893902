"""What cannot heal by being tried again fails at once, with the user's cause; and at submission where it is known."""

from __future__ import annotations

import shutil

import pytest

from headway.control.access.sealing import new_key_line
from tests.living import Living

pytestmark = pytest.mark.real


def test_a_directory_that_is_gone_fails_its_job_at_once(living: Living) -> None:
    place = living.place / "short-lived"
    place.mkdir()
    held = living.submit("--hold", "--workdir", str(place), "--", "true")
    place.rmdir()
    living.ok("release", held)
    ended = living.wait(held)
    assert (ended["state"], ended["cause"], ended["attempt"]) == ("failed", "workdir_missing", 1)
    assert f"there is no {place}" in ended["sentence"]


def test_a_job_is_not_done_again_where_its_directory_is_gone(living: Living) -> None:
    place = living.place / "short-lived"
    place.mkdir()
    job = living.submit("--workdir", str(place), "--", "false")
    assert living.wait(job)["state"] == "failed"
    shutil.rmtree(place)
    for verb in ("rerun", "retry", "fork"):
        refused = living.run(verb, job)
        assert refused.returncode == 2
        assert f"{job} ran in {place}, which is gone" in refused.stderr
    place.mkdir()
    assert living.wait(living.ok("rerun", job, "-d", "-q").strip())["cause"] == "user_code"


def test_a_secret_whose_key_is_gone_is_refused_and_ends_a_job_that_waits(living: Living) -> None:
    living.ok("secret", "set", "hf-token", input="hunter2-and-more")
    held = living.submit("--hold", "--secret", "A=hf-token", "--", "true")
    (living.home / "config/secrets.keys").write_text(new_key_line())
    refused = living.run("run", "--secret", "A=hf-token", "--", "true")
    assert refused.returncode == 2
    assert "secrets.A" in refused.stderr
    assert "its key is gone" in refused.stderr
    assert "headway secret set hf-token" in refused.stderr
    living.ok("release", held)
    ended = living.wait(held)
    assert (ended["state"], ended["cause"]) == ("failed", "secret_missing")
