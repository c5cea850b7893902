"""Packs: points are streams like any other, go first, and leave the log its room."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_agent.decide.output_offsets import log_bytes
from headway_agent.output import packs
from headway_agent.output.packs import WantedOutput, make_pack, output_path, output_sizes


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "sdk").mkdir()
    return tmp_path


def write(task: Path, rank: int, stream: str, data: bytes) -> None:
    Path(output_path(str(task), rank, stream)).write_bytes(data)


def shipped(task: Path, done: dict[str, int] | None = None) -> tuple[dict[str, bytes], bool]:
    pack = make_pack([WantedOutput("j/1/0", str(task), done or {})], "key")
    data = b"".join(pack.pieces)
    found = {piece.slot: data[piece.key_offset :][: piece.end - piece.start] for piece in pack.ranges}
    return found, pack.more


def test_what_ranks_log_and_what_is_found_for_them_travel_with_their_output(task: Path) -> None:
    for rank, stream in ((0, "out"), (0, "logged"), (0, "metrics"), (3, "logged")):
        write(task, rank, stream, f"{rank}{stream}".encode())
    (task / "rank0.other").write_text("no stream of ours")
    (task / "sdk/rank0.out").write_text("not where it belongs")
    (task / "sdk/rank1.logged").symlink_to("/etc/passwd")
    sizes = output_sizes(str(task))
    assert sizes == {"0/out": 4, "0/logged": 7, "0/metrics": 8, "3/logged": 7}
    assert log_bytes(sizes) == 4
    assert shipped(task)[0] == {
        "0/out": b"0out",
        "0/logged": b"0logged",
        "0/metrics": b"0metrics",
        "3/logged": b"3logged",
    }


def test_points_go_first_and_leave_the_log_its_room(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "TASK_BYTES_MAX", 100)
    monkeypatch.setattr(packs, "POINTS_BYTES_MAX", 30)
    write(task, 0, "logged", b"p" * 500)
    write(task, 0, "out", b"o" * 500)
    found, more = shipped(task)
    assert {slot: len(data) for slot, data in found.items()} == {"0/logged": 30, "0/out": 70}
    assert more
    found, more = shipped(task, {"0/logged": 490, "0/out": 0})
    assert {slot: len(data) for slot, data in found.items()} == {"0/logged": 10, "0/out": 90}


def test_steps_are_read_from_the_log_and_not_from_points(task: Path) -> None:
    write(task, 0, "logged", b'{"step": 77}\nstep 77\n')
    write(task, 1, "out", b"step 5\n")
    pack = make_pack([WantedOutput("j/1/0", str(task), {})], "key")
    assert pack.printed == {"j/1/0": {"step": 5}}
