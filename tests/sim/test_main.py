"""What `python -m headway.sim` says and with which code it ends."""

from __future__ import annotations

import pytest

from headway.sim.__main__ import report
from headway.sim.run import Result

FAILURES = [("safety", 3), ("liveness", 4), ("crash", 5)]


@pytest.mark.parametrize(("kind", "code"), FAILURES)
def test_each_kind_of_failure_has_its_exit_code(kind: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Result(1, "", 0), Result(7, "", 0, kind, "it broke", "the story")]) == code
    said = capsys.readouterr().out
    assert f"seed 7 ({kind}): it broke\nthe story" in said


def test_when_all_is_well_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Result(1, "", 0)]) == 0
    assert capsys.readouterr().out == ""
