"""The reference pages are what the program says of itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.cli.reference import pages
from headway.cli.reference_job_file import keys
from headway.core.spec.job import WORDS
from headway.core.spec.job_schema import job_schema
from tests.core.spec.schema_check import problems

PLACE = Path(__file__).resolve().parents[2] / "docs/reference"


@pytest.mark.parametrize(
    "name", ["cli.md", "settings.md", "states.md", "causes.md", "protocol.md", "sdk.md", "job-file.md"]
)
def test_the_page_is_up_to_date(name: str) -> None:
    assert (PLACE / name).read_text() == pages()[name], "run `make docs`"


def test_the_complete_job_file_has_every_key_and_is_valid(tmp_path: Path) -> None:
    page = (PLACE / "job-file.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "job.yaml").write_text(text)
    (tmp_path / "requirements.txt").touch()
    said = yaml.safe_load(text)
    assert not list(problems(said, job_schema()))
    assert set(said) == set(WORDS.all)
    command = [sys.executable, "-m", "headway.cli.main", "validate", "job.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "job.yaml: a valid job: train"), done.stderr
    missing = [key for key, _ in keys(job_schema()) if not has(said, re.split(r"\.|\[\]\.?", key))]
    assert missing == [], "keys inside others that the sample of the file does not show"


def has(said: Any, path: list[str]) -> bool:
    """Whether it is said there, or something else than keys stands in its place."""
    if isinstance(said, list):
        return any(has(each, path) for each in said)
    if not path or not isinstance(said, dict):
        return True
    if path[0] == "NAME":
        return any(has(each, path[1:]) for each in said.values())
    return path[0] in said and has(said[path[0]], path[1:])
