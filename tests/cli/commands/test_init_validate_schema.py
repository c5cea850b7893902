"""A job file that init writes validates, with its comments taken away too; validate names every line that is wrong."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.cli.frame.yaml import read_documents
from headway.core.spec.job import WORDS
from headway.core.spec.job_schema import job_schema


def uncommented(text: str) -> str:
    """As if somebody had removed the # before every key."""
    return re.sub(r"(?m)^#(?! )|^#(?=  )", "", text)


def test_what_init_writes_says_what_was_said_and_validates(headway: Callable, place: Path) -> None:
    said = headway("init", "--gpus", "1", "--max-duration", "6h", "--env", "A=1.10", "train.py", "--lr", "0.1")
    assert (said.code, said.out) == (0, "job.yaml, .headway/job.schema.json written\n")
    (document,) = read_documents("job.yaml")
    assert document.raw.pop("command").split()[1:] == ["train.py", "--lr", "0.1"]
    assert document.raw == {
        "name": "train", "resources": {"gpus": 1}, "max_duration": "6h", "env": {"A": "1.10"},
    }  # fmt: skip
    assert headway("validate", "job.yaml").out == "job.yaml: a valid job: train\n"
    first = (place / "job.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=.headway/job.schema.json"
    assert json.loads((place / ".headway/job.schema.json").read_text()) == job_schema()


def test_every_key_that_init_shows_is_valid_without_its_comment_sign(headway: Callable, place: Path) -> None:
    (place / "requirements.txt").write_text("numpy\n")
    assert headway("init", "--all", "train.py").code == 0
    (place / "job.yaml").write_text(uncommented((place / "job.yaml").read_text()))
    said = headway("validate", "job.yaml")
    assert (said.code, said.out) == (0, "job.yaml: a valid job: train\n")
    assert "line" in said.err
    assert '"prepare" is not in this file' in said.err
    (document,) = read_documents("job.yaml")
    assert set(document.raw) == set(WORDS.all)


def test_init_replaces_nothing_and_needs_a_script_where_nobody_can_be_asked(headway: Callable, place: Path) -> None:
    said = headway("init")
    assert said.code == 2
    assert "no script and no command" in said.err
    (place / "job.yaml").write_text("mine")
    said = headway("init", "train.py")
    assert (said.code, (place / "job.yaml").read_text()) == (2, "mine")
    assert "--force replaces it" in said.err
    assert headway("init", "--force", "--no-schema", "train.py").code == 0
    assert not (place / ".headway").exists()


@pytest.mark.parametrize("words", [["no.py"], ["--gpus", "-1", "train.py"], ["--set", "retires=1", "train.py"]])
def test_init_writes_nothing_that_would_be_refused(headway: Callable, place: Path, words: list[str]) -> None:
    assert headway("init", *words).code == 2
    assert not (place / "job.yaml").exists()


def test_init_prints_the_file_where_it_is_asked_to(headway: Callable, place: Path) -> None:
    said = headway("init", "-f", "-", "--", "echo", "two words")
    assert "command: echo 'two words'\n" in said.out
    assert not list(place.glob("*.yaml"))


def test_at_a_terminal_init_asks_and_asks_again_what_it_cannot_use(place: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "headway.cli.main", "init"],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "NO_COLOR": "1"}, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    answers = ["", "digits", "2", "many", "1", "16X", "16G", "6h", "", "results"]
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    told = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        told += piece
    assert process.wait(30) == 0
    os.close(ours)
    assert b"Script or command [train.py]:" in told
    assert b'"many" is not a number' in told
    assert b'has the unit "x"' in told
    (document,) = read_documents("job.yaml")
    assert document.raw["name"] == "digits"
    assert document.raw["resources"] == {"cpus": 2.0, "gpus": 1, "memory": "16G"}
    assert (document.raw["max_duration"], document.raw["retries"], document.raw["outputs"]) == ("6h", 0, ["results"])


def test_validate_names_all_that_is_wrong_in_all_files(headway: Callable, place: Path) -> None:
    (place / "a.yaml").write_text("command: [x]\n---\ncommand: [x]\nretires: 1\n---\nnodes: 0\ncommand: [x]\n")
    (place / "b.yaml").write_text("name: b\n")
    (place / "c.yaml").write_text("command: python no.py\nafter: elsewhere\n")
    said = headway("validate", "a.yaml", "b.yaml", "c.yaml", "d.yaml")
    assert said.code == 2
    assert said.out == "c.yaml: a valid job: no\n"
    assert 'a.yaml, line 4: job: unknown key "retires"' in said.err
    assert "a.yaml, line 6: nodes: 0 is outside" in said.err
    assert "b.yaml, line 1: job: no command" in said.err
    assert 'c.yaml, line 2: "elsewhere" is not in this file' in said.err
    assert 'c.yaml, line 1: there is no file "no.py"' in said.err
    assert 'no file "d.yaml"' in said.err
    said = headway("validate", "-o", "json", "a.yaml")
    assert [problem["message"] for problem in said.json["files"][0]["problems"]]


def test_the_schema_is_printed_for_editors(headway: Callable) -> None:
    assert json.loads(headway("schema").out) == job_schema()
    assert headway("schema", "-o", "json").json == job_schema()
