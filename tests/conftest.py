"""What every test gets: a home of its own, and nothing of the developer's environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine must not fail a property by its speed.
settings.register_profile("headway", deadline=None)
settings.load_profile("headway")


@pytest.fixture(autouse=True)
def headway_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private, empty HEADWAY_HOME, with every other HEADWAY_* variable unset (HEADWAY_TEST_* is kept)."""
    for name in list(os.environ):
        if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_TEST_"):
            monkeypatch.delenv(name)
    # Not tmp_path: the path of a Unix socket below it may have 107 bytes at most, and tmp_path takes most of them.
    home = Path(tempfile.mkdtemp(prefix="headway-"))
    monkeypatch.setenv("HEADWAY_HOME", str(home))
    yield home
    shutil.rmtree(home, ignore_errors=True)


# What cannot be had on the machines that check submissions; everything else must run there.
MAY_BE_SKIPPED = (
    "control groups v2",
    "git lists no pipes and sockets",
    "the place of the tests is itself a project",
    "HEADWAY_TEST_EXAMPLES_PYTHON",  # Lightning, Keras and transformers weigh gigabytes; stand-ins run instead.
    "has no address of its own",  # A folder, or the library's memory; buckets are tested over HTTP.
    "systemd-analyze is not installed",  # The unit files' other tests need no systemd.
    "is not on this machine",  # The public job logs; users do not have them.
)
skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if not any(allowed in reason for allowed in MAY_BE_SKIPPED):
            skipped.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where CI is set, a component that was not there is a failure."""
    if os.environ.get("CI") and skipped and not hasattr(session.config, "workerinput"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for each in skipped:
        terminalreporter.write_line(f"NOT TESTED HERE: {each}", red=True)
