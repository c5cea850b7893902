"""A second try for the tests of flaky.py, and for no other; what failed first is shown in the run's summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.flaky import Flaky

FIRST_TRY = "known to be flaky, failed on the first try"


class SecondTry:
    """The plugin: it runs where the test does, and counts where the summary is written (under xdist, two processes)."""

    def __init__(self, known: Iterable[Flaky]) -> None:
        self._reasons = {each.test: each.reason for each in known}
        self._passed: dict[str, str] = {}

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.nodeid not in self._reasons:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        first = next((each for each in reports if each.failed), None)
        if first is not None:
            anew: Any = item
            anew._initrequest()  # The fixtures of the first try are torn down; the second has its own.
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            for report in reports:
                report.sections.append((FIRST_TRY, first.longreprtext))
                report.user_properties.append((FIRST_TRY, first.longreprtext))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        first = dict(report.user_properties).get(FIRST_TRY)
        if first is None:
            return
        if report.failed:
            self._passed.pop(report.nodeid, None)
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = str(first)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, first in sorted(self._passed.items()):
            terminalreporter.section(f"the first try of {test}", red=True)
            terminalreporter.write_line(first)
        for test in sorted(self._passed):
            reason = self._reasons.get(test, "")
            terminalreporter.write_line(f"KNOWN TO BE FLAKY, passed on the second try: {test} ({reason})", red=True)
