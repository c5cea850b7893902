"""One task whose figures are collected: its sources, the spools of its ranks, and when it is looked at again.

What is known can be lost at any moment: the spools say how far each source was read. Used by one thread at a time.
"""

from __future__ import annotations

import os
import re
import socket

from headway_agent.collect import search, sources
from headway_agent.collect.spool import Spool
from headway_agent.collect.table_files import REPORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from headway_agent.collect.sources import Source

SEARCH_EVERY_S = 10.0
SEARCH_PART = 0.005  # Of the time that may go into looking for files.
SOURCES_MAX = 2000
HYPERTUNE = "hypertune"
SLACK_S = 2.0  # Clocks of file systems may be a little behind.

_OUTPUT = re.compile(r"rank(\d+)\.(out|err)")


class TaskCollector:
    def __init__(self, key: str, directory: str, cwd: str, since: float, resume_step: int = -1) -> None:
        self.key, self.directory, self.cwd, self.since = key, directory, cwd, since
        self.resume_step = resume_step
        self.in_place = bool(cwd) and not (cwd + "/").startswith(directory + "/")
        self.search_at_s = 0.0
        self._sources: dict[str, Source] = {}
        self._spools: dict[int, Spool] = {}
        self._strangers: set[str] = set()  # Files of other tasks.

    @property
    def more(self) -> bool:
        return any(source.more for source in self._sources.values())

    @property
    def troubles(self) -> list[str]:
        return [source.trouble for source in self._sources.values() if source.trouble]

    def close(self) -> None:
        for source in self._sources.values():
            source.close()

    @property
    def has_told(self) -> bool:
        return any(os.path.exists(spool.path) for spool in self._spools.values())

    @property
    def passed_over(self) -> int:
        return sum(source.passed_over for source in self._sources.values())

    def look(
        self, now_s: float, at: float, shares: bool, final: bool = False, clock: Callable[[], float] = float
    ) -> None:
        """Take what is new. `shares`: other tasks work in the same directory."""
        try:
            self._meet_outputs()
            if final or now_s >= self.search_at_s:
                self._search(shares)
                self.search_at_s = now_s + max(SEARCH_EVERY_S, (clock() - now_s) / SEARCH_PART)
            for source in list(self._sources.values()):
                source.look(at, final)
        except OSError:
            # A full disk, most likely: what was read and not written is read again.
            self.close()
            self._sources.clear()
            for spool in self._spools.values():
                spool.read_back()
            raise

    def _spool(self, rank: int) -> Spool:
        spool = self._spools.get(rank)
        if spool is None:
            spool = self._spools[rank] = Spool(self.directory, rank)
        return spool

    @property
    def _ranks(self) -> list[int]:
        return sorted(self._spools)

    def _meet_outputs(self) -> None:
        """What its ranks print, and what they report where hypertune was told to."""
        with os.scandir(self.directory) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            found = _OUTPUT.fullmatch(name)
            if found is not None and name not in self._sources:
                spool = self._spool(int(found.group(1)))
                self._sources[name] = sources.OutputSource(f"{self.directory}/{name}", name, spool)
        for rank in self._ranks:
            name = f"sdk/{HYPERTUNE}-{rank}"
            if name not in self._sources and os.path.exists(f"{self.directory}/{name}"):
                self._sources[name] = sources.HypertuneSource(f"{self.directory}/{name}", name, self._spool(rank))

    def _search(self, shares: bool) -> None:
        roots = [f"{self.directory}/output", f"{self.directory}/checkpoints"]
        if self.cwd:
            roots.append(self.cwd)
        for root in roots:
            in_place = root == self.cwd and self.in_place
            for path, kind in search.find(root, self.since - SLACK_S):
                name = path[len(self.directory) + 1 :] if path.startswith(self.directory + "/") else path
                must_prove = in_place and (shares or not self.key.endswith("/0"))
                if kind == search.TRAINER:
                    if not must_prove:  # Nobody holds a report open: whose it is cannot be known.
                        self._meet_report(path)
                elif name not in self._sources and path not in self._strangers and len(self._sources) < SOURCES_MAX:
                    self._meet(path, name, kind, must_prove)

    def _meet(self, path: str, name: str, kind: str, must_prove: bool) -> None:
        """Take up a file; where others may have made it, only if a process of this task has."""
        rank = self._ranks[0] if self._ranks else 0
        before_us = [each for each in self._ranks if self._spool(each).taken(name) is not None]
        if before_us:
            rank = before_us[0]  # An agent before this one has taken it up.
        elif kind == search.EVENTS or must_prove:
            host = socket.gethostname()
            tags = search.owner(path, self.key, host)
            if search.is_of_another(path, self.key, host) or (tags is None and must_prove):
                self._strangers.add(path)
                return
            said = (tags or {}).get("HEADWAY_RANK", "")
            rank = int(said) if said.isdigit() and int(said) in self._spools else rank
        spool = self._spool(rank)
        prefix = ""
        if kind == search.EVENTS:
            folders = [os.path.dirname(each) for each in spool.sources() if "tfevents" in each]
            folder = os.path.dirname(name)
            before = folders[: folders.index(folder)] if folder in folders else folders
            prefix = search.prefix_of(folder, before)
            spool.number(name, os.stat(path).st_ino)  # In the order in which they were found, for whoever comes after.
        self._sources[name] = sources.KINDS[kind](path, name, spool, prefix)

    def _meet_report(self, path: str) -> None:
        """The Trainer writes a report into each checkpoint: the newest of a folder is read."""
        folder = os.path.dirname(os.path.dirname(path))
        name = f"{folder}/*/{REPORT}"
        known = self._sources.get(name)
        if known is None:
            known = sources.TrainerSource(path, name, self._spool(self._ranks[0] if self._ranks else 0))
            known.begun_at_step = self.resume_step
            self._sources[name] = known
        elif path != known.path and _mtime(path) > _mtime(known.path):
            known.path = path


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
