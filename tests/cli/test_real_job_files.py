"""Job files with the real server: pipelines all or none and in their order, scripts, and reruns with changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import Living

pytestmark = pytest.mark.real

PIPELINE = """name: report
after: [{job: train, when: any}]
command: echo reported
---
name: prepare
env: {VERSION: 1.10}
command: |
  echo prepared "$VERSION" | tr a-z A-Z
---
name: train
after: prepare
params: {lr: 0.5}
command: |
  echo training --lr 0.1
  false | true
  echo never
"""


@pytest.fixture
def home(headway_home: Path, tmp_path: Path) -> Iterator[Living]:
    made = Living(headway_home, tmp_path)
    yield made
    made.end()


def test_a_pipeline_is_followed_in_its_order_and_tells_of_the_first_that_failed(home: Living) -> None:
    home.script("pipeline.yaml", PIPELINE)
    ran = home.run("run", "-f", "pipeline.yaml")
    assert ran.returncode == 100, ran
    assert ran.stdout == "PREPARED 1.10\ntraining --lr 0.5\nreported\n"
    assert "(train) failed: rank 0 ended with exit code 1" in ran.stderr
    jobs = json.loads(home.run("ps", "--json").stdout)["jobs"]
    assert {job["name"]: job["state"] for job in jobs} == {
        "prepare": "succeeded", "train": "failed", "report": "succeeded",
    }  # fmt: skip
    page = home.run("describe", "train").stdout
    assert "    echo training --lr 0.5\n" in page
    assert "params:     lr=0.5\n" in page


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("after: prepare", 'pipeline.yaml, line 11: after: there is no job "nobody"'),
        ("name: train", 'job "train": pool: no pool "nowhere"'),
    ],
)
def test_of_a_pipeline_that_cannot_be_nothing_is_submitted(home: Living, wrong: str, message: str) -> None:
    by = {"after: prepare": "after: nobody", "name: train": "name: train\npool: nowhere"}[wrong]
    home.script("pipeline.yaml", PIPELINE.replace(wrong, by))
    ran = home.run("submit", "-f", "pipeline.yaml")
    assert ran.returncode == 2, ran
    assert message in ran.stderr
    assert json.loads(home.run("ps", "-a", "--json").stdout)["jobs"] == []


def test_a_rerun_does_the_same_but_for_what_is_said(home: Living) -> None:
    home.script("job.yaml", 'name: one\nenv: {A: old}\ncommand: [sh, -c, \'echo "$A" "$B" "$0" "$@"\', --lr, 0.10]\n')
    assert home.run("run", "-f", "job.yaml").stdout == "old  --lr 0.10\n"
    changed = home.run("rerun", "one", "--env", "B=new", "--param", "lr=3", "--name", "two", "--set", "retries=2")
    assert changed.stdout == "old new --lr 3\n"
    shown = json.loads(home.run("describe", "two", "--json").stdout)
    assert (shown["name"], shown["spec"]["retries"]) == ("two", 2)
    assert home.run("rerun", "two").stdout == "old new --lr 3\n"
    refused = home.run("rerun", "one", "--param", "lrr=3")
    assert refused.returncode == 2
    assert 'no parameter "lrr"' in refused.stderr
