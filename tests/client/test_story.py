"""The story of a job's logs: what is shown, in which order, and that nothing is lost or doubled."""

from __future__ import annotations

import threading

import pytest

from headway.client.sdk import Client
from headway.client.story import Story
from headway.core.errors import NotFound
from tests.client.fake_server import FakeServer
from tests.waiting import wait_until


def told(client: Client, job: str, **narrow) -> str:
    return b"".join(piece.data for piece in Story(client, job, **narrow).tell() if piece.stream == "out").decode()


def two_attempts(fake: FakeServer) -> None:
    job = fake.add("j1", state="succeeded", attempt=2)
    job["attempts"][0]["sentence"] = "attempt 1 lost its node"
    fake.write("j1", b"one\ntwo")
    fake.write("j1", b"three\nfour\n", attempt=2)


MARK = "── headway: attempt 2 on local-2, after: attempt 1 lost its node ──\n"


def test_one_attempt_is_its_bytes_and_nothing_else(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="succeeded")
    fake.write("j1", b"a\x00\xff\r\nb")
    assert b"".join(piece.data for piece in Story(client, "j1").tell()) == b"a\x00\xff\r\nb"


@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        ({}, "one\ntwo\n" + MARK + "three\nfour\n"),
        ({"attempt": 1}, "one\ntwo"),
        ({"attempt": 2}, "three\nfour\n"),
        ({"attempt": "last"}, "three\nfour\n"),
        ({"tail": 1}, MARK + "four\n"),
        ({"tail": 2}, MARK + "three\nfour\n"),
        ({"tail": 3}, "two\n" + MARK + "three\nfour\n"),
        ({"tail": 99}, "one\ntwo\n" + MARK + "three\nfour\n"),
        ({"tail": 0}, MARK),
        ({"tail": 1, "attempt": 1}, "two"),
    ],
)
def test_what_of_two_attempts_is_told(fake: FakeServer, client: Client, narrow, expected: str) -> None:
    two_attempts(fake)
    assert told(client, "j1", **narrow) == expected


def test_the_line_between_two_attempts_says_from_where_the_second_goes_on(fake: FakeServer, client: Client) -> None:
    two_attempts(fake)
    fake.jobs["j1"]["attempts"][1].update(resumed_step=6, resumed_unit="epoch")
    mark = "── headway: attempt 2 on local-2, after: attempt 1 lost its node; it goes on from epoch 6 ──\n"
    assert mark in told(client, "j1")
    fake.jobs["j1"]["attempts"][1]["set_back"] = "goes on from epoch 6, not from epoch 9: …"
    assert "its node; it goes on from epoch 6, not from epoch 9: … ──\n" in told(client, "j1")


def test_an_attempt_that_was_never_made_is_not_found(fake: FakeServer, client: Client) -> None:
    two_attempts(fake)
    with pytest.raises(NotFound, match="has 2 attempts"):
        told(client, "j1", attempt=3)


def test_ranks_have_their_names_before_every_line(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="succeeded", spec={"nodes": 1, "ranks_per_node": 2})
    fake.write("j1", b"a\nb")
    fake.write("j1", b"c\n", rank=1)
    assert told(client, "j1") == "[rank 0] a\n[rank 1] c\n[rank 0] b\n"
    assert told(client, "j1", rank=1) == "c\n"
    followed = b"".join(piece.data for piece in Story(client, "j1").follow()).decode()
    assert sorted(followed.splitlines()) == ["[rank 0] a", "[rank 0] b", "[rank 1] c"]


def test_separate_streams_go_where_the_job_sent_them(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="succeeded", spec={"nodes": 1, "ranks_per_node": 1, "streams": "split"})
    fake.write("j1", b"out\n")
    fake.write("j1", b"err\n", stream="err")
    for pieces in (Story(client, "j1").tell(), Story(client, "j1").follow()):
        assert sorted((piece.stream, piece.data) for piece in pieces if piece.data) == [
            ("err", b"err\n"),
            ("out", b"out\n"),
        ]


def test_since_begins_with_a_whole_line(fake: FakeServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.add("j1", state="succeeded")
    fake.write("j1", b"old\nbegun and ended\nnew\n")
    index = [
        {
            "number": 1,
            "files": [
                {
                    "task": 0,
                    "rank": 0,
                    "stream": "out",
                    "bytes": 24,
                    "kept": [[0, 24]],
                    "ranges": [[0, 8, 100.0], [8, 24, 200.0]],
                }
            ],
        }
    ]
    monkeypatch.setattr(client, "logs_index", lambda ref, fresh=False, times=False: index)
    assert told(client, "j1", since_at=150.0) == "begun and ended\nnew\n"
    assert told(client, "j1", since_at=50.0) == "old\nbegun and ended\nnew\n"
    assert told(client, "j1", since_at=250.0) == ""


def test_a_gap_is_marked_in_the_story_and_talked_about_beside_raw_bytes(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="succeeded")
    fake.write("j1", b"x" * 100 + b"end\n")
    fake.skips[("j1", 0)] = 100
    gap = "100 bytes are left out here: the log is larger than its limit"
    assert told(client, "j1") == f"── headway: {gap} ──\nend\n"
    pieces = list(Story(client, "j1", attempt=1).tell())
    assert [(piece.stream, piece.data) for piece in pieces] == [
        ("talk", f"headway: {gap}\n".encode()),
        ("out", b"end\n"),
    ]


def test_a_large_log_arrives_whole(fake: FakeServer, client: Client) -> None:
    fake.add("j1", state="succeeded")
    data = b"".join(b"line %d\n" % number for number in range(400_000))
    fake.write("j1", data)
    assert b"".join(piece.data for piece in Story(client, "j1").tell()) == data
    assert told(client, "j1", tail=20_000) == b"".join(data.splitlines(keepends=True)[-20_000:]).decode()


def test_following_survives_lost_answers_and_a_restart_without_a_lost_or_doubled_byte(
    fake: FakeServer, client: Client
) -> None:
    fake.add("j1", state="queued", attempt=0, sentence="waits in the queue")
    heard: list[bytes] = []
    story = Story(client, "j1")
    reader = threading.Thread(target=lambda: heard.extend(piece.data for piece in story.follow()), daemon=True)
    reader.start()

    def has(data: bytes) -> None:
        wait_until(lambda: b"".join(heard).endswith(data), what=f"{data!r} at the end of {heard!r}")

    one = {"number": 1, "tasks": [{"node": "local-1"}], "sentence": "attempt 1 failed"}
    two = {"number": 2, "tasks": [{"node": "local-1"}], "sentence": ""}
    fake.change("j1", state="running", attempt=1, attempts=[one])
    fake.write("j1", b"1\n")
    has(b"1\n")
    fake.faults = ["cut", "drop-after", "drop-before", 503]
    fake.write("j1", b"2\n")
    has(b"2\n")
    fake.stop()
    fake.write("j1", b"3\n")
    fake.restart()
    has(b"3\n")
    fake.change("j1", state="running", attempt=2, attempts=[one, two])
    fake.write("j1", b"4\n", attempt=2)
    has(b"4\n")
    fake.change("j1", state="succeeded", ended_at=1.0)
    reader.join(timeout=300)
    mark = "── headway: attempt 2 on local-1, after: attempt 1 failed ──\n".encode()
    assert b"".join(heard) == b"1\n2\n3\n" + mark + b"4\n"
    assert story.ended
    assert story.ended["state"] == "succeeded"
