"""What the agent decides when the server's storage is elsewhere than it was."""

from __future__ import annotations

from typing import Any

import pytest

from headway_agent.decide import decide as agent
from headway_agent.decide.decide import (
    ArtifactStored,
    CheckpointBad,
    CheckpointStored,
    Exit,
    Hold,
    KeepAgain,
    KeeperListed,
    Kept,
    Move,
    NodeState,
    NotAnswered,
    Preparing,
    RankExited,
    Salvage,
    Salvaged,
    Shipped,
    TaskOver,
)
from headway_agent.objects.folder import ID, Folder, StoreFailed, is_copy
from headway_wire.reply import StorageTold
from headway_wire.sync import OutputRange, StoredArtifact
from tests.agent.decide import test_unconfirmed_files
from tests.agent.decide.test_unconfirmed_files import T, exchange
from tests.agent.spoken import a_save, sync_of

OLD, NEW = {"mark": "aaa.1"}, {"mark": "aaa.2", "dir": "/srv/two", "copy": "17"}


def a_going() -> NodeState:
    """A task that goes, on a node that knows the first place."""
    state = test_unconfirmed_files.a_going()
    exchange(state, storage=OLD)
    return state


def shipped(state: NodeState, start: int, end: int, mark: str = "aaa.1") -> None:
    agent.decide(state, Shipped([OutputRange(T, 0, "out", start, end, f"k{start}", 0)], mark), 1.0)


def checkpoint(mark: str = "aaa.1") -> CheckpointStored:
    return a_save(T, {"step": 5, "key": "k5", "how": "renamed", "bytes": 1, "files": 1, "at": 0.0}, mark)


def acts_of(state: NodeState, **reply: Any) -> list[agent.Act]:
    return [act for act in exchange(state, **reply)[1] if not isinstance(act, agent.Lease)]


def test_every_call_says_where_all_lies_that_it_tells_of() -> None:
    state = a_going()
    assert exchange(state)[0]["storage"] == "aaa.1"
    assert acts_of(state, storage=OLD) == [], "nothing new"


def test_output_that_was_stored_in_the_old_place_is_shipped_again_from_what_the_server_has() -> None:
    state = a_going()
    shipped(state, 0, 60)
    exchange(state, safe={T: {"0/out": 60}})
    shipped(state, 60, 100)
    body = sync_of(state, {}, 1.0)
    agent.decide(state, NotAnswered(body["seq"]), 1.0)  # The server was stopped; it comes back with another storage.
    shipped(state, 100, 120)
    assert Move(StorageTold.read(NEW)) in exchange(state, storage=NEW, safe={T: {"0/out": 60}})[1]
    shipped(state, 120, 130, "aaa.2")  # Under way when the news came.
    body, _ = exchange(state, safe={T: {"0/out": 60}})
    assert (body["full"], body["logs"], body["storage"]) == (True, [], "aaa.2")
    assert state.tasks[T].shipped == {"0/out": 60}
    shipped(state, 60, 130, "aaa.1")  # A put into the old place took its time.
    assert state.tasks[T].shipped == {"0/out": 60}
    shipped(state, 60, 130, "aaa.2")
    assert [each["start"] for each in exchange(state)[0]["logs"]] == [60]


def test_an_end_that_was_not_taken_waits_until_its_output_is_in_the_new_place() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 1.0)
    agent.decide(state, TaskOver(T, {"0/out": 10}), 1.0)
    shipped(state, 0, 10)
    body, _ = exchange(state, storage=NEW, safe={T: {}})
    assert [each["phase"] for each in body["reports"]] == ["ended"]
    body, _ = exchange(state, safe={T: {}})
    assert [each["phase"] for each in body["reports"]] == ["running"], "its output is not there yet"
    shipped(state, 0, 10, "aaa.2")
    assert [each["phase"] for each in exchange(state)[0]["reports"]] == ["ended"]


def test_files_that_nobody_has_answered_for_are_stored_again() -> None:
    state = a_going()
    agent.decide(state, checkpoint(), 1.0)
    agent.decide(state, ArtifactStored(T, StoredArtifact(T, "a", (), 1, storage="aaa.1")), 1.0)
    assert acts_of(state, storage=NEW) == [Move(StorageTold.read(NEW)), KeepAgain(T, True)]
    body, _ = exchange(state)
    assert "checkpoints" not in body
    assert "artifacts" not in body
    assert agent.decide(state, checkpoint("aaa.1"), 1.0) == [KeepAgain(T, True)], "it was under way"
    agent.decide(state, checkpoint("aaa.2"), 1.0)
    assert len(exchange(state)[0]["checkpoints"]) == 1


def test_files_that_were_answered_for_are_left_in_peace() -> None:
    state = a_going()
    agent.decide(state, checkpoint(), 1.0)
    exchange(state, checkpoints_safe={T: [5]})
    assert acts_of(state, storage=NEW) == [Move(StorageTold.read(NEW))]


def test_a_salvage_that_ended_in_the_old_place_is_made_again() -> None:
    state = a_going()
    agent.decide(state, RankExited(T, Exit(0, 0)), 1.0)
    agent.decide(state, TaskOver(T, {}, leftovers=True), 1.0)
    exchange(state, storage=NEW, safe={T: {}})
    exchange(state, safe={T: {}})
    again = [KeepAgain(T, True), Salvage(T, "well")]
    assert agent.decide(state, checkpoint("aaa.1"), 1.0) == again
    assert agent.decide(state, Salvaged(T, "aaa.1"), 1.0) == again
    assert state.tasks[T].phase == agent.OVER
    agent.decide(state, Salvaged(T, "aaa.2"), 1.0)
    assert state.tasks[T].phase == agent.ENDED


def test_what_could_not_be_had_from_the_old_place_is_looked_for_in_the_new_one() -> None:
    state = test_unconfirmed_files.a_task(resume={"key": "k", "step": 5})
    exchange(state, storage=OLD)
    agent.decide(state, Preparing(T), 1.0)
    agent.decide(state, CheckpointBad(T, "k", "it is missing"), 1.0)
    acts = acts_of(state, storage=NEW)
    assert acts[0] == Move(StorageTold.read(NEW))
    assert isinstance(acts[1], Hold)
    assert "bad_checkpoints" not in exchange(state)[0]


def test_what_an_agent_before_has_kept_is_told_only_where_it_is() -> None:
    for mark, again in (("aaa.2", []), ("", [KeepAgain(T, True)]), ("aaa.1", [KeepAgain(T, True)])):
        state = NodeState("n1", "local")
        agent.decide(state, KeeperListed([Kept(T, "going")]), 0.0)
        agent.decide(state, checkpoint(mark), 0.0)
        body, acts = exchange(state, storage=NEW)
        assert "checkpoints" not in body, "nobody has said yet where storage is"
        assert [act for act in acts if isinstance(act, KeepAgain)] == again
        assert len(exchange(state)[0].get("checkpoints", ())) == (not again)


def test_a_server_that_knows_no_marks_is_told_everything() -> None:
    state = test_unconfirmed_files.a_going()
    assert state.storage == ""
    shipped(state, 0, 5, "")
    assert len(exchange(state)[0]["logs"]) == 1
    shipped(state, 5, 9, "")
    assert acts_of(state, storage=OLD) == [Move(StorageTold.read(OLD))], "the same place has a name now"


def test_a_folder_that_is_not_the_one_that_was_named_takes_nothing(tmp_path: Any) -> None:
    (tmp_path / ID).write_text("aaa")
    inode = str((tmp_path / ID).stat().st_ino)
    assert is_copy(str(tmp_path), "aaa.7", inode)
    assert not is_copy(str(tmp_path), "aab.7", inode)
    folder = Folder(str(tmp_path), "aaa.7", inode)
    folder.draft().drop()
    (tmp_path / ID).rename(tmp_path / "away")  # As when its disk is unmounted.
    for act in (folder.draft, lambda: folder.read("k", 0, 1), lambda: folder.read_all("k")):
        with pytest.raises(StoreFailed, match="is it mounted"):
            act()
