"""Addresses as people write them and servers as they are: odd letters, logins, redirects, versions that change."""

from __future__ import annotations

import base64
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway_agent.prepare.cache import Cache
from headway_agent.prepare.download import RemoteFile, plain, shown
from headway_agent.prepare.steps import StepFailed, Unwanted, Work, prepare
from tests.agent.stores import Site80, a_work
from tests.waiting import wait_until


@pytest.fixture
def site() -> Iterator[Site80]:
    site = Site80()
    yield site
    site.close()


def wanting(home: Path, url: str, task: str = "job1/1/0", **environ: str) -> Work:
    return a_work(home, task, environ, inputs={"data": {"url": url}})


def fetched(work: Work) -> Path:
    return Path(prepare(work).env["HEADWAY_INPUT_DATA"])


def failure(work: Work) -> StepFailed:
    with pytest.raises(StepFailed) as raised:
        prepare(work)
    return raised.value


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that does the same, whatever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            while True:
                try:
                    guest, _ = door.accept()
                except OSError:
                    return
                with guest:
                    guest.recv(65536)
                    answer(guest)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
        door.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(("typed", "asked"), [("/a b.csv", "/a%20b.csv"), ("/ü", "/%C3%BC"), ("/a%20b", "/a%20b")])
def test_letters_that_no_address_has_are_written_as_servers_know_them(
    tmp_path: Path, site: Site80, typed: str, asked: str
) -> None:
    site.files[asked] = b"x"
    assert fetched(wanting(tmp_path, site.url + typed)).name == typed[1:]


def test_a_login_in_the_address_goes_to_who_was_named_and_is_never_shown() -> None:
    url, headers = plain("https://me:a%40b@host:8443/x?y=1")
    assert url == "https://host:8443/x?y=1"
    assert base64.b64decode(headers["Authorization"].split()[1]) == b"me:a@b"
    assert plain("https://host/a@b") == ("https://host/a@b", {})
    assert shown("https://me:secret@host/x?token=secret") == "https://host/x"


def test_a_login_is_not_sent_on_to_where_a_server_leads(tmp_path: Path, site: Site80) -> None:
    site.files["/x"] = b"x"
    lead = f"HTTP/1.1 302 Found\r\nLocation: {site.url}/x\r\nContent-Length: 0\r\n\r\n".encode()
    with answering(lambda guest: guest.sendall(lead)) as url:
        login = url.replace("http://", "http://me:secret@")
        assert fetched(wanting(tmp_path, f"{login}/x")).read_bytes() == b"x"
    assert site.heard
    assert not [heard for heard in site.heard if "Authorization" in heard]


def test_in_a_key_of_s3_question_marks_are_letters() -> None:
    remote = RemoteFile("s3://bucket/a/b?c#d.csv", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    assert remote.name == "b?c#d.csv"
    assert remote.http == "http://127.0.0.1:1/bucket/a/b%3Fc%23d.csv"
    assert shown(remote.url) == remote.url


def reset(guest: socket.socket) -> None:
    guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("answer", "said"),
    [(reset, "reset by peer"), (lambda guest: guest.sendall(b"hello\r\n\r\n"), "does not speak HTTP: BadStatusLine")],
)
def test_a_server_that_hangs_up_or_talks_nonsense_counts_as_the_network(
    tmp_path: Path, answer: Callable[[socket.socket], object], said: str
) -> None:
    with answering(answer) as url:
        problem = failure(wanting(tmp_path, f"{url}/x"))
    assert problem.cause == "unreachable"
    assert said in problem.detail


@pytest.mark.parametrize("url", ["http://[::1/x", "http://host:port/x", "http://" + "a" * 64 + ".b/x", "s3:///a"])
def test_what_is_no_address_ends_the_job_and_is_not_tried_for_ever(tmp_path: Path, url: str) -> None:
    problem = failure(wanting(tmp_path, url))
    assert problem.cause == "input_missing"
    assert "is not an address" in problem.detail


def test_a_piece_that_nobody_asked_for_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    piece = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-2/7\r\nContent-Length: 3\r\n\r\nabc"
    with answering(lambda guest: guest.sendall(piece)) as url:
        assert "answered 206" in str(failure(wanting(tmp_path, f"{url}/x.csv")))


def test_a_version_that_changes_between_the_question_and_the_answer_is_not_kept_as_the_old_one(
    tmp_path: Path, site: Site80
) -> None:
    site.files["/a"] = b"old"
    site.before = lambda path: site.files.update({path: b"new"})
    first = fetched(wanting(tmp_path, f"{site.url}/a", "a/1/0"))
    assert first.read_bytes() == b"new"
    site.before = lambda path: None
    site.files["/a"] = b"old"  # Back again: what was noted under this version must be this version.
    assert fetched(wanting(tmp_path, f"{site.url}/a", "b/1/0")).read_bytes() == b"old"


def test_a_server_whose_twins_never_agree_on_a_version_is_believed_all_the_same(tmp_path: Path, site: Site80) -> None:
    site.files["/a"] = b"0"
    site.before = lambda path: site.files.update({path: site.files[path] + b"0"})
    assert set(fetched(wanting(tmp_path, f"{site.url}/a")).read_bytes()) == set(b"0")


def test_an_input_that_a_task_has_cut_short_is_fetched_anew(tmp_path: Path, site: Site80) -> None:
    site.files["/a"] = b"whole"
    first = fetched(wanting(tmp_path, f"{site.url}/a", "a/1/0"))
    first.chmod(0o644)
    first.write_bytes(b"who")
    assert fetched(wanting(tmp_path, f"{site.url}/a", "b/1/0")).read_bytes() == b"whole"
    assert site.fetched == ["/a", "/a"]


def test_a_task_that_is_given_back_does_not_wait_for_the_one_that_fetches(tmp_path: Path, site: Site80) -> None:
    site.files["/a"] = b"x"
    go = threading.Event()
    site.before = lambda path: go.wait()
    first = threading.Thread(target=prepare, args=(wanting(tmp_path, f"{site.url}/a", "a/1/0"),))
    first.start()
    try:
        wait_until(lambda: site.fetched == ["/a"], what="the first one to fetch")
        second = wanting(tmp_path, f"{site.url}/a", "b/1/0")
        looks = iter([True] * 10)
        second.wanted = lambda: next(looks, False)
        with pytest.raises(Unwanted):
            prepare(second)
    finally:
        go.set()
        first.join()
    assert site.fetched == ["/a"]


def test_half_an_entry_of_one_that_died_goes_when_another_is_made(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path / "cache"), 1 << 30)
    left = Path(cache.path("dead") + ".new")
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"x")

    def make(draft: str) -> None:
        Path(draft).mkdir()
        other = Cache(cache.root, 1 << 30)
        other.evict()  # Whoever looks for half entries leaves alone what is being made.
        assert os.path.isdir(draft)

    cache.get("a", str(tmp_path), make)
    assert not left.exists()
