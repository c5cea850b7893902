"""The reference pages are what the program says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.cli.reference import pages

PLACE = Path(__file__).resolve().parents[2] / "docs/reference"


@pytest.mark.parametrize("name", ["cli.md", "settings.md", "states.md", "causes.md", "protocol.md"])
def test_the_page_is_up_to_date(name: str) -> None:
    assert (PLACE / name).read_text() == pages()[name], "run `make docs`"
