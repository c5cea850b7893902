from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from headway_agent.collect import picked_values
from headway_agent.collect.picked_values import RULES, pick, value_in
from headway_agent.collect.task_collector import TaskCollector


def test_the_first_group_is_the_value():
    assert value_in(re.compile("Train_error=(.*?);"), "epoch 3 Train_error=0.25;") == 0.25
    assert value_in(re.compile(r"(?<=error )\d+"), "error 12") == 12.0
    assert value_in(re.compile("error=(.*)"), "error=high") is None
    assert value_in(re.compile("error=(.*)"), "nothing") is None


def test_each_rule_is_asked_of_each_line():
    rules = {"a": re.compile("a (.+)"), "b": re.compile("b (.+)")}
    assert pick(rules, ["a 1", "b 2", "c 3", "a 4"]) == ([(0, "a", 1.0), (3, "a", 4.0), (1, "b", 2.0)], [])


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(picked_values, "program", lambda: [sys.executable, "-m", "headway_agent"])
    for name in ("output", "checkpoints", "sdk"):
        (tmp_path / name).mkdir()
    return tmp_path


def look(task: Path, rules: dict[str, str], printed: bytes) -> tuple[list[dict], list[str]]:
    (task / RULES).write_text(json.dumps([{"name": name, "regex": regex} for name, regex in rules.items()]))
    (task / "rank0.out").write_bytes(printed)
    collector = TaskCollector("job/1/0", str(task), "", time.time() - 60)
    collector.look(1.0, 1.0, False, final=True)
    troubles = collector.troubles
    collector.close()
    spool = task / "rank0.metrics"
    return [json.loads(line) for line in spool.read_bytes().splitlines()] if spool.exists() else [], troubles


def test_metrics_of_the_users_own_are_found_beside_the_others(task):
    lines, troubles = look(task, {"quality": "beauty is (.+) of"}, b"step 3 loss=0.5\nbeauty is 0.75 of all\n")
    told = [(line["f"], line["s"], line["m"]) for line in lines if line["m"]]
    assert told == [("stdout", 3, {"loss": 0.5}), ("regex", 3, {"quality": 0.75})]
    assert not troubles


def test_a_rule_that_takes_for_ever_costs_itself_alone(task, monkeypatch):
    lines, troubles = look(
        task, {"slow": "(a+)+b", "quality": "beauty (.+)"}, b"a" * 60 + b"\nbeauty 0.75\nstep 1 loss=0.5\n"
    )
    assert {name for line in lines for name in line["m"]} == {"quality", "loss"}
    assert troubles == ["rules for metrics took too long, and are not used any more: slow"]
