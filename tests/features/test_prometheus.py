"""What Prometheus is told, read by its own parser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headway.features.prometheus.exposition import Family, HistogramFamily, written
from tests.api.serving import Serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "storage") as serving:
        yield serving


def scrape(server: Serving) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    answer = server.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        sample.name: {
            tuple(sorted(each.labels.items())): each.value
            for family in text_string_to_metric_families(answer.data.decode())
            for each in family.samples
            if each.name == sample.name
        }
        for family in text_string_to_metric_families(answer.data.decode())
        for sample in family.samples
    }


def test_jobs_queues_and_nodes_are_counted(server: Serving) -> None:
    server.join()
    waiting = server.ok("POST", "/jobs", {"job": {"command": ["true"], "hold": True}})["job"]["id"]
    found = scrape(server)
    assert found["headway_jobs"][(("state", "queued"),)] == 1
    assert found["headway_queue_jobs"][("queue", "default"), ("state", "queued")] == 1
    assert found["headway_queue_oldest_wait_seconds"][(("queue", "default"),)] >= 0
    assert sum(found["headway_nodes"].values()) == len(server.ok("GET", "/nodes")["nodes"])
    assert found["headway_leader"] == {(): 1}
    server.ok("POST", f"/jobs/{waiting}/stop", {})
    ended = scrape(server)["headway_jobs_ended_total"]
    assert [(dict(labels)["state"], count) for labels, count in ended.items()] == [("cancelled", 1)]


def test_turns_and_syncs_are_timed(server: Serving) -> None:
    before = scrape(server)["headway_turn_duration_seconds_count"][()]
    server.ok("POST", "/jobs", {"job": {"command": ["true"]}})
    found = scrape(server)
    assert found["headway_turn_duration_seconds_count"][()] > before
    assert (
        found["headway_turn_duration_seconds_bucket"][(("le", "+Inf"),)]
        == (found["headway_turn_duration_seconds_count"][()])
    )
    assert "headway_sync_duration_seconds_sum" in found


def test_a_stranger_is_told_nothing(server: Serving) -> None:
    assert server.ask("GET", "/metrics", headers={"Authorization": "Bearer x"}).status == 401


@given(st.text(), st.floats())
def test_any_label_and_any_number_come_back_from_the_parser(label: str, value: float) -> None:
    label = label.replace("\r", "")  # The parser splits lines there.
    text = written([Family("a_b", "gauge", "say\nthis \\ and that", [({"x": label}, value)])])
    if any(each in label for each in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # Python's splitlines in that parser takes these for ends of lines; Prometheus itself does not.
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert sample.labels == {"x": label}
    assert sample.value == value or value != value


def test_buckets_are_summed_up() -> None:
    text = written([HistogramFamily("h_seconds", "h", (0.1, 1.0), (2, 3, 4), 9.5)])
    (family,) = text_string_to_metric_families(text)
    assert [sample.value for sample in family.samples] == [2, 5, 9, 9.5, 9]


def test_the_dashboard_asks_only_for_what_there_is(server: Serving) -> None:
    server.join()
    server.ok("POST", f"/jobs/{server.submit(hold=True)}/stop", {})
    server.submit(hold=True)
    board = json.loads((Path(__file__).parents[2] / "deploy/grafana/headway.json").read_text())
    asked = {name for text in _expressions(board) for name in re.findall(r"headway_\w+", text)}
    assert asked <= set(scrape(server))
    assert len(asked) > 10


def _expressions(board: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]
