"""The sweep: ends everything that a dead keeper has left behind, and returns when nothing of it is alive.

It finds ranks by the journal (pid and birth), and descendants by session, by parent and by the tag in their
environment. A keeper's generation is part of the tag, so a late sweep never touches what a newer one has started.
"""

from __future__ import annotations

import os
import signal
import time

from headway_agent.keeper import table as keeper_table
from headway_agent.node import processes
from headway_agent.node.directory import NodeDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

ROUNDS_MAX = 2000
PAUSE_S = 0.01


def journal_lines(node_dir: NodeDir) -> list[bytes]:
    try:
        with open(node_dir.file("keeper.journal"), "rb") as file:
            return file.read().splitlines()
    except OSError:
        return []


def sweep(node_dir: NodeDir, generation: int, ranks: Iterable[keeper_table.Rank]) -> int:
    """End all that keepers up to this generation left. Returns how many processes were signalled."""
    suspects = [(rank.pid, rank.born_s) for rank in ranks if rank.pid]
    signalled: set[int] = set()
    for _ in range(ROUNDS_MAX):
        alive = victims(list(processes.scan()), suspects, node_dir.path, generation)
        if not alive:
            break
        for pid in alive:
            signalled.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # It ended between the look and the signal.
        time.sleep(PAUSE_S)
    return len(signalled)


def victims(
    seen: list[processes.SeenProcess], suspects: list[tuple[int, float]], node_path: str, generation: int
) -> set[int]:
    """The pids to end: ranks of the journal, their sessions, all that carry our tag, and the descendants of those."""
    born = dict(suspects)
    spared = {os.getpid(), 1}
    found = set()
    for each in seen:
        if each.pid in spared:
            continue
        if _is_ours(each, born) or _tagged(each.pid, node_path, generation):
            found.add(each.pid)
    offspring: dict[int, list[int]] = {}
    for each in seen:
        offspring.setdefault(each.parent, []).append(each.pid)
    queue = list(found)
    while queue:
        for child in offspring.get(queue.pop(), ()):
            if child not in found and child not in spared:
                found.add(child)
                queue.append(child)
    return found


def _is_ours(each: processes.SeenProcess, born: dict[int, float]) -> bool:
    """A session of the journal is ours unless its leader is a younger process that got the same pid."""
    began_s = born.get(each.session)
    if began_s is None or each.born_s < began_s - processes.BORN_SLACK_S:
        return False
    leader = processes.look(each.session)
    return leader is None or abs(leader.born_s - began_s) < processes.BORN_SLACK_S


def _tagged(pid: int, node_path: str, generation: int) -> bool:
    tags = processes.tags(pid)
    if tags.get("HEADWAY_NODE_DIR") != node_path or "HEADWAY_TASK" not in tags:
        return False
    try:
        return int(tags.get("HEADWAY_KEEPER", "0")) <= generation
    except ValueError:
        return False


def main(node_path: str, generation: int | None = None) -> int:
    """Sweep after a dead keeper; with no generation given, after the last one, if none is alive."""
    node_dir = NodeDir(node_path)
    if generation is None:
        if node_dir.locked("keeper.lock"):
            return 1
        generation = node_dir.counter("keeper.epoch")
    table = keeper_table.replay(journal_lines(node_dir))
    # A newer keeper has rewritten the journal; its ranks are not ours to end. The tag tells them apart.
    ranks = [] if node_dir.counter("keeper.epoch") > generation else _unended(table)
    sweep(node_dir, generation, ranks)
    return 0


def _unended(table: keeper_table.Table) -> list[keeper_table.Rank]:
    return [rank for task in table.tasks.values() for rank in task.ranks if rank.exit is None or task.lost]
