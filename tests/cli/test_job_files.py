"""Job files: several documents that wait for each other by name, and what stays as it was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headway.cli.frame.yaml import dump, parse, read_documents
from headway.cli.job_flags.job_files import read_jobs


def test_numbers_of_a_command_and_of_the_environment_are_kept_as_written(place: Path) -> None:
    (place / "job.yaml").write_text("command: [echo, 0.10, 1e-5, 007, true]\nenv: {V: 1.10}\nretries: 1\n")
    (document,) = read_documents("job.yaml")
    assert document.raw == {"command": ["echo", "0.10", "1e-5", "007", "true"], "env": {"V": "1.10"}, "retries": 1}


def test_a_script_is_shown_as_a_block_that_reads_back() -> None:
    script = "set -e\necho 'a: b'\n\n  indented\n"
    assert dump({"command": script}).startswith("command: |\n  set -e\n")
    assert parse(dump({"command": script}), "x") == {"command": script}


def test_every_key_of_every_document_has_its_line(place: Path) -> None:
    (place / "job.yaml").write_text("# first\nname: a\n---\n\nname: b\nafter:\n  - a\n  - job: c\n---\n")
    one, other = read_documents("job.yaml")
    assert (one.line, one.where("name"), one.where("nothing")) == (2, "job.yaml, line 2", "job.yaml, line 2")
    assert other.where("after.1") == "job.yaml, line 8"
    assert other.where("after.1.job.deeper") == "job.yaml, line 8"


def test_jobs_of_a_file_wait_for_each_other_by_name(place: Path) -> None:
    (place / "job.yaml").write_text(
        "command: python eval.py\nafter: [train, elsewhere]\n---\ncommand: [train.py]\nafter: prep\n---\n"
        "name: prep\ncommand: x\n"
    )
    jobs = read_jobs("job.yaml")
    assert [job.spec.name for job in jobs] == ["eval", "train", "prep"]
    assert [job.waits_for for job in jobs] == [(1,), (2,), ()]
    assert jobs[0].elsewhere == ("elsewhere",)


def test_flags_win_in_each_job_of_a_file_but_none_that_is_of_one(headway: Callable, place: Path) -> None:
    (place / "job.yaml").write_text("name: a\ncommand: [x]\n---\nname: b\ncommand: [y]\nafter: a\nretries: 1\n")
    said = headway("run", "--dry-run", "-f", "job.yaml", "--max-retries", "3", "--set", "priority=7", "-o", "json")
    assert [(job["name"], job["retries"], job["priority"]) for job in said.json["jobs"]] == [("a", 3, 7), ("b", 3, 7)]
    for words in (["--name", "x"], ["--after", "x"], ["--", "echo"]):
        said = headway("run", "--dry-run", "-f", "job.yaml", *words)
        assert said.code == 2
        assert "describes 2 jobs" in said.err


def test_a_command_that_takes_one_job_says_so(headway: Callable, place: Path) -> None:
    (place / "job.yaml").write_text("name: a\ncommand: [x]\n---\nname: b\ncommand: [y]\n")
    said = headway("plan", "-f", "job.yaml")
    assert said.code == 2
    assert "job.yaml describes 2 jobs; headway plan takes one" in said.err
