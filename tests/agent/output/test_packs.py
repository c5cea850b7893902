"""Packs: what is new in the output of tasks, and when it was written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headway_agent.node.directory import boottime_s
from headway_agent.output import packs


def test_a_pack_says_when_the_newest_byte_of_each_output_was_written(tmp_path: Path) -> None:
    (tmp_path / "rank0.out").write_bytes(b"line\n")
    os.utime(tmp_path / "rank0.out", (0, time.time() - 600))
    (tmp_path / "rank1.out").write_bytes(b"line\n")
    os.utime(tmp_path / "rank1.out", (0, time.time() + 600))
    pack = packs.make_pack([packs.WantedOutput("j/1/0", str(tmp_path), {})], "k")
    assert boottime_s() - pack.written["j/1/0", "0/out"] == pytest.approx(600, abs=60)
    assert pack.written["j/1/0", "1/out"] <= boottime_s(), "a file of the future was written now"
