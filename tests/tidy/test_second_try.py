"""What fails fails the run: only a test of the short list is tried again, and that is said."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import flaky
from tests.leftovers import ROOT

CONFTEST = """
import pytest
from tests.flaky import Flaky
from tests.second_try import SecondTry

def pytest_configure(config):
    known = [Flaky(f"test_it.py::{name}", "the moon", "2026-11-18") for name in ("test_listed", "test_broken")]
    config.pluginmanager.register(SecondTry(known))
"""
# A test passes when the file of its name is there, and leaves one.
TESTS = """
import os
from pathlib import Path
import pytest

@pytest.fixture
def there(request):
    mark = Path(os.environ["MARKS"], request.node.name)
    yield mark.exists()
    mark.touch()

def test_listed(there):
    assert there, "the first look"

def test_unlisted(there):
    assert there

def test_broken(there):
    assert not "broken"
"""


def a_run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (place / "conftest.py").write_text(CONFTEST)
    (place / "test_it.py").write_text(TESTS)
    (place / "pytest.ini").write_text("[pytest]\n")
    marks = place / "marks"
    marks.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(ROOT), "MARKS": str(marks), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "no:cacheprovider", *words, "test_it.py"]
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("crowd", [[], ["-n", "2"]], ids=["alone", "side by side"])
def test_only_a_listed_test_gets_a_second_try_and_the_summary_says_so(tmp_path: Path, crowd: list[str]) -> None:
    done = a_run(tmp_path, *crowd)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"2 failed, 1 passed", done.stdout), done.stdout
    assert "KNOWN TO BE FLAKY, passed on the second try: test_it.py::test_listed (the moon)" in done.stdout
    assert "the first look" in done.stdout
    assert set(re.findall(r"^FAILED test_it.py::(\w+)", done.stdout, re.M)) == {"test_unlisted", "test_broken"}


def test_a_run_in_which_only_listed_tests_failed_once_is_good(tmp_path: Path) -> None:
    done = a_run(tmp_path, "-k", "listed and not unlisted")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "KNOWN TO BE FLAKY" in done.stdout


def test_the_list_is_short_and_each_entry_names_a_test_and_says_why_and_since_when() -> None:
    assert len(flaky.KNOWN) <= flaky.KNOWN_MAX
    assert len({each.test for each in flaky.KNOWN}) == len(flaky.KNOWN)
    for each in flaky.KNOWN:
        assert len(each.reason.split()) >= 5, (
            f"{each.test}: what goes wrong, and why is that no failure of the product?"
        )
        assert datetime.date.fromisoformat(each.since)
    if flaky.KNOWN:
        words = [sys.executable, "-m", "pytest", "-q", "--collect-only", *(each.test for each in flaky.KNOWN)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"a test that is not there\n{done.stdout}{done.stderr}"
