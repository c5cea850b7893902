"""What is caught of a file at its close, by the thread that hears of it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headway_agent.checkpoints.completeness import CUT, WHOLE, Inspector, Knowledge, look
from headway_agent.files import file_events, staged_files
from headway_agent.files.file_events import FileEvents, Printed
from headway_agent.files.inotify import CLOSED, FOUND, WRITTEN, SeenFile
from headway_agent.files.uploader import Uploader


@pytest.fixture
def events(tmp_path: Path) -> FileEvents:
    (tmp_path / "checkpoints").mkdir()
    watcher: Any = SimpleNamespace(fd=-1, printed={}, read=list)
    log: Any = SimpleNamespace(say=lambda *_, **__: None)

    def file_of(task: str, place: str, path: str) -> str:
        return str(tmp_path / place / path)

    return FileEvents(watcher, file_of, lambda task: str(tmp_path), lambda told: None, log)


def closed(events: FileEvents, tmp_path: Path, content: bytes) -> file_events.Caught | None:
    (tmp_path / "checkpoints/model.bin").write_bytes(content)
    return events._catch(SeenFile("a/1/0", "checkpoints", CLOSED, "model.bin"))


def test_a_close_that_the_kernel_has_not_done_with_is_waited_for(
    events: FileEvents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While ext4 finds room for a large file that was written over, it counts as being written to after its close."""
    answers = [True, True, False]
    monkeypatch.setattr(staged_files, "has_writer", lambda fd: answers.pop(0))
    caught = closed(events, tmp_path, b"\1" * 100)
    assert caught is not None
    assert caught.signature[0] == 100


def test_a_file_that_another_one_has_open_is_not_waited_for_again(events: FileEvents, tmp_path: Path) -> None:
    with open(tmp_path / "checkpoints/model.bin", "ab"):
        assert closed(events, tmp_path, b"\1" * 100) is None
        assert str(tmp_path / "checkpoints/model.bin") in events._shared
    assert closed(events, tmp_path, b"\1" * 100) is not None


def test_what_a_new_task_closes_is_copied_before_it_is_known_what_belongs_to_it(
    events: FileEvents, tmp_path: Path
) -> None:
    caught = closed(events, tmp_path, b"\1" * 100)
    assert caught is not None
    (tmp_path / "checkpoints/model.bin").write_bytes(b"")
    assert os.stat(caught.source).st_size == 100
    events.put_by["a/1/0"] = file_events.UNSURE
    whole = closed(events, tmp_path, b"\x80\x04N.")
    assert whole is not None
    assert whole.source == "", "it is stored at once"
    events.put_by["a/1/0"] = file_events.NEVER
    late = closed(events, tmp_path, b"\1" * 100)
    assert late is not None
    assert late.source == ""


def test_what_is_heard_late_of_a_file_that_was_found_is_not_taken_for_the_next_save(
    events: FileEvents, tmp_path: Path
) -> None:
    told: list[Any] = []
    events._tell = told.extend
    path = tmp_path / "checkpoints/model.bin"
    path.write_bytes(b"\1" * 100)
    whose = ("a/1/0", "checkpoints")
    events._hear([SeenFile(*whose, FOUND, "model.bin")])
    events._hear([SeenFile(*whose, WRITTEN, "model.bin"), SeenFile(*whose, CLOSED, "model.bin")])
    assert [getattr(each, "what", "caught") for each in told if not isinstance(each, Printed)] == ["found", "caught"]
    path.write_bytes(b"\1" * 200)
    told.clear()
    events._hear([SeenFile(*whose, WRITTEN, "model.bin"), SeenFile(*whose, CLOSED, "model.bin")])
    assert [getattr(each, "what", "caught") for each in told if not isinstance(each, Printed)] == ["written", "caught"]


def test_a_file_in_which_its_writer_died_while_no_agent_was_there_is_no_half_of_a_save(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04")
    (tmp_path / "optimizer.pkl").write_bytes(b"\x80\x04N.")
    tree = {name: staged_files.signature_at(str(tmp_path / name)) for name in ("model.pkl", "optimizer.pkl")}
    inspector = Inspector()
    inspector.format = {"model.pkl": CUT, "optimizer.pkl": WHOLE}.__getitem__  # type: ignore[method-assign]
    for kept, takes in (
        ({}, True),
        ({"model.pkl": ((4, 1, 1), "closed"), "optimizer.pkl": ((4, 1, 2), "closed")}, False),
    ):
        known = Knowledge(kept=dict(kept))
        charge: Any = SimpleNamespace(
            knowledge=known, end="", inspector=inspector, file_of=lambda path: str(tmp_path / path)
        )
        Uploader._examine(SimpleNamespace(), charge, tree)  # type: ignore[arg-type]
        found = look(known, tree, known.rounds.event_s + 6.0, inspector=inspector)
        assert bool(found) == takes, "what was never whole before is not a part of what is kept"


def test_a_file_that_nobody_has_open_is_not_taken_for_one_that_is_held_open(tmp_path: Path) -> None:
    """It is closed, and the news of that is on the way: taken twice, it would end its save too early."""
    path = tmp_path / "history.pkl"
    inspector: Any = SimpleNamespace(format=lambda path: WHOLE)
    charge: Any = SimpleNamespace(
        directory=str(tmp_path), file_of=str, look_by=lambda at_s: None, inspector=inspector, copies=set(),
        knowledge=Knowledge(),
    )  # fmt: skip
    path.write_bytes(b"\x80\x04N.")
    Uploader._copy_grown(SimpleNamespace(), charge, str(path))  # type: ignore[arg-type]
    assert not charge.knowledge.rounds.now
    with open(path, "ab"):
        Uploader._copy_grown(SimpleNamespace(), charge, str(path))  # type: ignore[arg-type]
    assert list(charge.knowledge.rounds.now) == [str(path)]
