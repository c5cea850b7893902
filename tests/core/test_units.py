"""Durations and sizes as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.units import duration_s, show_duration, show_size, size_bytes


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *(("90", 90), ("90s", 90), (" 10 m ", 600), ("6h", 21600), ("1.5H", 5400), ("2d", 172800), ("1w", 604800)),
        *((0, 0), (2.5, 2.5), ("0", 0)),
    ],
)
def test_a_duration_is_read(written: Any, seconds: float) -> None:
    assert duration_s(written, "grace") == seconds


@pytest.mark.parametrize(
    ("written", "size"),
    [
        *(("1000", 1000), ("512Mi", 2**29), ("16G", 16 * 10**9), ("16GB", 16 * 10**9), ("1GiB", 2**30)),
        *(("1.5k", 1500), (0, 0), (7, 7), ("2Ti", 2**41)),
    ],
)
def test_a_size_is_read(written: Any, size: int) -> None:
    assert size_bytes(written, "memory") == size


@pytest.mark.parametrize(
    "written",
    [
        "",
        "h",
        "-5",
        "5 parsecs",
        "1e3",
        "5h30m",
        "٣s",
        "5 5",
        -1,
        float("nan"),
        float("inf"),
        True,
        None,
        [],
        "1" * 400,
    ],
)
def test_what_is_no_duration_is_refused_with_the_field_named(written: Any) -> None:
    with pytest.raises(BadInput) as refused:
        duration_s(written, "grace")
    assert refused.value.message.startswith("grace: ")
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("written", ["", "G", "-5G", "5Q", "5 parsecs", -1, float("nan"), False, None, {}, "9" * 400])
def test_what_is_no_size_is_refused_with_the_field_named(written: Any) -> None:
    with pytest.raises(BadInput) as refused:
        size_bytes(written, "memory")
    assert refused.value.message.startswith("memory: ")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((-1, "0.0 s"), (0, "0.0 s"), (4.21, "4.2 s"), (10, "10 s"), (59.4, "59 s"), (59.6, "1 m 00 s")),
        *((200, "3 m 20 s"), (3600, "1 h 00 m"), (21_900, "6 h 05 m"), (86_400, "1 d 0 h"), (183_600, "2 d 3 h")),
    ],
)
def test_a_duration_is_shown_with_two_figures(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (812, "812 B"), (3500, "3.4 KiB"), (1 << 20, "1.0 MiB"), (5 << 40, "5.0 TiB")]
)
def test_a_size_is_shown(count: int, shown: str) -> None:
    assert show_size(count) == shown
