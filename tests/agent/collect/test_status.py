from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from headway_agent.collect.status_posts import BAD, LARGE, REQUEST_BYTES_MAX, StatusPost, fresh, read_status
from headway_agent.collect.status_server import TOKEN_FILE, URL, StatusServer


def body(**metrics: float | str) -> bytes:
    told = [{"name": name, "value": str(value)} for name, value in metrics.items()]
    return json.dumps({"trainerStatus": {"progressPercentage": 50, "metrics": told}}).encode()


def test_a_status_tells_figures_at_its_step():
    found, step = read_status(body(loss=0.5, current_step=12, total_steps=24, current_epoch=1.5), 9.0, None)
    assert (found, step) == ([("loss", 0.5, 12, 9.0, 0)], 12)


def test_a_status_without_a_step_has_that_of_the_one_before():
    assert read_status(body(train_loss=0.25), 9.0, 24) == ([("train_loss", 0.25, 24, 9.0, 0)], 24)


def test_figures_that_are_posted_again_are_not_taken_again():
    known: dict[str, float] = {}
    assert len(fresh(read_status(body(loss=0.5, current_step=1), 1.0, None)[0], known)) == 1
    assert fresh(read_status(body(loss=0.5, current_step=2), 2.0, None)[0], known) == []
    assert len(fresh(read_status(body(loss=0.25, current_step=3), 3.0, None)[0], known)) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"trainerStatus": 3}', body(loss="high")])
def test_a_body_that_is_none_tells_nothing(content):
    assert read_status(content, 1.0, None) == ([], None)


def test_requests_of_other_kinds_are_refused():
    for request, status in {
        b"GET /status/a/1/0 HTTP/1.1\r\n\r\n": BAD,
        b"POST /status/a/1/0 HTTP/1.1\r\n\r\n": BAD,
        b"POST /status/a/1/0 HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (REQUEST_BYTES_MAX + 1): LARGE,
        b"x" * (REQUEST_BYTES_MAX + 1): LARGE,
    }.items():
        post = StatusPost()
        assert post.feed(request)
        assert post.status == status


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "tasks/job-1-0").mkdir(parents=True)
    (tmp_path / "tasks/job-1-0/rank2.out").touch()
    return tmp_path


def server_of(node: Path) -> StatusServer:
    return StatusServer(str(node), lambda key: str(node / "tasks" / key.replace("/", "-")))


def post(env: dict[str, str], content: bytes, token: str | None = None) -> int:
    said = Path(env[TOKEN_FILE]).read_text() if token is None else token
    request = urllib.request.Request(env[URL], data=content, headers={"Authorization": f"Bearer {said}"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_post_is_in_the_spool_when_it_is_answered(node):
    env = server_of(node).env("job/1/0")
    assert post(env, body(loss=0.5, current_step=12)) == 200
    lines = (node / "tasks/job-1-0/rank2.metrics").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert [(line["m"], line["s"], line["f"]) for line in told] == [({"loss": 0.5}, 12, "huggingface")]


def test_strangers_and_unknown_tasks_are_refused(node):
    env = server_of(node).env("job/1/0")
    assert post(env, body(loss=0.5), token="guessed") == 401
    assert post({**env, URL: env[URL].replace("job/1/0", "other/1/0")}, body(loss=0.5)) == 400
    assert post({**env, URL: env[URL].replace("job/1/0", "../../x")}, body(loss=0.5)) == 400


def test_the_next_agent_of_a_node_listens_where_tasks_were_told_to_post(node):
    first = server_of(node)
    env = first.env("job/1/0")
    first.close()
    second = server_of(node)
    second.listen_again()
    assert second.env("job/1/0") == env
    assert post(env, body(loss=0.5, current_step=1)) == 200


def test_a_caller_who_says_nothing_keeps_nobody_waiting(node):
    env = server_of(node).env("job/1/0")
    port = int(env[URL].split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port)):
        assert post(env, body(loss=0.5, current_step=1)) == 200
