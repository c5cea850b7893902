"""Metrics over HTTP: what is answered, in words that JSON has, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.control.state.feature import LeaderOffice
from headway.features.metrics import routes
from headway.features.metrics.indexer import Indexer
from tests.api.serving import Serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path / "storage") as serving:
        serving.join()
        yield serving


def logged(server: Serving, *lines: object) -> str:
    """A job whose rank has logged these lines, counted and packed."""
    job = server.submit()
    server.start(f"{job}/1/0")
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    server.storage.put(f"logs/n1/{job}", data)
    where = {"rank": 0, "stream": "logged", "start": 0, "end": len(data), "key": f"logs/n1/{job}", "key_offset": 0}
    server.sync(logs=[{"task": f"{job}/1/0", **where}])
    indexer = Indexer(LeaderOffice(server.store, server.storage, server.control, server.settings, {}))
    indexer.count([(job, 1)])
    server.end(f"{job}/1/0")
    indexer.pack()
    return job


def test_what_is_not_finite_is_spelled_in_words_that_json_has(server: Serving) -> None:
    job = logged(server, {"m": {"x": "nan"}}, {"m": {"x": "inf"}}, {"m": {"x": 1.0}, "s": 3}, {"m": {"x": "nan"}})
    (row,) = server.ok("GET", f"/jobs/{job}/metrics")["series"]
    assert (row["last"], row["min"], row["max"], row["nans"]) == ("NaN", 1.0, "Infinity", 2)
    (curve,) = server.ok("GET", f"/jobs/{job}/metrics/points?name=x")["curves"]
    assert (curve["values"], curve["steps"]) == (["NaN", "Infinity", 1.0, "NaN"], [None, None, 3, None])


def test_what_could_not_be_taken_is_said(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    job = logged(server, {"m": {"x": 1.0, "y": "red"}}, ["noise"], {"p": {"lr": 0.1}, "f": "argparse"})
    told = server.ok("GET", f"/jobs/{job}/metrics")
    assert told["notes"] == ["2 lines or values say no number"]
    assert [(each["name"], each["value"], each["source"]) for each in told["params"]] == [("lr", "0.1", "argparse")]
    monkeypatch.setattr(routes, "SERIES_MAX", 1)
    assert "the first 1 series are shown" in server.ok("GET", f"/jobs/{job}/metrics")["notes"][0]


def test_odd_names_are_asked_for_as_they_were_logged(server: Serving) -> None:
    job = logged(server, {"m": {"__proto__": 1.0, "x" * 10_000: 2.0, "a/b c&d": 3.0}})
    for name, value in (("__proto__", 1.0), ("x" * 10_000, 2.0), ("a%2Fb%20c%26d", 3.0)):
        (curve,) = server.ok("GET", f"/jobs/{job}/metrics/points?name={name}")["curves"]
        assert curve["values"] == [value]


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("name=loss", 404, 'has no metric "loss"'),
        ("name=x&points=1", 422, "points"),
        ("name=x&points=99999999", 422, "points"),
        ("name=x&attempt=0", 422, "attempt"),
        ("", 422, "name"),
    ],
)
def test_what_is_not_there_or_too_much_is_refused(server: Serving, query: str, status: int, said: str) -> None:
    job = logged(server, {"m": {"x": 1.0}})
    answer = server.ask("GET", f"/api/v1/jobs/{job}/metrics/points?{query}")
    assert (answer.status, said in answer.data.decode().replace('\\"', '"')) == (status, True), answer.data
