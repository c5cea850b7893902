"""A gang's files on one node: restored from several tasks, and kept as whose they are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headway_agent.checkpoints.roots import PREFIX
from headway_agent.files import occupants, restore, returned_files
from headway_agent.files.occupants import Occupant
from headway_agent.files.parts import Known, send_files
from headway_agent.files.restore import Bad, look
from headway_agent.files.task_files import TaskFiles, write_restored
from headway_agent.files.workdir import Workdir
from headway_agent.files.workdir_notes import Note, turning_point_ns
from headway_agent.objects.folder import Folder, put
from headway_wire.claim import Resume
from headway_wire.manifest_seal import sealed


class Saved:
    """What several tasks have stored of one checkpoint."""

    def __init__(self, place: Path) -> None:
        self.place, self.objects = place, Folder(str(place / "storage"))

    def by(self, task: int, files: Mapping[str, str], **more: Any) -> str:
        source = self.place / f"source-{task}"
        for path, content in files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(content)
        parts = f"jobs/j/1/parts/{task}."
        entries, _ = send_files(self.objects, parts, str(source), look(str(source)), Known(), {})
        key = f"jobs/j/1/checkpoints/5-{task}.json"
        head = {"version": 1, "job": "j", "attempt": 1, "task": task, "step": 5, "how": "renamed", **more}
        put(self.objects, key, sealed(json.dumps(dict(head, files=entries)).encode()))
        return key


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


def contents(directory: str | Path) -> dict[str, str]:
    return {path: (Path(directory) / path).read_text() for path in look(str(directory))}


def a_task(place: Path, saved: Saved, own: str | None, others: list[str], task: int = 1) -> TaskFiles:
    """A task that was restored, as an agent that starts anew takes it up."""
    directory = place / f"nodes/local-{task}/tasks/j-2-{task}"
    directory.mkdir(parents=True)
    resume: dict[str, Any] = {"step": 5, "key": own or others[0], "others": others if own else others[1:]}
    resume |= {} if own else {"own": False}
    checkpoints = f"{directory}/checkpoints"
    restored = restore.restore(saved.objects, resume["key"], checkpoints, lambda: None, resume["others"])
    write_restored(str(directory), Resume.read(resume), restored, look(checkpoints), "m")
    return TaskFiles(f"j/2/{task}", str(directory), 7)


def test_a_node_gets_its_own_files_first_and_of_the_others_what_it_has_not(tmp_path: Path, saved: Saved) -> None:
    first = saved.by(0, {"checkpoint-5/model": "weights", "checkpoint-5/rng_state_0": "0", "log": "of the first"})
    second = saved.by(1, {"checkpoint-5/rng_state_1": "1", "log": "of the second"})
    both = {"checkpoint-5/model": "weights", "checkpoint-5/rng_state_0": "0", "checkpoint-5/rng_state_1": "1"}
    restore.restore(saved.objects, first, str(tmp_path / "a"), lambda: None, [second])
    assert contents(tmp_path / "a") == {**both, "log": "of the first"}
    found = restore.restore(saved.objects, second, str(tmp_path / "b"), lambda: None, [first])
    assert contents(tmp_path / "b") == {**both, "log": "of the second"}
    assert found.theirs == {"checkpoint-5/model", "checkpoint-5/rng_state_0"}


def test_a_file_and_a_folder_of_one_name_do_not_meet(tmp_path: Path, saved: Saved) -> None:
    first, second = saved.by(0, {"a": "file", "b/c": "inside"}), saved.by(1, {"a/x": "inside", "b": "file"})
    restore.restore(saved.objects, first, str(tmp_path / "at"), lambda: None, [second])
    assert contents(tmp_path / "at") == {"a": "file", "b/c": "inside"}


def test_damage_is_told_of_the_share_that_has_it(tmp_path: Path, saved: Saved) -> None:
    first, second = saved.by(0, {"a": "whole"}), saved.by(1, {"b": "damaged"})
    (part,) = (tmp_path / "storage/jobs/j/1/parts").glob("1.*")
    part.write_bytes(b"something else")
    with pytest.raises(Bad) as found:
        restore.restore(saved.objects, first, str(tmp_path / "at"), lambda: None, [second])
    assert found.value.key == second
    assert not (tmp_path / "at").exists()


def test_what_came_from_others_is_not_kept_again_until_the_task_changes_it(tmp_path: Path, saved: Saved) -> None:
    charge = a_task(tmp_path, saved, saved.by(1, {"own": "1"}), [saved.by(0, {"snapshot": "of the first"})])
    tree = look(charge.checkpoints)
    assert set(tree) == {"own", "snapshot"}
    assert set(charge.own(tree)) == {"own"}
    assert set(charge.knowledge.kept) == {"own"}
    assert not charge.begins_to_write(["snapshot"]), "it was read, or its folder was looked at"
    Path(charge.checkpoints, "snapshot").write_text("written by this one")
    assert set(charge.own(look(charge.checkpoints))) == {"own", "snapshot"}
    assert charge.begins_to_write(["snapshot"])


def test_a_task_that_has_saved_nothing_begins_with_what_the_first_saved_and_keeps_none_of_it(
    tmp_path: Path, saved: Saved
) -> None:
    usual = {"snapshot": 1}
    charge = a_task(tmp_path, saved, None, [saved.by(0, {"snapshot": "x"}, usual=usual, how="declared", unit="epoch")])
    assert contents(charge.checkpoints) == {"snapshot": "x"}
    assert charge.own(look(charge.checkpoints)) == {}
    assert not charge.knowledge.kept
    assert not charge.knowledge.rounds.usual, "how others save tells nothing of this one"
    assert not charge.knowledge.declares
    assert charge.knowledge.steps.unit == "epoch", "one job counts one thing"
    assert charge.knowledge.steps.last == 5


def test_folders_and_logs_make_nobody_one_of_those_who_save(tmp_path: Path, saved: Saved) -> None:
    charge = a_task(tmp_path, saved, None, [saved.by(0, {"snapshot": "x"})])
    os.makedirs(f"{charge.checkpoints}/runs")
    Path(charge.checkpoints, "rank1.log").write_text("hello")
    assert not charge.begins_to_write(["runs", "rank1.log"])
    assert charge.begins_to_write(["model.pt.tmp"])
    assert not charge.begins_to_write(["model.pt"]), "it is told once"


# --- one directory for several tasks ----------------------------------------------------------------------------------


def directory_of(place: Path, task: int) -> str:
    made = place / f"nodes/local-{task}/tasks/j-2-{task}"
    made.mkdir(parents=True, exist_ok=True)
    return str(made)


def a_workdir(place: Path, task: int) -> Workdir:
    (place / "project").mkdir(exist_ok=True)
    note = Note(str(place / "project"), turning_point_ns())
    occupants.enter(occupants.occupant(f"j/2/{task}", directory_of(place, task), note))
    return Workdir(f"j/2/{task}", directory_of(place, task), note)


def test_of_tasks_in_one_directory_the_first_keeps_what_all_of_them_write(tmp_path: Path) -> None:
    for task in (0, 1, 2):
        a_workdir(tmp_path, task)
    first, second = a_workdir(tmp_path, 0), a_workdir(tmp_path, 1)
    assert (first.kept_by_another, first.covers) == (False, [1, 2])
    assert (second.kept_by_another, second.covers, second.off) == (True, [], True)


def test_those_of_another_attempt_or_directory_are_no_peers(tmp_path: Path) -> None:
    a_workdir(tmp_path, 0)
    here = str(tmp_path / "project")
    for me in (
        Occupant("j", directory_of(tmp_path, 1), here, 0, (), 3, 1),
        Occupant("other", directory_of(tmp_path, 1), here, 0, (), 2, 1),
        Occupant("j", directory_of(tmp_path, 1), here + "2", 0, (), 2, 1),
    ):
        assert occupants.peers(me) == set()


def test_what_one_task_has_put_back_another_leaves_as_it_is(tmp_path: Path) -> None:
    """The first notes the files as they are: written once more they would look like a new checkpoint."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "snapshot.pt").write_text("left over")
    manifest = {"job": "j", "step": 5, "workdir": {"cwd": str(project), "since_ns": 1}}
    signatures = []
    for task in (1, 0):
        directory = directory_of(tmp_path, task)
        staged = Path(directory, "checkpoints", PREFIX, "snapshot.pt")
        staged.parent.mkdir(parents=True)
        staged.write_text("of step 5")
        os.utime(staged, ns=(5, 5))
        signatures.append(returned_files.put_back(f"j/2/{task}", directory, str(project), (), manifest))
    assert signatures[0] == signatures[1]
    assert (project / "snapshot.pt").read_text() == "of step 5"
    later = dict(manifest, step=4)  # That one was damaged: the attempt begins from the one before.
    staged.parent.mkdir(parents=True)
    staged.write_text("of step 4")
    returned_files.put_back("j/2/0", directory, str(project), (), later)
    assert (project / "snapshot.pt").read_text() == "of step 4"
