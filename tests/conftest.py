"""What every test gets: a home of its own, and nothing of the developer's environment."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import ending, flaky, order
from tests.leftovers import Guard
from tests.second_try import SecondTry

# A busy machine must not fail a property by its speed.
settings.register_profile("headway", deadline=None)
settings.load_profile("headway")

# A run in the background or under nohup ignores these, and whatever it starts would inherit that, where a signal that
# is handled is heard again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


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


# --- nothing is left ------------------------------------------------------------------------------------------------

guards: list[Guard] = []


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SecondTry(flaky.KNOWN))
    if not hasattr(config, "workerinput"):  # One for the whole run.
        guards.append(Guard())


def pytest_unconfigure() -> None:
    while guards:
        for line in guards.pop().end():
            print(f"LEFT RUNNING BY THE TESTS, and ended now: {line}")


# --- side by side ---------------------------------------------------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or 0)
    if workers > 1:
        order.sort(items, workers)


# --- what a failure was about ---------------------------------------------------------------------------------------

LOGS = ("server.log", "log", "agent.log", "agent.out", "keeper.log")
TAIL_CHARS = 3000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails shows the last words of the servers and agents that it had."""
    report: Any = yield
    if report.failed and report.when in ("setup", "call"):
        for path in _logs_of(item):
            try:
                report.sections.append((f"the end of {path}", path.read_text(errors="replace")[-TAIL_CHARS:]))
            except OSError:
                continue
    return report


def _logs_of(item: pytest.Item) -> list[Path]:
    places = [Path(os.environ.get("HEADWAY_HOME") or "/nowhere")]
    for value in getattr(item, "funcargs", {}).values():
        places += [place for name in ("home", "root") if isinstance(place := getattr(value, name, None), Path)]
    found = {path for place in places if place.is_dir() for name in LOGS for path in place.rglob(name)}
    return sorted(path for path in found if path.is_file() and "/storage/" not in str(path))[:20]


# --- what was skipped -----------------------------------------------------------------------------------------------

# What cannot be had on the machines that check submissions; everything else must run there.
MAY_BE_SKIPPED = (
    "control groups v2",  # A guest has them.
    "no control groups v1 with memory are mounted",  # The kernel has the controller in version 2, or none.
    "git lists no pipes and sockets",
    "the place of the tests is itself a project",
    "HEADWAY_TEST_EXAMPLES_PYTHON",  # Lightning, Keras and transformers weigh gigabytes; stand-ins run instead.
    "has no address of its own",  # A folder, or the library's memory; buckets are tested over HTTP.
    "systemd-analyze is not installed",  # The unit files' other tests need no systemd.
    "is not on this machine",  # The public job logs; users do not have them.
)
skipped: list[str] = []
NOT_ALL_TESTED = 7  # None of pytest's own codes.


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if not any(allowed in reason for allowed in MAY_BE_SKIPPED):
            skipped.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where CI is set, a component that was not there is a failure."""
    ending.end_all()
    if os.environ.get("CI") and skipped and not hasattr(session.config, "workerinput"):
        session.exitstatus = NOT_ALL_TESTED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for each in skipped:
        terminalreporter.write_line(f"NOT TESTED HERE: {each}", red=True)
