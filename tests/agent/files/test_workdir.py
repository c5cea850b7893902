"""What is kept of a working directory, and how it is put back there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway_agent.checkpoints import frameworks
from headway_agent.checkpoints.roots import PREFIX
from headway_agent.files import occupants, returned_files, workdir, workdir_notes
from headway_agent.files.inotify import CLOSED, FOUND, MADE, MOVED, SeenFile, Watcher
from headway_agent.files.workdir import Workdir
from headway_agent.files.workdir_notes import Note


def tick() -> int:
    return workdir_notes.turning_point_ns()


def write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


class Place:
    """A task's directory at a node, and a folder in which it works."""

    def __init__(self, top: Path) -> None:
        self.top, self.cwd = top, top / "project"
        self.cwd.mkdir()

    def directory(self, key: str) -> str:
        made = self.top / "nodes/local-1/tasks" / key.replace("/", "-")
        (made / "checkpoints").mkdir(parents=True, exist_ok=True)
        (made / "work").mkdir(exist_ok=True)
        return str(made)

    def workdir(
        self, key: str = "job1/1/0", cwd: Path | None = None, dirs: Sequence[str] = (), since_ns: int | None = None
    ) -> Workdir:
        note = Note(str(cwd or self.cwd), tick() if since_ns is None else since_ns, list(dirs))
        made = Workdir(key, self.directory(key), note)
        made.enter()
        return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def kept(found: Workdir) -> list[str]:
    return sorted(path[len(PREFIX) :] for path in found.tree([]))


def test_what_was_there_before_the_job_began_is_not_its_checkpoint(place: Place) -> None:
    write(place.cwd / "pretrained.pt")
    found = place.workdir()
    write(place.cwd / "snapshot.pt")
    write(place.cwd / "train.log")
    found.scan()
    assert kept(found) == ["snapshot.pt"]
    assert found.said == "snapshot.pt, found as PyTorch"
    assert found.source(PREFIX + "snapshot.pt") == str(place.cwd / "snapshot.pt")


def test_a_file_copied_with_its_old_times_counts_as_written(place: Place) -> None:
    found = place.workdir()
    write(place.cwd / "snapshot.pt")
    os.utime(place.cwd / "snapshot.pt", ns=(1, 1))
    found.scan()
    assert kept(found) == ["snapshot.pt"]


def test_a_folder_of_checkpoints_is_kept_with_all_that_is_in_it(place: Place) -> None:
    found = place.workdir()
    for name in ("trainer_state.json", "model.safetensors", "extra/anything.xyz"):
        write(place.cwd / "outputs/checkpoint-500" / name)
    write(place.cwd / "outputs/runs/events.out.tfevents.1")
    found.scan()
    inside = ["extra/anything.xyz", "model.safetensors", "trainer_state.json"]
    assert kept(found) == [f"outputs/checkpoint-500/{name}" for name in inside]
    write(place.cwd / "outputs/checkpoint-1000/model.safetensors")
    assert "outputs/checkpoint-1000/model.safetensors" in kept(found), "without another scan"


def test_what_was_asked_for_is_kept_whatever_it_is(place: Place) -> None:
    write(place.cwd / "outputs/of-yesterday.txt")
    found = place.workdir(dirs=["outputs"])
    write(place.cwd / "outputs/a/notes.txt")
    write(place.cwd / "snapshot.pt")
    found.scan()
    assert kept(found) == ["outputs/a/notes.txt"]
    assert found.said == "outputs (asked for)"


def test_a_directory_that_was_asked_for_may_be_a_link(place: Place, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (place.cwd / "outputs").symlink_to(tmp_path / "scratch")
    found = place.workdir(dirs=["outputs"])
    write(place.cwd / "outputs/model.pt")
    found.scan()
    assert kept(found) == ["outputs/model.pt"]


def test_some_folders_are_not_looked_into(place: Place) -> None:
    found = place.workdir()
    write(place.cwd / "env/pyvenv.cfg")
    for folder in (".git", "env/lib", "wandb", "data/cifar"):
        write(place.cwd / folder / "model.pt")
    found.scan()
    assert kept(found) == []


def test_in_a_home_only_folders_that_changed_are_followed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.cwd))
    write(place.cwd / "old/deep/x.txt")
    found = place.workdir()
    write(place.cwd / "old/deep/model.pt")
    write(place.cwd / "outputs/checkpoint-5/model.safetensors")
    found.scan()
    assert kept(found) == ["outputs/checkpoint-5/model.safetensors"]


def test_a_folder_too_large_to_look_through_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "DIRECTORIES_MAX", 3)
    for number in range(5):
        write(place.cwd / f"{number}/x.txt")
    found = place.workdir()
    found.scan()
    assert found.unwatched
    assert "checkpoint: {dir: …}" in found.trouble


def test_what_is_heard_of_later_is_found_too(place: Place) -> None:
    found = place.workdir()
    found.scan()
    assert not found.heard(PREFIX + "readme.md")
    write(place.cwd / "out/ckpt.pt")
    assert found.heard(PREFIX + "out/ckpt.pt")
    assert kept(found) == ["out/ckpt.pt"]


def test_an_agent_that_starts_anew_knows_what_was_found(place: Place) -> None:
    first = place.workdir()
    write(place.cwd / "snapshot.pt")
    first.scan()
    note = workdir_notes.read(first.directory)
    assert note is not None
    again = Workdir(first.key, first.directory, note)
    assert kept(again) == ["snapshot.pt"]


# --- several jobs in one folder ---


def test_while_two_jobs_share_a_folder_nothing_new_is_kept_and_that_is_said(place: Place) -> None:
    one = place.workdir("job1/1/0")
    write(place.cwd / "snapshot.pt")
    one.scan()
    assert kept(one) == ["snapshot.pt"]
    two = place.workdir("job2/1/0")
    write(place.cwd / "snapshot.pt", b"whose?")
    two.scan()
    assert (kept(one), kept(two)) == ([], [])
    two.heard(PREFIX + "snapshot.pt")
    assert "job job2 runs there too" in one.trouble
    os.rename(two.directory, two.directory + "-gone")
    assert kept(one) == [], "nobody knows who wrote it"
    tick()
    write(place.cwd / "snapshot.pt", b"mine")
    assert kept(one) == ["snapshot.pt"]
    assert one.trouble == ""


def test_two_jobs_that_save_in_different_directories_share_a_folder(place: Place) -> None:
    one, two = place.workdir("job1/1/0", dirs=["out/1"]), place.workdir("job2/1/0", dirs=["out/2"])
    write(place.cwd / "out/1/a.pt")
    write(place.cwd / "out/2/a.pt")
    assert (kept(one), kept(two)) == (["out/1/a.pt"], ["out/2/a.pt"])


def test_tasks_of_one_job_share_a_folder(place: Place) -> None:
    one, two = place.workdir("job1/1/0"), place.workdir("job1/1/1")
    write(place.cwd / "snapshot.pt")
    one.scan()
    two.scan()
    assert kept(one) == kept(two) == ["snapshot.pt"]


def test_folders_of_tasks_themselves_are_shared_by_nobody(place: Place) -> None:
    made = Path(place.directory("job1/1/0")) / "work"
    found = place.workdir("job1/1/0", cwd=made)
    assert not found.in_place
    write(made / "snapshot.pt")
    found.scan()
    assert kept(found) == ["snapshot.pt"]


# --- watching ---


def test_a_folder_that_two_tasks_watch_tells_both_and_outlives_one_of_them(tmp_path: Path) -> None:
    watcher = Watcher()
    for task in ("job1/1/0", "job2/1/0"):
        assert watcher.watch_one(task, "workdir", str(tmp_path), "")
    write(tmp_path / "a.pt")
    seen = {(each.task, each.what, each.path) for each in watcher.read()}
    assert {("job1/1/0", CLOSED, PREFIX + "a.pt"), ("job2/1/0", CLOSED, PREFIX + "a.pt")} <= seen
    watcher.drop("job2/1/0")
    write(tmp_path / "b.pt")
    assert {each.task for each in watcher.read()} == {"job1/1/0"}


def test_new_folders_are_watched_except_those_that_are_skipped(tmp_path: Path) -> None:
    watcher = Watcher()
    watcher.watch_one("job1/1/0", "workdir", str(tmp_path), "")
    write(tmp_path / "outputs/a.pt")
    write(tmp_path / ".git/a.pt")
    assert SeenFile("job1/1/0", "workdir", FOUND, PREFIX + "outputs/a.pt") in watcher.read()
    write(tmp_path / "outputs/b.pt")
    write(tmp_path / ".git/b.pt")
    assert {each.path for each in watcher.read()} == {PREFIX + "outputs/b.pt"}


def test_to_make_a_folder_is_not_to_write_a_file(tmp_path: Path) -> None:
    watcher = Watcher()
    watcher.watch("job1/1/0", "checkpoints", str(tmp_path))
    (tmp_path / "step-5").mkdir()
    # Else the pause between the first two files in it would be longer than the one before them, and part them.
    assert watcher.read() == [SeenFile("job1/1/0", "checkpoints", MADE, "step-5")]


def test_a_folder_that_is_renamed_tells_of_its_files(tmp_path: Path) -> None:
    watcher = Watcher()
    watcher.watch_one("job1/1/0", "workdir", str(tmp_path), "")
    write(tmp_path / ".draft/model.pt")
    os.rename(tmp_path / ".draft", tmp_path / "checkpoint-5")
    assert SeenFile("job1/1/0", "workdir", MOVED, PREFIX + "checkpoint-5/model.pt") in watcher.read()


# --- putting back ---


def restored(place: Place, key: str, files: dict[str, bytes]) -> str:
    """As the restore has left it below the checkpoint directory."""
    directory = place.directory(key)
    for path, content in files.items():
        write(Path(directory) / "checkpoints" / PREFIX.rstrip("/") / path, content)
    return directory


def put_back(
    place: Place, key: str, files: dict[str, bytes], manifest: dict[str, Any], dirs: Sequence[str] = ()
) -> dict[str, Any]:
    directory = restored(place, key, files)
    return returned_files.put_back(key, directory, str(place.cwd), dirs, manifest)


def test_files_go_back_to_where_the_job_saved_them(place: Place) -> None:
    write(place.cwd / "snapshot.pt", b"torn")
    tree = put_back(place, "job1/2/0", {"snapshot.pt": b"good", "out/checkpoint-5/a.json": b"{}"}, {"job": "job9"})
    assert (place.cwd / "snapshot.pt").read_bytes() == b"good"
    assert (place.cwd / "out/checkpoint-5/a.json").read_bytes() == b"{}"
    assert set(tree) == {PREFIX + "snapshot.pt", PREFIX + "out/checkpoint-5/a.json"}
    assert not os.path.exists(place.directory("job1/2/0") + "/checkpoints/" + PREFIX)
    note = workdir_notes.read(place.directory("job1/2/0"))
    assert note is not None
    again = Workdir("job1/2/0", place.directory("job1/2/0"), note)
    assert again.tree([]) == tree, "what was restored is known, as it was restored"


def test_nothing_of_the_working_directory_means_nothing_to_do(place: Place) -> None:
    assert put_back(place, "job1/2/0", {}, {"job": "job1"}) == {}
    assert workdir_notes.read(place.directory("job1/2/0")) is None


def test_what_a_dead_attempt_left_half_written_is_moved_aside(place: Place) -> None:
    write(place.cwd / "outputs/checkpoint-9000/model.safetensors", b"of another job, long ago")
    origin = {"cwd": str(place.cwd), "since_ns": tick()}
    write(place.cwd / "outputs/checkpoint-500/model.safetensors", b"whole")
    write(place.cwd / "outputs/checkpoint-600/model.safetensors", b"torn")
    (place.cwd / "outputs/checkpoint-700").mkdir()
    write(place.cwd / "train.py", b"edited meanwhile")
    put_back(
        place, "job1/2/0", {"outputs/checkpoint-500/model.safetensors": b"whole"}, {"job": "job1", "workdir": origin}
    )
    assert sorted(os.listdir(place.cwd / "outputs")) == ["checkpoint-500", "checkpoint-9000"]
    aside = place.cwd / returned_files.ASIDE / "job1-before-attempt-2"
    assert (aside / "outputs/checkpoint-600/model.safetensors").read_bytes() == b"torn"
    assert (place.cwd / "train.py").exists()


def test_of_a_directory_that_was_asked_for_only_what_looks_like_a_checkpoint_is_moved(place: Place) -> None:
    origin = {"cwd": str(place.cwd), "since_ns": tick()}
    write(place.cwd / "train.py")
    write(place.cwd / "model-2.pt", b"torn")
    put_back(place, "job1/2/0", {"model-1.pt": b"whole"}, {"job": "job1", "workdir": origin}, dirs=["."])
    assert sorted(os.listdir(place.cwd)) == [returned_files.ASIDE, "model-1.pt", "train.py"]


def test_what_another_job_has_under_the_same_name_is_moved_aside(place: Place) -> None:
    write(place.cwd / "snapshot.pt", b"the result of job1")
    origin = {"cwd": str(place.cwd), "since_ns": 0}
    put_back(place, "job2/1/0", {"snapshot.pt": b"forked"}, {"job": "job1", "workdir": origin})
    aside = place.cwd / returned_files.ASIDE / "job2-before-attempt-1"
    assert (aside / "snapshot.pt").read_bytes() == b"the result of job1"
    assert (aside.parent / ".gitignore").read_text() == "*\n", "neither git nor a bundle takes it up"
    assert (place.cwd / "snapshot.pt").read_bytes() == b"forked"


def test_nothing_is_moved_where_another_job_works_too(place: Place) -> None:
    origin = {"cwd": str(place.cwd), "since_ns": tick()}
    place.workdir("job2/1/0")
    write(place.cwd / "model-2.pt", b"whose?")
    put_back(place, "job1/2/0", {"model-1.pt": b"whole"}, {"job": "job1", "workdir": origin})
    assert (place.cwd / "model-2.pt").exists()


def test_a_file_appears_whole_on_another_file_system_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def replace(source: str, target: str) -> None:
        if not source.endswith(returned_files.FRESH) and "workdir.json" not in source:
            raise OSError(18, "another file system")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    write(place.cwd / ("snapshot.pt" + returned_files.FRESH), b"half, of a restore that died")
    put_back(place, "job1/2/0", {"snapshot.pt": b"good"}, {"job": "job1"})
    assert (place.cwd / "snapshot.pt").read_bytes() == b"good"
    assert os.listdir(place.cwd) == ["snapshot.pt"]


def test_what_is_found_names_the_framework(place: Place) -> None:
    found = place.workdir()
    write(place.cwd / "outputs/checkpoint-500/trainer_state.json")
    found.scan()
    assert found.found == [frameworks.FoundHabit("outputs/checkpoint-*", "Hugging Face Trainer")]


def test_the_framework_is_named_once_one_of_its_own_files_is_there(place: Place) -> None:
    found = place.workdir()
    for name, said in (("weights.pkl", frameworks.FOLDERS), ("trainer_state.json", "Hugging Face Trainer")):
        write(place.cwd / "outputs/checkpoint-500" / name)
        assert found.heard(f"{PREFIX}outputs/checkpoint-500/{name}")
        assert found.said == f"outputs/checkpoint-*, found as {said}"


def test_with_the_last_task_in_a_directory_nothing_is_left_of_their_notes(place: Place) -> None:
    first, second = place.workdir("job1/1/0"), place.workdir("job2/1/0")
    with occupants.alone(first.me):
        occupants.note_restored(first.me, "job1/1 step 5", {})
    occupants.leave(first.me)
    assert [each.job for each in occupants.others(first.me)] == ["job2"]
    occupants.leave(second.me)
    assert os.listdir(place.top / "nodes") == ["local-1"]
