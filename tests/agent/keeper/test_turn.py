"""The order of a keeper's turn: what is told is written down before, and what has begun is written before it begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway_agent.keeper import table
from headway_agent.keeper.turn import KeeperTurn


class Host:
    """Writes down what it is asked for, in its order."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.dead: list[tuple[int, int | None, int | None]] = []
        self.left: set[str] = set()
        self.cannot = False
        self.pids = iter(range(100, 200))

    def now_s(self) -> float:
        return 10.0

    begun_at = ended_at = now_s

    def reaped(self) -> Iterator[tuple[int, int | None, int | None]]:
        while self.dead:
            yield self.dead.pop(0)

    def out_of_memory(self, ended: tuple[int, int | None, int | None]) -> tuple[bool, str]:
        return False, ""

    def stranger_gone(self, pid: int) -> None:
        self.did.append(f"stranger {pid} gone")

    def signal(self, leader: int, number: int) -> None:
        self.did.append(f"signal {leader} {number}")

    def make_ready(self, tasks: Sequence[table.KeeperTask]) -> None:
        self.did.append("ready")

    def start(self, task: table.KeeperTask, rank: table.Rank, how: Any) -> tuple[int, int, str]:
        self.did.append(f"start {rank.number}")
        return (0, 127, "no such program") if self.cannot else (next(self.pids), 0, "")

    def look_for_left(self) -> None:
        pass

    def stay(self, task: table.KeeperTask) -> bool:
        return False

    def has_left(self, task: table.KeeperTask) -> bool:
        return task.key in self.left

    def signal_left(self, task: table.KeeperTask, number: int) -> None:
        self.did.append(f"signal what is left {number}")

    def clear(self, task: table.KeeperTask) -> None:
        self.did.append("clear")

    def write(self, records: Sequence[table.Record], for_good: bool) -> None:
        self.did.append(f"write {' '.join(record[0] for record in records)}{' for good' if for_good else ''}")

    def tell(self, news: Mapping[str, Any]) -> None:
        self.did.append(f"tell {' '.join(news)}")

    def since(self) -> list[str]:
        did, self.did = self.did, []
        return did


def a_turn(ranks: int = 1) -> tuple[Host, KeeperTurn]:
    host = Host()
    turn = KeeperTurn(host, table.Table())
    turn.obey({"do": "lease", "deadline_s": 1000.0, "granted_s": 60.0})
    launch = {"task": "j/1/0", "grace_s": 2.0, "ranks": [{"rank": number} for number in range(ranks)]}
    turn.obey({"do": "hold", "base": {}, "tasks": [launch]})
    turn.obey({"do": "go", "tasks": [["j/1/0", {}]]})
    return host, turn


def test_that_a_task_begins_is_written_before_its_first_rank_is_started() -> None:
    host, turn = a_turn(ranks=2)
    turn.take()
    assert host.since() == ["write begin", "ready", "start 0", "start 1", "write spawn spawn", "tell spawned"]


def test_an_end_is_on_the_disk_before_it_is_told() -> None:
    host, turn = a_turn()
    turn.take()
    host.since()
    host.dead.append((100, 0, None))
    turn.take()
    assert host.since() == ["clear", "write exit over for good", "tell exits over"]


def test_a_task_is_over_only_once_nothing_of_it_is_left() -> None:
    host, turn = a_turn()
    turn.take()
    host.since()
    host.left.add("j/1/0")
    host.dead.append((100, 1, None))
    turn.take()
    assert host.since() == ["signal what is left 15", "write exit for good", "tell exits first_failures"]
    host.left.clear()
    turn.take()
    assert host.since() == ["clear", "write over for good", "tell over"]


def test_a_rank_that_cannot_be_started_has_ended() -> None:
    host, turn = a_turn()
    host.cannot = True
    turn.take()
    assert host.since()[-3:] == ["clear", "write exit over for good", "tell spawned exits over"]


def test_whoever_begins_to_listen_is_not_told_what_stood_in_the_list() -> None:
    host, turn = a_turn()
    turn.obey({"do": "forget", "tasks": ["nobody's"]})
    turn.begin_telling()
    turn.take()
    assert host.since()[-1] == "tell spawned"
