"""Which pieces of a log stay, which are joined, and which objects that leaves to nobody."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.control.files.log_index import SwapLogs, TrimLogs, marks_of, to_join, to_trim
from headway.control.jobs.commands import ForgetJob, Submit
from headway.control.leader.cycle import PendingCommand
from headway.core.errors import BadInput
from headway.core.model import State
from headway.store.memory.store import MemoryStore
from headway.store.protocol import LogRange
from tests.builders import a_spec
from tests.control.leading import Leader


def a_piece(start: int, end: int, **fields: Any) -> LogRange:
    where = {"job": "j1", "attempt": 1, "task": 0, "rank": 0, "stream": "out", "key": f"logs/n1/{start}"}
    return LogRange(**{**where, "key_offset": 0, **fields}, start=start, end=end)


def pieces_of(*sizes: int) -> list[LogRange]:
    ends = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    return [a_piece(start, end) for start, end in pairwise(ends)]


def spans(pieces: Any) -> list[tuple[int, int]]:
    return [(piece.start, piece.end) for piece in pieces]


def test_a_log_within_its_limit_is_left_alone() -> None:
    assert not to_trim(pieces_of(50, 50), 100).drop
    assert not to_trim([], 100).drop


def test_half_of_the_limit_stays_as_head_and_a_quarter_as_tail() -> None:
    trim = to_trim(pieces_of(40, 40, 40, 40), 100)
    assert spans(trim.drop) == [(40, 80), (80, 120), (120, 160)]
    assert [(piece.start, piece.end, piece.key_offset) for piece in trim.add] == [(40, 50, 0), (135, 160, 15)]
    assert trim.size == 160 - 75


def test_one_large_piece_is_cut_into_head_and_tail() -> None:
    trim = to_trim([a_piece(0, 1000, key_offset=7)], 100)
    assert [(piece.start, piece.end, piece.key_offset) for piece in trim.add] == [(0, 50, 7), (975, 1000, 982)]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.integers(8, 500))
def test_however_a_log_grows_its_head_and_tail_are_kept_and_it_stays_within_its_limit(
    sizes: list[int], limit: int
) -> None:
    kept: list[LogRange] = []
    for piece in pieces_of(*sizes):
        kept.append(piece)
        trim = to_trim(kept, limit)
        kept = sorted({*kept} - {*trim.drop} | {*trim.add}, key=lambda each: each.start)
        there = {byte for each in kept for byte in range(each.start, each.end)}
        end = piece.end
        assert len(there) == sum(each.end - each.start for each in kept) <= max(limit, end if end <= limit else 0)
        assert there >= {*range(min(end, limit // 2))}
        assert there >= {*range(max(0, end - limit // 4), end)}
        assert all(each.key_offset == each.start - int(each.key.rpartition("/")[2]) for each in kept)


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        pytest.param(pieces_of(1, 1, 1), [(0, 3)], id="neighbours"),
        pytest.param(pieces_of(1, 1), [], id="too few"),
        pytest.param([*pieces_of(1, 1, 1), a_piece(4, 5)], [(0, 3)], id="a gap"),
        pytest.param([*pieces_of(1, 1), a_piece(2, 3, rank=1)], [], id="never across streams"),
        pytest.param(pieces_of(1, 1, 1, 100, 1, 1, 1), [(0, 3), (103, 106)], id="a large one between"),
        pytest.param(pieces_of(40, 40, 40, 40), [], id="too large together"),
    ],
)
def test_small_neighbours_of_one_stream_are_joined(pieces: list[LogRange], joined: list[tuple[int, int]]) -> None:
    found = to_join(pieces, least=3, bytes_max=100)
    assert [(join.parts[0].start, join.parts[-1].end) for join in found] == joined


def a_leader_with_a_running_job(log_bytes_max: int = 100) -> Leader:
    leader = Leader(MemoryStore())
    leader.join()
    leader.do(Submit((a_spec(log_bytes_max=log_bytes_max),), "ada", lambda: "j1"))
    leader.tick()
    leader.sync(reports=[{"task": "j1/1/0", "phase": "claimed"}])
    assert leader.cycle.book.jobs["j1"].state is State.RUNNING
    return leader


def ship(leader: Leader, start: int, end: int, key: str) -> None:
    piece = {"task": "j1/1/0", "rank": 0, "stream": "out", "start": start, "end": end, "key": key, "key_offset": 0}
    leader.sync(logs=[piece])


def end_it(leader: Leader) -> None:
    leader.sync(reports=[{"task": "j1/1/0", "phase": "ended", "outcome": {"exit_code": 0}}])
    assert leader.cycle.store.jobs(["j1"])[0].state is State.SUCCEEDED


def test_joined_pieces_still_say_when_each_was_written() -> None:
    pieces = [a_piece(number, number + 1, at=100.0 + 2 * number) for number in range(10)]
    (first,) = to_join(pieces[:6], least=3)
    joined = a_piece(0, 6, at=110.0, times=first.times)
    assert marks_of(joined) == [(number + 1, 100.0 + 2 * number) for number in range(6)]
    (again,) = to_join([joined, *pieces[6:]], least=3)
    assert marks_of(a_piece(0, 10, at=118.0, times=again.times)) == [(each.end, each.at) for each in pieces]


def test_a_joined_piece_has_so_many_times_and_no_more() -> None:
    pieces = [a_piece(number, number + 1, at=2.0 * number) for number in range(1200)]
    assert [len(join.parts) for join in to_join(pieces, least=3)] == [500, 500, 200]
    crowded = [a_piece(number, number + 1, at=0.2 * number) for number in range(1200)]
    (one,) = to_join(crowded, least=3)
    assert len(marks_of(a_piece(0, 1200, times=one.times))) == 240


def test_a_log_that_outgrows_its_limit_is_trimmed_soon_even_if_it_came_in_one_piece_at_the_end() -> None:
    leader = a_leader_with_a_running_job()
    ship(leader, 0, 1000, "logs/n1/1")
    end_it(leader)
    leader.tick()
    store = leader.cycle.store
    assert spans(store.logs("j1")) == [(0, 50), (975, 1000)]
    assert [event.data["bytes"] for event in store.events(0, 100, "j1") if event.kind == "LogTrimmed"] == [925]
    assert store.log_ends("j1", 1, 0) == {(0, "out"): 1000}


def test_objects_that_trimming_and_forgetting_let_go_are_told() -> None:
    leader = a_leader_with_a_running_job()
    for number in range(10):
        ship(leader, number * 20, number * 20 + 20, f"logs/n1/{number}")
    leader.said.clear()
    leader.tick()
    assert {"logs/n1/4", "logs/n1/5"} <= {key for said in leader.said for key in said.loose_keys}
    end_it(leader)
    leader.said.clear()
    leader.do(ForgetJob("j1", "ada")).result()
    assert {"logs/n1/0", "logs/n1/9"} <= {key for said in leader.said for key in said.loose_keys}


def test_pieces_are_never_joined_and_trimmed_in_one_batch() -> None:
    leader = a_leader_with_a_running_job()
    for number in range(10):
        ship(leader, number * 20, number * 20 + 20, f"logs/n1/{number}")
    store = leader.cycle.store
    parts = tuple(store.logs("j1"))
    join = SwapLogs(parts, (a_piece(0, 200, key="logs/joined/1"),))
    trim = TrimLogs(frozenset({parts[0].of}))
    for first, second in ((join, trim), (trim, join)):
        other = a_leader_with_a_running_job()
        for number in range(10):
            ship(other, number * 20, number * 20 + 20, f"logs/n1/{number}")
        asks = [PendingCommand(command, lambda _: None, lambda _: None) for command in (first, second)]
        other.cycle.turn(asks, other.now, other.now)
        kept = other.cycle.store.logs("j1")
        assert all(one.end <= two.start for one, two in pairwise(kept)), f"bytes of {first} stand there twice"


def test_a_key_that_leads_out_of_the_storage_is_refused() -> None:
    leader = a_leader_with_a_running_job()
    with pytest.raises(BadInput, match="not a plain path"):
        ship(leader, 0, 10, "../../etc/passwd")
