"""What the keeper knows: stops, graces, the lease and the journal, without a single process."""

from __future__ import annotations

from typing import Any

import pytest

from headway_agent.decide.decide import KeeperListed, NodeState, decide
from headway_agent.keeper.table import SIGKILL, SIGTERM, Table, replay, rewritten, to_line
from headway_agent.loop.pace import PAUSE_S_MIN
from headway_agent.server_link.http import CONNECT_S_MAX
from tests.agent.spoken import answered, sync_of

T = "job1/1/0"


def a_table(*pids: int, grace_s: float = 10.0, now: float = 0.0) -> Table:
    """A table with one task whose ranks have these pids, under a lease of 1000 s."""
    table = Table()
    table.lease(1000.0, 1000.0)
    add(table, T, *pids, grace_s=grace_s, now=now)
    return table


def add(table: Table, key: str, *pids: int, grace_s: float = 10.0, now: float = 0.0) -> list[Any]:
    table.hold({"task": key, "grace_s": grace_s, "ranks": [{"rank": number} for number in range(len(pids))]})
    records = table.go(key, {}, now)
    if table.waiting:
        task = table.waiting.pop()
        records.append(table.begun(task, 5.0))
        records += [table.spawned(task, rank, pid, now) for rank, pid in zip(task.ranks, pids, strict=True)]
    return records


def test_a_stop_is_sigterm_then_sigkill_after_the_grace() -> None:
    table = a_table(11, 12)
    assert table.stop(T, 10.0, "stop", 100.0)[0] == [(11, SIGTERM), (12, SIGTERM)]
    assert table.due(109.0)[0] == []
    assert table.due(110.0)[0] == [(11, SIGKILL), (12, SIGKILL)]
    assert table.due(111.0)[0] == []


def test_a_second_stop_can_only_shorten_the_grace() -> None:
    table = a_table(11)
    table.stop(T, 10.0, "stop", 100.0)
    assert table.stop(T, 50.0, "stop", 101.0)[0] == []
    assert table.next_due_s(101.0) == 110.0
    table.stop(T, 1.0, "stop", 102.0)
    assert table.due(103.0)[0] == [(11, SIGKILL)]


def test_the_last_sigkill_is_done_before_the_lease_is_over() -> None:
    table = a_table(11, grace_s=10.0)
    assert table.next_due_s(0.0) == 988.0
    assert table.due(987.9)[0] == []
    assert table.due(988.0)[0] == [(11, SIGTERM)]
    assert table.due(997.9)[0] == []
    assert table.due(998.0)[0] == [(11, SIGKILL)]


def test_a_stop_under_way_is_cut_short_by_the_lease() -> None:
    table = a_table(11, grace_s=10.0)
    table.stop(T, 500.0, "stop", 900.0)
    assert table.due(988.0)[0] == []
    assert table.due(998.0)[0] == [(11, SIGKILL)]


def test_a_lease_that_is_short_beside_the_grace_still_lets_tasks_run() -> None:
    table = Table()
    table.lease(10.0, 10.0)
    add(table, T, 11, grace_s=30.0)
    assert table.next_due_s(0.0) == 7.75
    assert table.due(7.75)[0] == [(11, SIGTERM)]
    assert table.due(9.0)[0] == [(11, SIGKILL)]


def test_a_moment_that_has_passed_is_not_waited_for_again() -> None:
    table = a_table(11, grace_s=100.0)
    add(table, "job2/1/0", 12, grace_s=10.0)
    assert table.next_due_s(0.0) == 898.0
    assert table.due(898.0)[0] == [(11, SIGTERM)]
    assert table.next_due_s(898.0) == 988.0
    assert table.due(988.0)[0] == [(12, SIGTERM)]
    assert table.next_due_s(988.0) == 998.0


def test_a_renewed_lease_moves_the_end() -> None:
    table = a_table(11)
    table.lease(2000.0, 1000.0)
    assert table.due(1500.0)[0] == []


def test_without_a_lease_nothing_starts() -> None:
    table = Table()
    records = add(table, T, 11, now=5.0)
    assert [record[0] for record in records] == ["begin", "exit"]
    assert list(table.finishing) == [T]


def test_what_was_held_and_is_stopped_leaves_no_trace() -> None:
    table = Table()
    table.hold({"task": T, "ranks": [{"rank": 0}]})
    assert table.stop(T, 0.0, "stop", 1.0) == ([], [])
    assert table.tasks == {}


def test_a_stop_between_go_and_the_start_is_an_exit() -> None:
    table = a_table()
    table.hold({"task": "job2/1/0", "ranks": [{"rank": 0}]})
    table.go("job2/1/0", {}, 1.0)
    signals, records = table.stop("job2/1/0", 5.0, "stop", 2.0)
    assert (signals, [record[0] for record in records]) == ([], ["begin", "exit"])


def test_leftovers_get_sigterm_once_then_sigkill() -> None:
    table = a_table(11)
    table.exited(11, 0, None, False)
    task = table.finishing[T]
    assert table.leftover_signal(task, 50.0) == SIGTERM
    assert table.leftover_signal(task, 50.5) == 0
    table.due(51.0)
    assert table.leftover_signal(task, 51.0) == SIGKILL


def stayed(*codes: int | None, ours: str = "", now: float = 100.0) -> Table:
    """A table with one task that wants its place kept, whose ranks have exited with these codes."""
    table = Table()
    table.lease(5000.0, 5000.0)
    ranks = [{"rank": number} for number in range(len(codes))]
    table.hold({"task": T, "grace_s": 10.0, "ranks": ranks, "stay": {"s": 600.0, "not": [99]}})
    table.go(T, {}, 0.0)
    task = table.waiting.pop()
    table.begun(task, 5.0)
    for rank, code in zip(task.ranks, codes, strict=True):
        table.spawned(task, rank, 11 + rank.number, 0.0)
        task.why = ours
        table.exited(11 + rank.number, code, None, False)
    return table


def test_the_place_of_a_task_that_failed_by_itself_is_kept() -> None:
    assert stayed(3).wants_to_stay(stayed(3).tasks[T])
    for table in (stayed(0), stayed(99), stayed(1, ours="stop")):
        assert not table.wants_to_stay(table.tasks[T])


def test_a_kept_place_ends_with_its_time_with_a_stop_and_with_the_lease() -> None:
    for end in ("time", "stop", "lease"):
        table = stayed(3)
        task = table.tasks[T]
        table.stays(task, 77, 100.0)
        assert not table.wants_to_stay(task)
        assert table.leftover_signal(task, 101.0) == SIGKILL, "what else is left of it may not go on"
        table.due(101.0)
        assert not task.killed
        if end == "stop":
            table.stop(T, 0.0, "stop", 200.0)
        elif end == "lease":
            table.lease(210.0, 100.0)
        table.due(200.0 if end == "stop" else 209.0 if end == "lease" else 700.0)
        assert task.killed, end


def test_a_forgotten_task_is_ended_at_once() -> None:
    table = a_table(11)
    assert table.forget(T, 5.0) == ([], [])
    assert table.due(5.0)[0] == [(11, SIGKILL)]
    assert table.listing() == []


def test_the_journal_tells_what_ended_and_what_was_lost() -> None:
    table = Table()
    table.lease(1000.0, 1000.0)
    records = add(table, T, 11)
    records += add(table, "job2/1/0", 12)
    records += [table.exited(11, 3, None, False), table.over(table.tasks[T])]
    again = replay(map(to_line, records))
    ended, lost = again.tasks[T], again.tasks["job2/1/0"]
    assert (ended.phase, ended.lost, ended.ranks[0].exit) == ("over", False, [3, None, "", False, ""])
    assert (lost.phase, lost.lost, lost.ranks[0].pid) == ("over", True, 12)


def test_a_task_whose_ranks_all_ended_is_not_lost_with_its_keeper() -> None:
    table = Table()
    table.lease(1000.0, 1000.0)
    records = [*add(table, T, 11), table.exited(11, 0, None, False)]  # Its descendants are being ended: not over yet.
    kept = replay(map(to_line, records)).tasks[T]
    assert (kept.phase, kept.lost, kept.ranks[0].exit) == ("over", False, [0, None, "", False, ""])


def test_a_torn_line_and_forgotten_tasks_are_skipped() -> None:
    table = a_table(11)
    lines = [to_line(record) for record in rewritten(table)]
    again = replay([*lines, b'["exit","job1', to_line(["forget", T])])
    assert again.tasks == {}


def test_a_rewritten_journal_reads_back_the_same() -> None:
    table = a_table(11, 12)
    table.exited(11, None, 9, True)
    first = replay(map(to_line, rewritten(table)))
    second = replay(map(to_line, rewritten(first)))
    assert first.listing() == second.listing()


def test_when_the_first_rank_ended_outlives_the_keeper() -> None:
    table = Table()
    table.lease(1000.0, 1000.0)
    records = [*add(table, T, 11, 12), table.exited(11, None, 9, False, at=77.0)]
    records += [table.exited(12, 1, None, False, at=99.0), table.over(table.tasks[T])]
    again = replay([to_line(each) for each in records if each is not None])
    assert again.listing()[0]["first_failure_at"] == 77.0
    assert again.listing()[0]["exits"] == [[0, None, 9, "", False, ""], [1, 1, None, "", False, ""]]
    twice = replay([to_line(each) for each in rewritten(again)])
    assert twice.listing() == again.listing()


@pytest.mark.parametrize("grace_s", [0.0, 30.0, 3600.0])
@pytest.mark.parametrize("lease_s", [60.0, 90.0, 1800.0, 86400.0])
def test_a_cut_shorter_than_half_of_the_lease_ends_nothing(lease_s: float, grace_s: float) -> None:
    """At the worst moment: just before a call, and with the slowest way back to the server."""
    state = NodeState(node="n1", pool="lab")
    decide(state, KeeperListed([]), 0.0)
    for at in (0.0, 0.0):
        seq = sync_of(state, {}, at)["seq"]
        decide(state, answered({"leader_epoch": 1, "lease_left_s": lease_s}, seq), at)
    held_s = sync_of(state, {}, 0.0)["wait_s"]
    table = Table()
    table.lease(state.deadline_s, state.granted_s)
    back_at_s = held_s + lease_s / 2 + CONNECT_S_MAX + PAUSE_S_MIN  # A connection that was tried just before the end.
    assert table.stop_by_s(grace_s) > back_at_s


def test_what_is_cut_off_for_longer_is_ended_with_its_grace_before_the_lease_is_over() -> None:
    table = Table()
    table.lease(1800.0, 1800.0)
    assert (table.kill_by_s(), table.stop_by_s(30.0), table.stop_by_s(3600.0)) == (1798.0, 1768.0, 1573.0)
