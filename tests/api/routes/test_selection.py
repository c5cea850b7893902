"""Many jobs at once over HTTP: lists with arrays as one row, previews, and one thing done to all that were meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.control.jobs.selected import AT_ONCE_MOST
from headway.store.protocol import JobFilter
from tests.accounts.people import Shared
from tests.api.serving import Follower, Serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path) as serving:
        yield serving


def held(server: Serving, **words: Any) -> str:
    return server.submit(hold=True, **words)


def an_array(server: Serving, size: int, **words: Any) -> str:
    job = {"command": ["true"], "resources": {"cpus": 0.1}, "array": size, **words}
    return str(server.ok("POST", "/jobs", {"job": job})["array"]["id"])


def ids(page: dict[str, Any]) -> list[str]:
    return [job["id"] for job in page["jobs"]]


def act(server: Serving, verb: str, which: dict[str, Any], **more: Any) -> dict[str, Any]:
    done: dict[str, Any] = server.ok("POST", f"/selection/{verb}", {"which": which, **more})
    return done


def test_an_array_is_one_row_with_its_counts_and_the_list_steps_over_the_rest(server: Serving) -> None:
    first = held(server)
    array = an_array(server, 25, hold=True, name="sweep")
    last = held(server)
    page = server.ok("GET", "/jobs?grouped=true&limit=2")
    assert ids(page) == [last, array]
    assert (page["jobs"][1]["count"], page["jobs"][1]["states"]) == (25, {"queued": 25})
    assert ids(server.ok("GET", f"/jobs?grouped=true&limit=2&before={page['next']}")) == [first]
    assert ids(server.ok("GET", "/jobs?grouped=true&state=failed")) == []
    assert len(server.ok("GET", f"/jobs?array={array}")["jobs"]) == 25


def test_an_array_is_found_by_its_id_by_its_beginning_and_by_its_name(server: Serving) -> None:
    array = an_array(server, 3, hold=True, name="sweep")
    for ref in (array, "sweep"):
        assert server.ok("GET", f"/arrays/{ref}")["id"] == array
    assert server.ask("GET", f"/api/v1/arrays/{array}-1").status == 404
    alone = held(server, name="alone")
    for ref in (alone, "alone", "no"):
        assert server.ask("GET", f"/api/v1/arrays/{ref}").status == 404
    held(server, name="sweep")
    assert server.ask("GET", "/api/v1/arrays/sweep").status == 404, "the newest of that name is no array"


def test_an_element_that_was_tried_again_counts_as_its_newest_job_does(server: Serving) -> None:
    server.join()
    array = an_array(server, 3)
    for index, code in enumerate((0, 1, 0)):
        server.start(f"{array}-{index}/1/0")
        server.end(f"{array}-{index}/1/0", exit_code=code, cause="user_code" if code else None)
    assert server.ok("GET", f"/arrays/{array}/counts")["states"] == {"succeeded": 2, "failed": 1}
    assert "failed" in server.ok("GET", f"/arrays/{array}/why")["sentence"]
    (again,) = act(server, "retry", {"array": array, "state": "failed"}, key="k")["done"]
    assert act(server, "retry", {"array": array, "state": "failed"})["done"] == [], "it was retried already"
    server.start(f"{again}/1/0")
    server.end(f"{again}/1/0")
    shown = server.ok("GET", f"/arrays/{array}")
    assert (shown["states"], shown["state"], shown["count"]) == ({"succeeded": 3}, "succeeded", 3)


def test_a_preview_says_how_many_in_which_state_and_what_came_later_is_left_alone(server: Serving) -> None:
    old = [held(server, tags={"team": "vision"}) for _ in range(3)]
    other = held(server)
    preview = server.ok("POST", "/selection/stop/preview", {"which": {"tag": ["team=vision"]}})
    assert (preview["count"], preview["states"], ids(preview)) == (3, {"queued": 3}, old[::-1])
    late = held(server, tags={"team": "vision"})
    assert act(server, "stop", {"tag": ["team"]}, before=preview["before"])["done"] == old[::-1]
    left = ids(server.ok("GET", "/jobs?state=queued"))
    assert left == [late, other]


def test_many_are_done_page_by_page(server: Serving) -> None:
    an_array(server, AT_ONCE_MOST + 5, hold=True, name="sweep")
    first = act(server, "stop", {"name": "sw*"})
    assert len(first["done"]) == AT_ONCE_MOST
    rest = act(server, "stop", {"name": "sw*"}, before=first["next"])
    assert (len(rest["done"]), rest["next"]) == (5, None)
    assert server.store.counts(JobFilter()) == {"cancelled": AT_ONCE_MOST + 5}


def test_tags_change_in_every_state_and_are_found_by_from_then_on(server: Serving) -> None:
    waits, ended = held(server, tags={"a": "1"}), held(server)
    server.ok("POST", f"/jobs/{ended}/stop", {})
    assert act(server, "tag", {"state": "queued,cancelled"}, tags={"best": "yes", "a": None})["done"] == [ended, waits]
    assert ids(server.ok("GET", "/jobs?tag=best%3Dyes")) == [ended, waits]
    assert server.ok("GET", f"/jobs/{waits}")["tags"] == {"best": "yes"}
    assert [each["kind"] for each in server.ok("GET", f"/events/page?job={ended}")["events"]][-1] == "JobChanged"
    assert server.ok("GET", f"/jobs/{ended}")["state"] == "cancelled"


def test_a_verb_is_for_jobs_for_which_it_means_something(server: Serving) -> None:
    waits, ended = held(server), held(server)
    server.ok("POST", f"/jobs/{ended}/stop", {})
    assert act(server, "rm", {"user": "local"})["done"] == [ended]
    answer = server.ask("POST", "/api/v1/selection/rm", {"which": {"state": "queued"}})
    assert (answer.status, answer.json["detail"]) == (422, "rm: nothing that is queued: only ended jobs can be deleted")
    assert ids(server.ok("GET", "/jobs")) == [waits]


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("stop", {"which": {}}),
        ("stop", {"which": {"state": ""}}),
        ("stop", {}),
        ("stop", {"which": {"color": "red"}}),
        ("stop", {"which": {"state": "gone"}}),
        ("stop", {"which": {"older_than": "soon"}}),
        ("stop", {"which": {"tag": ["=x"]}}),
        ("stop", {"which": {"tag": [1]}}),
        ("stop", {"which": {"name": 5}}),
        ("stop", {"which": {"name": "x"}, "before": -1}),
        ("tag", {"which": {"name": "x"}}),
        ("tag", {"which": {"name": "x"}, "tags": {"a b": "c"}}),
        ("retry", {"which": {"name": "x"}, "key": 5}),
    ],
)
def test_a_selection_that_says_nothing_or_nonsense_is_refused(server: Serving, verb: str, body: Any) -> None:
    held(server)
    assert server.ask("POST", f"/api/v1/selection/{verb}", body).status == 422
    assert server.store.counts(JobFilter()) == {"queued": 1}


def test_nothing_else_can_be_done_to_many(server: Serving) -> None:
    assert server.ask("POST", "/api/v1/selection/paint", {"which": {"name": "x"}}).status == 404


def test_another_server_passes_it_on_and_counts_arrays_itself(server: Serving) -> None:
    array = an_array(server, 3, hold=True)
    with Follower(server) as follower:
        assert follower.ok("GET", f"/arrays/{array}/counts")["count"] == 3
        assert ids(follower.ok("GET", "/jobs?grouped=true")) == [array]
        assert len(act(follower, "stop", {"array": array})["done"]) == 3


def test_only_jobs_of_projects_in_which_one_may_change_something_are_meant(tmp_path: Path) -> None:
    with Shared(tmp_path) as server:
        mine = server.job_of("mel", project="vision", hold=True)
        others = server.job_of("sam", project="speech", hold=True)
        which = {"which": {"state": "queued"}}
        assert server.by("vera", "POST", "/selection/stop", which).status == 403
        assert server.by("mel", "POST", "/selection/stop/preview", which).json["count"] == 1
        assert server.by("mel", "POST", "/selection/stop", which).json["done"] == [mine]
        assert server.by("sam", "GET", f"/jobs/{others}").json["state"] == "queued"
        written = [each for each in server.ok("GET", "/audit")["entries"] if each["what"] == "jobs.act"]
        assert [(each["actor"], each["target"]) for each in written if each["outcome"] == "done"] == [
            ("mel", "state=queued")
        ]
