"""In place or bundled: who decides, and what of this machine stays behind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headway.client.code.passed_env import looks_secret
from headway.client.code.prepared_job import Packing, PreparedJob, Surroundings, prepare, take_packing, too_much
from headway.client.code.script import describe_job
from headway.core.errors import BadInput
from headway.core.spec.job import read_spec

PASSED = "WANDB_*, HF_*, http_proxy, GITHUB_TOKEN"
ENV = {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "/nowhere", "LANG": "C.UTF-8"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "headway.toml").touch()
    (root / "src/train.py").write_text("print(1)\n")
    return root


def prepared(
    project: Path,
    packing: Packing,
    *,
    when: str = "auto",
    shared: bool = False,
    more: Mapping[str, str] | None = None,
    **wishes: Any,
) -> PreparedJob:
    env = {**ENV, **(more or {})}
    raw = describe_job(["train.py", "--lr", "1"], wishes, env, str(project / "src"))
    made = prepare(raw, packing, Surroundings(when, shared, project.parent / "cache", env, PASSED))
    read_spec(made.raw)
    return made


@pytest.mark.parametrize(
    ("asked", "when", "shared", "bundled"),
    [
        (None, "auto", False, False),
        (None, "auto", True, True),
        (None, "always", False, True),
        (None, "never", True, False),
        (True, "never", False, True),
        (False, "always", True, False),
    ],
)
def test_who_decides(project: Path, asked: bool | None, when: str, shared: bool, bundled: bool) -> None:
    made = prepared(project, Packing(asked), when=when, shared=shared)
    assert (made.bundle is not None) == bundled
    assert ("workdir" in made.raw) != bundled
    assert ("bundle" in made.raw) == bundled


@pytest.mark.parametrize("asked", [None, True])
def test_a_plain_folder_is_bundled_like_any_other(project: Path, asked: bool | None) -> None:
    (project / "headway.toml").unlink()
    made = prepared(project, Packing(asked), shared=True)
    assert made.bundle is not None
    assert made.bundle.root == str(project / "src")
    assert "subdir" not in made.raw


def at_home(project: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], packing: Packing) -> PreparedJob:
    (project / "headway.toml").unlink()
    monkeypatch.setenv("HOME", str(project / "src"))
    raw = describe_job(words, {}, ENV, str(project / "src"), verbatim=True)
    return prepare(raw, packing, Surroundings("auto", True, project.parent / "cache", ENV))


def test_a_whole_home_is_not_sent_along_with_a_command_that_needs_no_file_of_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = at_home(project, monkeypatch, ["nvidia-smi"], Packing())
    assert made.bundle is None
    assert made.raw.keys() & {"workdir", "bundle"} == set()
    assert "is not sent: the job runs in an empty directory" in made.notes[0]
    read_spec(made.raw)


def test_a_folder_below_a_home_that_is_kept_in_git_is_bundled_by_itself(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    made = prepared(project, Packing(), shared=True)
    assert made.bundle is not None
    assert made.bundle.root == str(project / "src")


def test_a_script_in_a_whole_home_is_refused_unless_it_is_said_how_to_get_it_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=r'"train\.py" lies in .*, which is too much to send'):
        at_home(project, monkeypatch, ["python3", "train.py"], Packing())
    (project / "headway.toml").touch()
    assert at_home(project, monkeypatch, ["python3", "train.py"], Packing(True)).bundle is not None
    (project / "headway.toml").touch()
    assert at_home(project, monkeypatch, ["python3", "train.py"], Packing(False)).raw["workdir"] == str(project / "src")


@pytest.mark.parametrize(
    ("place", "expected"), [("/", True), ("/tmp", True), ("~", True), ("~/..", True), ("~/x", False)]
)
def test_what_nobody_means_to_send(place: str, expected: bool) -> None:
    assert too_much(os.path.normpath(os.path.expanduser(place))) is expected


def test_a_bundled_job_runs_in_the_same_directory_of_the_bundle(project: Path) -> None:
    made = prepared(project, Packing(True))
    assert made.bundle is not None
    assert (made.raw["bundle"], made.raw["subdir"]) == (made.bundle.digest, "src")
    assert made.raw["command"][1:] == ["train.py", "--lr", "1"]
    assert made.raw["env"] == ENV


def test_a_shared_server_gets_no_paths_of_this_machine(project: Path) -> None:
    made = prepared(project, Packing(), shared=True, env={"PATH": "/opt/bin"})
    assert made.raw["command"][0] == "python3"
    assert made.raw["env"] == {"PATH": "/opt/bin", "LANG": "C.UTF-8"}


def test_another_interpreter_than_the_callers_own_stays_as_it_was_typed(project: Path) -> None:
    described = {**prepared(project, Packing(False)).raw, "command": ["/opt/conda/bin/python", "train.py"]}
    made = prepare(described, Packing(), Surroundings("auto", True, project / "cache", ENV))
    assert made.raw["command"] == ["/opt/conda/bin/python", "train.py"]


def test_with_an_environment_the_interpreter_is_the_environments(project: Path) -> None:
    (project / "src/requirements.txt").write_text("numpy\n")
    in_place = prepared(project, Packing(environment="auto"))
    assert in_place.raw["command"][0] == "python"
    assert in_place.raw["environment"]["path"] == "requirements.txt"
    assert "VIRTUAL_ENV" not in in_place.raw["env"]
    assert prepared(project, Packing(True, environment="auto")).raw["environment"]["path"] == "src/requirements.txt"


def test_a_script_that_is_left_out_is_refused(project: Path) -> None:
    (project / ".gitignore").write_text("train.py\n")
    with pytest.raises(BadInput) as refused:
        prepared(project, Packing(True))
    assert 'src/train.py" is left out of the bundle' in refused.value.message
    assert "--no-bundle" in refused.value.hint


def test_an_environments_file_that_is_left_out_is_refused(project: Path) -> None:
    (project / "src/requirements.txt").write_text("numpy\n")
    (project / ".gitignore").write_text("requirements.txt\n")
    with pytest.raises(BadInput, match=r'"src/requirements\.txt" is left out of the bundle'):
        prepared(project, Packing(True, environment="auto"))


def test_a_digest_in_the_file_names_code_that_is_there_already(project: Path) -> None:
    wishes: dict[str, Any] = {"bundle": "a" * 64}
    assert take_packing(wishes) == Packing()
    made = prepared(project, Packing(), shared=True, **wishes)
    assert made.bundle is None
    assert made.raw["bundle"] == "a" * 64
    assert "workdir" not in made.raw


def test_a_truth_value_in_the_file_is_a_wish() -> None:
    wishes: dict[str, Any] = {"bundle": False, "environment": "auto", "allow_large": True}
    assert take_packing(wishes) == Packing(False, True, "auto")
    assert wishes == {}


MINE = {"WANDB_MODE": "offline", "WANDB_API_KEY": "k3y", "HF_HOME": "/home/ana/hf", "EDITOR": "vi", "HOME": "/home/ana"}


def test_variables_of_the_list_go_along_and_what_was_given_wins(project: Path) -> None:
    made = prepared(project, Packing(), more=MINE, env={"WANDB_MODE": "online"})
    expected = {"WANDB_API_KEY": "k3y", "HF_HOME": "/home/ana/hf", "WANDB_MODE": "online"}
    assert made.raw["env"] == {**ENV, **expected}
    (warning,) = made.notes
    assert warning.startswith("warning: WANDB_API_KEY is kept readable with the job")
    assert "--secret WANDB_API_KEY=wandb-api-key" in warning


def test_a_shared_server_gets_neither_my_paths_nor_what_looks_like_a_secret_unless_it_is_named(project: Path) -> None:
    made = prepared(project, Packing(), shared=True, more={**MINE, "GITHUB_TOKEN": "t"})
    assert made.raw["env"] == {"LANG": "C.UTF-8", "WANDB_MODE": "offline", "GITHUB_TOKEN": "t"}
    assert [note.split(" is ")[0] for note in made.notes] == ["warning: GITHUB_TOKEN", "warning: WANDB_API_KEY"]


def test_a_variable_that_is_a_secret_of_the_job_is_not_passed_besides(project: Path) -> None:
    made = prepared(project, Packing(), more=MINE, secrets={"WANDB_API_KEY": "wandb"})
    assert "WANDB_API_KEY" not in made.raw["env"]
    assert made.notes == ()


def test_all_variables_go_along_when_asked_but_none_of_the_terminal_or_the_node(project: Path) -> None:
    mine = {**MINE, "SHLVL": "2", "CUDA_VISIBLE_DEVICES": "3", "SLURM_JOB_ID": "7", "BASH_FUNC_x%%": "()", "RANK": "1"}
    assert take_packing({"env_all": True}) == Packing(env_all=True)
    made = prepared(project, Packing(env_all=True), more=mine)
    assert made.raw["env"] == {**ENV, **MINE}
    shared = prepared(project, Packing(env_all=True), shared=True, more=mine)
    assert shared.raw["env"] == {
        "LANG": "C.UTF-8", "EDITOR": "vi", "WANDB_MODE": "offline", "WANDB_API_KEY": "k3y",
    }  # fmt: skip
    assert shared.notes[0].startswith("warning: WANDB_API_KEY is kept readable")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HF_TOKEN", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("MYPASSWORD", "x", False),
        ("DB_PASSWORD", "x", True),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("HF_TOKEN_PATH", "/x", False),
        ("http_proxy", "http://proxy:3128", False),
        ("http_proxy", "http://ana:pw@proxy:3128", True),
        ("WANDB_API_KEY", "", False),
        ("KEYBOARD", "us", False),
    ],
)
def test_what_looks_like_a_secret(name: str, value: str, expected: bool) -> None:
    assert looks_secret(name, value) is expected
