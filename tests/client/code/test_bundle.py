"""A project becomes a bundle: which files, named how, what is refused, and that only what is unknown travels."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from headway.client.code import bundle, ignored_files
from headway.client.sdk import Client
from headway.core.errors import BadInput
from tests.client.fake_server import FakeServer


def git(place: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *who, *words], cwd=place, check=True, capture_output=True, text=True, env=env
    ).stdout.strip()


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_py", ".py").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with ignore rules at two levels."""
    root = tmp_path / "project"
    write(root, train_py="print(1)\n", src__model_py="x = 1\n", src__deep__big_txt="big\n", data__raw_txt="raw\n")
    write(root, notes_txt="notes\n", src__notes_txt="inner notes\n", build__a__b_txt="b\n")
    (root / ".gitignore").write_text("data/\n/notes.txt\nbuild/*\n!build/a/\n")
    (root / "src/.gitignore").write_text("big.txt\n")
    return root


def paths(found: bundle.ReadBundle) -> list[str]:
    return [entry["path"] for entry in found.files]


EXPECTED = [".gitignore", "build/a/b.txt", "src/.gitignore", "src/model.py", "src/notes.txt", "train.py"]


def test_git_and_our_own_walk_list_the_same(project: Path, tmp_path: Path) -> None:
    assert paths(bundle.read(str(project), tmp_path / "cache")) == EXPECTED
    git(project, "init", "-q")
    assert paths(bundle.read(str(project), tmp_path / "cache")) == EXPECTED


def test_tracked_files_stay_though_a_rule_names_them_and_removed_ones_go(project: Path, tmp_path: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", "-f", "data/raw.txt", "train.py")
    (project / "train.py").unlink()
    found = paths(bundle.read(str(project), tmp_path / "cache"))
    assert "data/raw.txt" in found
    assert "train.py" not in found


@pytest.mark.parametrize("in_git", [True, False])
def test_headwayignore_leaves_out_more(project: Path, tmp_path: Path, in_git: bool) -> None:
    if in_git:
        git(project, "init", "-q")
    (project / ".headwayignore").write_text("build/\n*.txt\n")
    (project / "src/.headwayignore").write_text("!notes.txt\n")
    found = paths(bundle.read(str(project), tmp_path / "cache"))
    assert "src/notes.txt" in found
    assert not [path for path in found if path.startswith("build/")]


def test_environments_and_caches_are_never_taken_without_git(project: Path, tmp_path: Path) -> None:
    write(project, __pycache____x_py="", env__pyvenv="", env__lib_txt="")
    (project / "env/pyvenv.cfg").write_text("")
    (project / ".venv").mkdir()
    (project / ".venv/x").write_text("")
    assert paths(bundle.read(str(project), tmp_path / "cache")) == EXPECTED


def test_a_repository_inside_a_repository_is_entered(project: Path, tmp_path: Path) -> None:
    git(project, "init", "-q")
    (project / "lib").mkdir()
    (project / "lib/l.py").write_text("")
    git(project / "lib", "init", "-q")
    assert "lib/l.py" in paths(bundle.read(str(project), tmp_path / "cache"))


def test_the_digest_is_that_of_the_contract(project: Path, tmp_path: Path) -> None:
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o775)
    (project / "link").symlink_to("src/model.py")
    found = bundle.read(str(project), tmp_path / "cache")
    entries = {entry["path"]: entry for entry in found.files}
    assert entries["run.sh"]["mode"] == 0o755
    assert entries["link"] == {"path": "link", "link": "src/model.py", "mode": 0o777}
    content = (project / "train.py").read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    assert entries["train.py"] == {"path": "train.py", "sha256": sha256, "size": len(content), "mode": 0o644}
    canonical = json.dumps(list(found.files), sort_keys=True, separators=(",", ":"))
    assert found.digest == hashlib.sha256(canonical.encode()).hexdigest()
    assert str(found).startswith(f"bundle {found.digest[:8]}… (8 files, ")


def test_the_umask_and_the_place_do_not_change_the_digest(project: Path, tmp_path: Path) -> None:
    first = bundle.read(str(project), tmp_path / "cache").digest
    (project / "train.py").chmod(0o600)
    project.rename(tmp_path / "elsewhere")
    assert bundle.read(str(tmp_path / "elsewhere"), tmp_path / "cache").digest == first


def test_commit_branch_and_changes_are_recorded(project: Path, tmp_path: Path) -> None:
    git(project, "init", "-q")
    assert bundle.read(str(project), tmp_path / "cache").git is None
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    git(project, "checkout", "-qb", "wide-net")
    (project / "train.py").write_text("print(2)\n")
    facts = bundle.read(str(project), tmp_path / "cache").git
    assert facts is not None
    assert (facts.commit, facts.branch) == (git(project, "rev-parse", "HEAD"), "wide-net")
    assert "+print(2)" in facts.dirty_diff


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("out", lambda path: path.symlink_to("/etc/passwd"), '"out" is a link that leaves the project: /etc/passwd'),
        ("up", lambda path: path.symlink_to("../x"), '"up" is a link that leaves the project: ../x'),
        ("pipe", os.mkfifo, '"pipe" is a named pipe'),
        ("s", make_socket, '"s" is a socket'),
        ("a\nb.py", lambda path: path.write_text(""), r"'a\nb.py': a name with a line break"),
        (os.fsdecode(b"\xff.py"), lambda path: path.write_text(""), r"b'\xff.py': the name is not UTF-8"),
    ],
)
@pytest.mark.parametrize("in_git", [True, False])
def test_what_must_not_travel_is_refused_by_its_path(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: object, message: str, in_git: bool
) -> None:
    monkeypatch.chdir(project)
    if in_git:
        git(project, "init", "-q")
    make(project / name)  # type: ignore[operator]
    with pytest.raises(BadInput) as refused:
        bundle.read(str(project), tmp_path / "cache")
    assert message in refused.value.message
    assert ".headwayignore" in refused.value.hint


def test_a_pipe_that_git_ignores_is_left_out(project: Path, tmp_path: Path) -> None:
    git(project, "init", "-q")
    os.mkfifo(project / "pipe")
    os.mkfifo(project / "other")
    (project / ".gitignore").write_text("pipe\n")
    (project / ".headwayignore").write_text("other\n")
    paths = {entry["path"] for entry in bundle.read(str(project), tmp_path / "cache").files}
    assert "train.py" in paths
    assert not {"pipe", "other"} & paths


def test_a_link_that_leaves_the_tree_through_another_is_refused(project: Path, tmp_path: Path) -> None:
    (project / "src/top").symlink_to("..")
    (project / "sly").symlink_to("src/top/../x")
    with pytest.raises(BadInput, match='"sly" is a link that leaves'):
        bundle.read(str(project), tmp_path / "cache")


def test_a_link_with_an_absolute_path_into_the_tree_becomes_a_relative_one(project: Path, tmp_path: Path) -> None:
    (project / "src/l").symlink_to(project / "train.py")
    found = bundle.read(str(project), tmp_path / "cache")
    assert next(entry for entry in found.files if entry["path"] == "src/l")["link"] == "../train.py"


def test_more_than_two_gigabytes_are_refused_before_they_are_read(project: Path, tmp_path: Path) -> None:
    with open(project / "huge.bin", "wb") as huge:
        huge.truncate(2 * 10**9 + 1)
    began = time.process_time()
    with pytest.raises(BadInput) as refused:
        bundle.read(str(project), tmp_path / "cache")
    assert time.process_time() - began < 1
    assert 'the largest is "huge.bin"' in refused.value.message
    assert "--allow-large" in refused.value.hint


def test_a_changed_file_of_the_same_size_is_read_again(project: Path, tmp_path: Path) -> None:
    first = bundle.read(str(project), tmp_path / "cache")
    old = time.time() - 100
    (project / "train.py").write_text("print(2)\n")
    os.utime(project / "train.py", (old, old))
    assert bundle.read(str(project), tmp_path / "cache").digest != first.digest


def test_a_hidden_change_just_after_the_first_look_is_seen(project: Path, tmp_path: Path) -> None:
    """A file that was written a moment ago is not remembered: a second write may leave no trace in its times."""
    found = os.stat(project / "train.py")
    first = bundle.read(str(project), tmp_path / "cache")
    with open(project / "train.py", "r+") as file:
        file.write("print(3)\n")
    os.utime(project / "train.py", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert bundle.read(str(project), tmp_path / "cache").digest != first.digest


def test_only_what_is_unknown_travels_over_one_connection(
    project: Path, tmp_path: Path, fake: FakeServer, client: Client
) -> None:
    (project / "large.bin").write_bytes(os.urandom(bundle.IN_MEMORY_BYTES + 1))
    (project / "copy.py").write_text((project / "train.py").read_text())
    found = bundle.read(str(project), tmp_path / "cache")
    large = next(entry["sha256"] for entry in found.files if entry["path"] == "large.bin")
    sent = client.send_bundle(found)
    assert sent.files_sent == len({entry["sha256"] for entry in found.files})
    assert fake.bundles[found.digest]["files"] == list(found.files)
    assert fake.asked[0] == "POST /bundles/missing"
    assert sorted(set(fake.asked[1:-1])) == ["PUT /bundles/files", f"PUT /bundles/files/{large}"]
    assert fake.asked[-1] == f"PUT /bundles/{found.digest}"
    fake.asked.clear()
    assert client.send_bundle(found).files_sent == 0
    (project / "train.py").write_text("print(2)\n")
    again = client.send_bundle(bundle.read(str(project), tmp_path / "cache"))
    assert (again.files_sent, again.bytes_sent) == (1, 9)


def test_an_upload_survives_a_lost_connection(project: Path, tmp_path: Path, fake: FakeServer, client: Client) -> None:
    found = bundle.read(str(project), tmp_path / "cache")
    fake.faults = [None, "drop-after", "drop-before", 503]
    client.send_bundle(found)
    assert found.digest in fake.bundles


def test_a_file_that_changes_between_look_and_upload_is_refused(
    project: Path, tmp_path: Path, fake: FakeServer, client: Client
) -> None:
    found = bundle.read(str(project), tmp_path / "cache")
    (project / "train.py").write_text("print(4)\n")
    with pytest.raises(BadInput, match="changed while it was bundled"):
        client.send_bundle(found)
    assert not fake.bundles


def test_ten_thousand_known_files_take_a_moment(tmp_path: Path, fake: FakeServer, client: Client) -> None:
    root = tmp_path / "project"
    old = time.time() - 1000
    for folder in range(100):
        (root / f"d{folder}").mkdir(parents=True)
        for number in range(100):
            path = root / f"d{folder}/f{number}.py"
            path.write_text(f"{folder} {number}\n")
            os.utime(path, (old, old))
    git(root, "init", "-q")
    # The change time cannot be set back: let the first look happen "later".
    found = bundle.read(str(root), tmp_path / "cache")
    fake.files = {entry["sha256"]: b"" for entry in found.files}
    cache = next((tmp_path / "cache").iterdir())
    kept = {entry["path"]: [*facts(root / entry["path"]), entry["sha256"]] for entry in found.files}
    cache.write_text(json.dumps(kept))
    began = time.process_time()
    again = bundle.read(str(root), tmp_path / "cache")
    client.send_bundle(again)
    assert again == found
    assert time.process_time() - began < 3


def facts(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def test_the_root_of_a_project_is_gits_top_or_the_nearest_mark(tmp_path: Path) -> None:
    inner = tmp_path / "a/b/c"
    inner.mkdir(parents=True)
    if ignored_files.project_root(str(tmp_path)) is not None:
        pytest.skip("the place of the tests is itself a project")
    assert ignored_files.project_root(str(inner)) is None
    (tmp_path / "a/b/headway.toml").touch()
    assert ignored_files.project_root(str(inner)) == str(tmp_path / "a/b")
    (tmp_path / "a/b/c/pyproject.toml").touch()
    assert ignored_files.project_root(str(inner)) == str(inner)
    git(tmp_path / "a", "init", "-q")
    assert ignored_files.project_root(str(inner)) == str(tmp_path / "a")
