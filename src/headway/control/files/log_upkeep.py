"""Keeps storage small: old logs leave, small pieces are joined, objects that nobody names any more are deleted.

Index first, objects after: an object is deleted only when the store says that no range names it, and only a while
later, for somebody may be reading. A crash between any two steps leaves at most objects that a later sweep finds.
"""

from __future__ import annotations

import secrets
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import structlog

from headway.control.files.log_index import JOINED_BYTES_MAX, Join, SwapLogs, is_intact, to_join
from headway.control.state.leader_calls import Control
from headway.control.state.transaction import Command
from headway.core.errors import HeadwayError, NotFound, Unavailable, for_log
from headway.core.model import JobId
from headway.settings import Settings
from headway.storage.protocol import Storage
from headway.store.protocol import JobFilter, LogRange, Store
from headway_wire.sync import LOGS as LOG_STREAMS

log = structlog.get_logger()

LOGS = "logs"
JOINED = f"{LOGS}/joined"
ENDED_PIECES = 8  # An ended attempt is joined from this many pieces of one output on.
JOBS_AT_ONCE = 200
KEYS_AT_ONCE = 500
REST_S = 60.0  # How long a loose object stays, for those who have just read the index.
ORPHAN_S = 3600.0  # How long an object that nobody names stays, for its agent may not have named it yet.
SWEEP_EVERY_S = 1800.0
LOOKED_BACK = 200  # After a start: how many of the newest jobs are looked at for pieces to join.
LOOK_EVERY_S = 1.0

AttemptRef = tuple[JobId, int]


class Housekeeping:
    def __init__(
        self,
        store: Store,
        storage: Storage,
        control: Control,
        settings: Settings,
        now: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
        new_name: Callable[[], str] = lambda: secrets.token_hex(8),
        also: Iterable[Callable[[], None]] = (),
    ) -> None:
        self._store = store
        self._storage = storage
        self._control = control
        self._settings = settings
        self._now = now
        self._mono = mono
        self._new_name = new_name
        self._also = tuple(also)
        self._lock = threading.Lock()
        self._pieces: dict[AttemptRef, Counter[tuple[int, int, str]]] = {}  # How many were indexed since the last join.
        self._loose: dict[str, float] = {}  # Key -> since when it may be nobody's.
        self._unnamed: dict[str, float] = {}  # Key -> since when nobody names it although its node is heard.
        self._swept_at: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="housekeeping", daemon=True)

    # --- from other threads -----------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def note(self, ranges: Iterable[LogRange]) -> None:
        """Take note of pieces that were indexed. Called after every commit, so it only counts."""
        with self._lock:
            for piece in (each for each in ranges if each.stream in LOG_STREAMS):
                counts = self._pieces.setdefault((piece.job, piece.attempt), Counter())
                counts[piece.task, piece.rank, piece.stream] += 1

    def dropped(self, keys: Iterable[str]) -> None:
        """Take note of objects that fewer ranges name than before."""
        mono = self._mono()
        with self._lock:
            for key in keys:
                self._loose[key] = mono

    # --- the rounds -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._guarded(self.look_back)
        while not self._stop.is_set():
            self.round()
            self._stop.wait(self._settings.housekeeping_every_s)

    def round(self) -> None:
        """One round of everything. What fails is said and tried again in the next one."""
        for part in (self.drop_old, self.join_small):
            if not self._stop.is_set():
                self._guarded(part)
        for part in (self.delete_loose, self.sweep_orphans, *self._also):
            if not self._stop.is_set():
                self._guarded(part, deletes=True)

    def _guarded(self, part: Callable[[], None], deletes: bool = False) -> None:
        troubles, name = self._control.cycle.troubles, f"housekeeping: {part.__name__}"
        try:
            if deletes and self._store.deletions_held():
                return  # Somebody copies everything.
            part()
            troubles.pop(name, None)
        except Exception as error:
            said = error.message if isinstance(error, HeadwayError) else repr(error)
            troubles[name] = said
            log.warning("housekeeping failed", part=part.__name__, error=for_log(error))

    def look_back(self) -> None:
        """After a start: count the pieces of jobs that are under way, and of those that ended just before."""
        jobs = {job.id: job for job in self._store.unfinished() if job.attempt is not None}
        jobs |= {job.id: job for job in self._store.page(JobFilter(), None, LOOKED_BACK)}
        for job in jobs.values():
            self.note(self._store.logs(job.id, job.number))

    # --- retention --------------------------------------------------------------------------------------------------

    def drop_old(self) -> None:
        """The logs of jobs that ended long ago leave the index."""
        while not self._stop.is_set():
            old = self._store.ended_before(self._now() - self._settings.log_keep_s, JOBS_AT_ONCE)
            pieces = tuple(piece for job in old for piece in self._store.logs(job))
            if pieces:
                self._do(SwapLogs(pieces))
                self.dropped(piece.key for piece in pieces)
            if len(old) < JOBS_AT_ONCE or not pieces:
                return

    # --- joining ----------------------------------------------------------------------------------------------------

    def join_small(self) -> None:
        """Join the pieces of outputs that have many, and of attempts that have just ended."""
        with self._lock:
            noted = {ref: max(counts.values()) for ref, counts in self._pieces.items()}
        ended = self._ended(noted)
        for ref, most in noted.items():
            least = ENDED_PIECES if ref in ended else self._settings.log_compact_ranges
            if most >= least and not self._stop.is_set():
                self._join_attempt(ref, least)
            if ref in ended or most >= least:
                with self._lock:
                    self._pieces.pop(ref, None)

    def _ended(self, refs: Iterable[AttemptRef]) -> set[AttemptRef]:
        """Which of these attempts get no more output: over, followed by another, or forgotten."""
        left = set(refs)
        ids = iter({job for job, _ in left})
        while some := list(islice(ids, JOBS_AT_ONCE)):
            for job in self._store.jobs(some):
                if job.attempt is not None and job.attempt.ended_at is None:
                    left.discard((job.id, job.number))
        return left

    def _join_attempt(self, ref: AttemptRef, least: int) -> None:
        found = self._store.jobs([ref[0]])
        if not found:
            return
        # A small part of the limit, so that trimming finds pieces that are not much larger than what it keeps.
        bytes_max = min(JOINED_BYTES_MAX, found[0].spec.log_bytes_max // 8)
        logs = [piece for piece in self._store.logs(*ref) if piece.stream in LOG_STREAMS]
        for join in to_join(logs, least, bytes_max):
            try:
                self._join(join)
            except NotFound as error:
                log.error("part of a log is missing in storage", job=ref[0], attempt=ref[1], error=error.message)

    def _join(self, join: Join) -> None:
        first = join.parts[0]
        data = b"".join(self._read(part) for part in join.parts)
        place = f"{first.job}-{first.attempt}-{first.task}-{first.rank}-{first.stream}-{first.start}"
        key = f"{JOINED}/{place}-{self._new_name()}"
        self._storage.put(key, data)
        # What was read or stored damaged would be all that is left: the parts go only when both agree once more.
        if not self._storage.local_dir() and self._storage.get(key) != b"".join(
            self._read(part) for part in join.parts
        ):
            self.dropped([key])
            raise NotFound(f'what was joined as "{key}" is not what its parts say; they stay')
        last = join.parts[-1]
        one = LogRange(*first.of, first.start, last.end, key, 0, last.at, zlib.crc32(data), join.times)
        try:
            if self._do(SwapLogs(join.parts, (one,))):
                self.dropped(part.key for part in join.parts)
        finally:
            # Nobody names the new object if the swap was refused; if it was not, this look at it finds that out.
            self.dropped([key])

    def _read(self, part: LogRange) -> bytes:
        size = part.end - part.start
        data = self._storage.get(part.key, part.key_offset, part.key_offset + size)
        if len(data) != size:
            raise NotFound(f'storage has {len(data)} of {size} bytes at {part.key_offset} of "{part.key}"')
        if not is_intact(part, data):
            # Joined, they would get a checksum of their own, and nobody could tell any more.
            raise NotFound(f'the {size} bytes at {part.key_offset} of "{part.key}" are damaged')
        return data

    # --- deleting ---------------------------------------------------------------------------------------------------

    def delete_loose(self) -> None:
        """Delete objects that have been loose for a while and that no range names."""
        mono = self._mono()
        with self._lock:
            due = iter([key for key, since in self._loose.items() if mono - since >= REST_S])
        while some := list(islice(due, KEYS_AT_ONCE)):
            self._delete(self._unnamed_of(some))
            with self._lock:
                for key in some:
                    self._loose.pop(key, None)

    def sweep_orphans(self) -> None:
        """Delete objects that nobody has named for long: left by a crash, by an agent that ended, or refused."""
        mono = self._mono()
        if self._swept_at is not None and mono - self._swept_at < SWEEP_EVERY_S:
            return
        self._swept_at = mono
        before, self._unnamed = self._unnamed, {}
        present, heard = self._nodes()
        old = (kept.key for kept in self._storage.list(LOGS) if self._now() - kept.at > ORPHAN_S)
        while some := list(islice(old, KEYS_AT_ONCE)):
            unnamed = self._unnamed_of(some)
            self._delete([key for key in unnamed if self._is_orphan(key, before, present, heard)])

    def _is_orphan(self, key: str, before: dict[str, float], present: set[str], heard: set[str]) -> bool:
        """Whether its maker had time to name it. An agent that could not call home may still hold what it wrote, so
        what counts is not the object's age, but how long we have known it while its node was being heard.
        """
        maker = key.split("/")[1]
        if maker not in present:
            return True
        if maker in heard:
            since = self._unnamed[key] = before.get(key, self._mono())
            return self._mono() - since >= ORPHAN_S
        return False

    def _nodes(self) -> tuple[set[str], set[str]]:
        """The nodes that there are, and those that we have been hearing."""
        present = {node.id for node in self._store.nodes() if node.gone_at is None}
        sessions = list(self._control.cycle.sessions.items())
        return present, {node for node, session in sessions if session.agent_epoch and not session.silent}

    def _unnamed_of(self, keys: list[str]) -> list[str]:
        named = self._store.key_in_use(keys)
        return [key for key in keys if key not in named]

    def _delete(self, keys: list[str]) -> None:
        if keys:
            self._storage.delete(keys)
            log.info("objects deleted", count=len(keys))

    def _do(self, command: Command) -> Any:
        """Wait for the answer however long it takes: while a swap may still be saved, nothing may be deleted."""
        future = self._control.do(command)
        while not self._stop.is_set():
            try:
                return future.result(timeout=LOOK_EVERY_S)
            except TimeoutError:
                if future.done():
                    raise
        raise Unavailable("the server is stopping")
