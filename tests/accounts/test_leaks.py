"""Two projects share the machines: whoever is in one reads counts of the other, and no names, users or ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from headway.core.access.actor import Right
from tests.accounts.people import RIGHTS, Shared
from tests.api.serving import Answer
from tests.waiting import wait_until

ALL = {"cpus": 8}
ELSEWHERE = re.compile(r"\{(sha256|digest|name|step|project|user|prefix|visit|array|one|node|key)")


class House(Shared):
    """One node, taken by mel of vision; more of mel's jobs wait, and behind them one of sam's, of speech."""

    def furnish(self) -> None:
        self.join()
        # Lent to sam for a moment: mel, who is more urgent, takes it from him.
        self.ok("PATCH", "/queues/urgent", {"priority": 50})
        self.sams = [self.job_of("sam", name="lent", resources=ALL, retries=3)]
        self.start(f"{self.sams[0]}/1/0")
        wait_until(lambda: self.ok("GET", f"/jobs/{self.sams[0]}")["state"] == "running", what="the job to run")
        self.mels = [self.job_of("mel", name="zebra", resources=ALL, queue="urgent")]
        self.until("n1", lambda duties: duties.get(f"{self.sams[0]}/1/0", {}).get("do") == "stop")
        self.end(f"{self.sams[0]}/1/0", exit_code=None, signal=15, cause="cancelled")
        self.start(f"{self.mels[0]}/1/0")
        more = {"resources": ALL, "queue": "urgent"}
        self.mels += [self.job_of("mel", name=f"okapi-{number}", **more) for number in range(4)]
        self.mels.append(self.job_of("mel", name="waits", after=[self.mels[0]], **more))
        self.sams.append(self.job_of("sam", name="plain", resources=ALL))

    def told(self, answer: Answer) -> list[str]:
        """What of the other project stands in an answer."""
        text = answer.data.decode("utf-8", "replace")
        words = ["mel", "vision", "zebra", "okapi", "waits-not", *self.mels]
        return [word for word in words if re.search(rf"\b{re.escape(word)}\b", text)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("shared"), preemption="on") as made:
        assert isinstance(made, House)
        made.furnish()
        yield made


READS = [path for method, path in RIGHTS if method == "GET" and RIGHTS[method, path] in (Right.KNOWN, Right.VIEW)]


@pytest.mark.parametrize("path", sorted(path for path in READS if not ELSEWHERE.search(path)))
def test_what_can_be_read(house: House, path: str) -> None:
    if path == "/api/v1/events":
        return  # It does not end; the next test reads it.
    for job in house.sams if "{ref}" in path else ("",):
        asked = path.removeprefix("/api/v1").replace("{ref}", job)
        answer = house.by("sam", "GET", asked + ("?timeout_s=0" if asked.endswith("/wait") else ""))
        assert answer.status in (200, 404, 422), answer.data
        assert house.told(answer) == [], f"{asked} says {answer.data[:2000]!r}"


def test_the_stream_of_events(house: House) -> None:
    import http.client

    from tests.accounts.people import bearer

    last = house.store.last_seq()
    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=60)
    try:
        connection.request("GET", "/api/v1/events?after=0", headers=bearer(house.tokens["sam"]))
        stream, seen = connection.getresponse(), b""
        house.job_of("sam", name="mark")  # So that the stream has something newer to end with.
        while b'"mark"' not in seen:
            line = stream.readline()
            assert line, "the stream ended"
            seen += line
    finally:
        connection.close()
    assert last > 0
    assert house.told(Answer(200, {}, seen)) == []


def test_a_preempted_job_says_why_without_saying_by_whom(house: House) -> None:
    shown = house.by("sam", "GET", f"/jobs/{house.sams[0]}").json
    assert "a job of another project has a higher priority" in json.dumps(shown)
    # Counts are told.
    assert house.by("sam", "GET", f"/jobs/{house.sams[1]}/why").json["evidence"]["ahead"] >= 4


@pytest.mark.parametrize("words", [{}, {"queue": "urgent"}, {"priority": -5}], ids=str)
def test_what_a_plan_says(house: House, words: dict[str, Any]) -> None:
    job = {"command": ["true"], "resources": ALL, **words}
    answer = house.by("sam", "POST", "/plan", {"job": job})
    assert answer.status == 200
    assert house.told(answer) == []


def test_a_job_that_was_moved_to_another_project_is_no_longer_told_of(house: House) -> None:
    job = house.job_of("sam", name="moves", hold=True)

    def seen() -> list[str]:
        events = house.by("sam", "GET", "/events/page?limit=1000").json["events"]
        return [event["kind"] for event in events if event.get("job") == job]

    assert seen() == ["JobSubmitted"]
    house.ok("PATCH", f"/jobs/{job}", {"project": "vision"})
    house.ok("POST", f"/jobs/{job}/stop", {})
    assert seen() == []


def test_errors(house: House) -> None:
    asked: list[tuple[str, str, Any]] = [
        ("POST", f"/jobs/{house.mels[0]}/stop", {}),
        ("GET", "/jobs/zebra", None),
        ("GET", "/jobs/okap", None),
        ("POST", "/jobs", {"job": {"command": ["true"], "after": ["zebra"]}}),
        ("POST", "/jobs", {"job": {"command": ["true"], "resources": {"cpus": 9999}}}),
        ("POST", "/jobs", {"job": {"command": ["true"], "queue": "urgnt"}}),
        ("GET", f"/jobs/{house.sams[0]}/diff/{house.mels[0]}", None),
        ("PATCH", f"/jobs/{house.sams[1]}", {"after": ["zebra"]}),
        ("GET", "/bundles/" + "b" * 64, None),
    ]
    for method, path, body in asked:
        answer = house.by("sam", method, path, body)
        assert answer.status >= 400, answer.data
        mine = f"{path} {json.dumps(body)}"
        new = [word for word in house.told(answer) if not re.search(rf"\b{re.escape(word)}\b", mine)]
        assert new == [], f"{method} {path} says {answer.data!r}"
