"""The job file: YAML as people mean it, and flags that win over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.cli.frame.yaml import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("true", True),
        ("False", False),
        ("1e-5", 1e-5),
        ("1.5E3", 1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("12", 12),
        ("-3", -3),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-11-15", "2026-11-15"),
        ("~", None),
        ("null", None),
        ("", None),
        ("'12'", "12"),
        ("=", "="),
        ("e5", "e5"),
        ("-", [None]),
        ("{a: &x {b: 1}, c: {<<: *x, d: 2}}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, value: Any) -> None:
    assert parse(text, "x") == value
    assert type(parse(text, "x")) is type(value)


def dry(headway: Callable, *words: str) -> dict[str, Any]:
    said = headway("run", "--dry-run", *words)
    assert (said.code, said.err) == (0, "")
    return dict(parse(said.out, "a dry run"))


def test_flags_win_over_set_and_set_over_the_file(headway: Callable, place: Path) -> None:
    (place / "job.yaml").write_text(
        "command: [python, train.py]\nname: of-file\nretries: 1\npriority: 1\n"
        "resources: {cpus: 2, gpus: 1}\nenv: {A: of-file, B: of-file}\ntags: {t: '1'}\n"
    )
    job = dry(
        headway, "-f", "job.yaml", "--set", "retries=2", "--set", "priority=2", "--set", "resources.memory=1G",
        "--priority", "3", "--gpus", "4", "--env", "B=of-flag", "--tag", "u=2",
    )  # fmt: skip
    assert (job["name"], job["retries"], job["priority"]) == ("of-file", 2, 3)
    assert job["resources"] == {"cpus": 2.0, "gpus": 4, "memory": 10**9}
    assert (job["env"]["A"], job["env"]["B"]) == ("of-file", "of-flag")
    assert job["tags"] == {"t": "1", "u": "2"}
    assert job["workdir"] == str(place)


def test_words_replace_the_command_of_the_file(headway: Callable, place: Path) -> None:
    (place / "job.yaml").write_text("command: [python, train.py]\n")
    assert dry(headway, "-f", "job.yaml", "--", "echo", "-n")["command"] == ["echo", "-n"]


def test_what_a_dry_run_prints_reads_back_as_the_same_job(headway: Callable, place: Path) -> None:
    words = ["--gpus", "1", "--max-duration", "6h", "--env", "A=yes", "train.py", "--lr", "1e-5", "no", "1:30", "0o7"]
    first = headway("run", "--dry-run", *words).out
    (place / "again.yaml").write_text(first)
    assert headway("run", "--dry-run", "-f", "again.yaml").out == first


def test_a_file_may_come_from_stdin(headway: Callable, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "job.yaml").write_text("command: ['true']\n")
    with (place / "job.yaml").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert dry(headway, "-f", "-")["command"] == ["true"]


def test_variables_come_from_flags_files_and_the_caller(
    headway: Callable, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "of the caller")
    monkeypatch.setenv("SECRET", "stays here")
    (place / "some.env").write_text("# a remark\n\nexport A=1\nB='two words'\nC=\"x=y\"\nD=\n")
    env = dry(headway, "--env-file", "some.env", "--env", "MINE", "--env", "A=2", "train.py")["env"]
    assert {name: env[name] for name in "ABCD"} == {"A": "2", "B": "two words", "C": "x=y", "D": ""}
    assert env["MINE"] == "of the caller"
    assert "SECRET" not in env


def test_everything_after_the_script_is_the_scripts(headway: Callable, place: Path) -> None:
    words = ["train.py", "--gpus", "9", "-n", "x", "--dry-run", "--json", "-h", "--nonsense", "--help"]
    job = dry(headway, "--gpus", "1", *words)
    assert job["command"][1:] == words
    assert job["resources"]["gpus"] == 1
