"""The server's log: a line for each fact, without secrets; and a full disk takes no line, and nothing else with it."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from headway.control.server import safe_log
from headway.control.server.safe_log import Unfailing, hide, hide_own, one_line, scrubbed, write_log

PERSONAL = "hw_0123456789_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFy-_x"
NODES = "hwn_bG9jYWwtMQ.c2VhbHNlYWxzZWFsc2VhbHNlYWxzZWFsc2VhbHNlYWw"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the server would write, from here on."""
    written, root = io.StringIO(), logging.getLogger()
    kept = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(safe_log, "_known", set())
    write_log()
    yield written
    structlog.reset_defaults()
    root.handlers[:], sys.excepthook, threading.excepthook = kept[0], kept[2], kept[3]
    root.setLevel(kept[1])


def test_a_line_that_the_disk_does_not_take_ends_nobody() -> None:
    with io.TextIOWrapper(Path("/dev/full").open("wb", buffering=0), write_through=True) as full:
        with pytest.raises(OSError, match="No space left"):
            structlog.PrintLogger(full).info("lost")
        unfailing = Unfailing(full)
        for _ in range(1000):
            structlog.PrintLogger(unfailing).info("a line of the log" * 100)  # type: ignore[arg-type]
    there = io.StringIO()
    structlog.PrintLogger(Unfailing(there)).info("kept")  # type: ignore[arg-type]
    assert there.getvalue() == "kept\n"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"shown Bearer {PERSONAL}, twice", "shown Bearer ***, twice"),
        (f"b'bearer {NODES}'", "b'bearer ***'"),
        (f"the token {PERSONAL} is old", "the token hw_*** is old"),
        (f"token={NODES}", "token=hwn_***"),
        ("postgresql://head:p4ss%40word@db.lab:5432/x is away", "postgresql://head:***@db.lab:5432/x is away"),
        ("GET /agent/objects/logs/n1?signature=abcdef0 failed", "GET /agent/objects/logs/n1?signature=*** failed"),
        ("b/k?X-Amz-Credential=AKIA%2F1&X-Amz-Signature=0f", "b/k?X-Amz-Credential=***&X-Amz-Signature=***"),
        ("host=db password=hunter2secret user=head", "host=db password=*** user=head"),
        ("node local-1 is up at http://127.0.0.1:8400", "node local-1 is up at http://127.0.0.1:8400"),
    ],
)  # fmt: skip
def test_what_gives_a_right_is_left_out(said: str, shown: str) -> None:
    assert scrubbed(said) == shown


def test_what_the_server_itself_shows_is_hidden_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_log, "_known", set())
    hide("the-house-token")
    hide_own(
        {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "HOME": "/home/ada", "PIN_KEY": "1"}, "postgresql://h:p%40ss1234@d/x"
    )
    said = "the-house-token wJalrXUtnFEMI p%40ss1234 p@ss1234 /home/ada 1"
    assert scrubbed(said) == "*** *** *** *** /home/ada 1"


def fail(token: str) -> None:
    held = token
    raise LookupError(f"nothing for\n{len(held)} letters")


def test_an_error_is_one_line_with_an_id_and_no_variables(log: io.StringIO) -> None:
    for tell in (
        lambda: structlog.get_logger().exception("request failed", id="e1"),
        lambda: logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n"),
    ):
        log.truncate(log.seek(0))
        try:
            fail(PERSONAL)
        except LookupError:
            tell()
        (line,) = log.getvalue().splitlines()
        assert f"LookupError: nothing for {len(PERSONAL)} letters at test_safe_log.py:" in line
        assert " fail < test_safe_log.py:" in line, line
        assert "id=" in line
        assert PERSONAL[3:] not in line


def test_a_thread_that_ends_by_an_error_says_it_in_one_line(log: io.StringIO) -> None:
    ends = threading.Thread(target=fail, args=(PERSONAL,))
    ends.start()
    ends.join()
    (line,) = log.getvalue().splitlines()
    assert "ended by an error" in line
    assert "fail <" in line
    assert PERSONAL[3:] not in line


def test_a_line_has_no_tokens_wherever_they_stand(log: io.StringIO) -> None:
    structlog.get_logger().warning(f"refused Bearer {PERSONAL}", error=f"x {NODES}\ny", by=[PERSONAL])
    (line,) = log.getvalue().splitlines()
    assert PERSONAL[3:] not in line
    assert NODES[4:] not in line


def test_a_chain_of_errors_names_what_came_before() -> None:
    try:
        try:
            fail("x")
        except LookupError as error:
            raise ValueError("no answer") from error
    except ValueError as error:
        told = one_line(error)
    assert told.startswith("ValueError: no answer at test_safe_log.py:")
    assert told.endswith("; after LookupError: nothing for 1 letters")
