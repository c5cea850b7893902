"""The story that a job's logs tell: attempts in order, with a marked line between them, exact to the byte.

Narrowed to one attempt it adds nothing to the bytes. Several ranks are told line by line, each with its name, in the
order of time. Where the bytes come from is the source's business (sdk.Client); where they go is the reader's.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headway.client.log_lines import LogLine, StoryPiece, in_time, lines_of, prefixed
from headway.core.errors import NotFound
from headway.core.steps import STEP, explain_resume

MARK = "── headway: "
BLOCK_BYTES = 64 * 1024
HOLD_S = 20.0  # How long the server may hold an answer of a followed log.
ROUND_S = 0.2  # Pause between two rounds over the files of a gang.
LOOK_FIRST_S = 0.02
LOOK_S_MAX = 1.0

File = Mapping[str, Any]
Slot = tuple[int, int, str]
Times = Sequence[tuple[int, float]]
"""Ends of pieces of a file, in order, each with the time at which its last byte was written, as far as is known."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read of a log file gave."""

    data: bytes
    following: int  # The offset to go on from.
    skipped: int  # Bytes that the log limit left out before `data`.
    done: bool  # The file cannot grow any more, and this was its end.
    damaged: int = 0  # Of the skipped: bytes that storage has lost or damaged.
    times: Times = ()


class Source(Protocol):
    def detail(self, ref: str) -> dict[str, Any]: ...
    def wait(self, ref: str, timeout_s: float | None = None) -> tuple[dict[str, Any], bool]: ...
    def logs_index(self, ref: str, fresh: bool = False, times: bool = False) -> list[dict[str, Any]]: ...
    def logs_raw(
        self,
        ref: str,
        attempt: int,
        offset: int,
        *,
        task: int = 0,
        rank: int = 0,
        stream: str = "out",
        limit: int = 1 << 20,
        wait_s: float = 0.0,
    ) -> Chunk: ...


class Story:
    """The logs of one job, told once (`tell`) or as they grow (`follow`)."""

    def __init__(
        self,
        source: Source,
        job: str,
        *,
        attempt: int | str | None = None,
        rank: int | None = None,
        tail: int | None = None,
        since_at: float | None = None,
        until_at: float | None = None,
        merge: bool = True,
        on_wait: Callable[[dict[str, Any]], None] = lambda detail: None,
    ) -> None:
        self.source = source
        self.job = job
        self.attempt = attempt
        self.rank = rank
        self.tail = tail
        self.since_at = since_at
        self.until_at = until_at
        self.merge = merge  # Ranks in the order of time; else one after the other.
        self.on_wait = on_wait
        self.ended: dict[str, Any] | None = None  # The job's detail, once a followed story is over.
        self._timed_at_all = since_at is not None or until_at is not None
        self._several = False  # Whether lines need the name of their rank.
        self._mid_line = False

    def tell(self) -> Iterator[StoryPiece]:
        """Everything that there is now."""
        for attempt in self._told_attempts():
            yield from prefixed(attempt)

    def follow(self) -> Iterator[StoryPiece]:
        """Everything that there is and that will come, across attempts, until the job (or the chosen attempt) ends."""
        for attempt in self._followed_attempts():
            yield from prefixed(attempt)

    def lines(self, follow: bool = False, name: str = "") -> Iterator[LogLine]:
        """The same, line by line, each with its rank and its time; `name` is for lines of several jobs."""
        self._timed_at_all = True
        for attempt in self._followed_attempts() if follow else self._told_attempts():
            yield from lines_of(attempt, name)

    def _told_attempts(self) -> Iterator[Iterator[StoryPiece]]:
        detail = self.source.detail(self.job)
        self.job = detail["id"]
        chosen = self._chosen(detail)
        timed = self._timed_at_all or _ranks(detail) > 1
        index = {each["number"]: each for each in self.source.logs_index(self.job, fresh=True, times=timed)}
        self._check_rank(detail, index)
        starts = self._starts(index, chosen)
        for number in chosen:
            if number in starts:
                yield self._told_attempt(detail, index[number], starts[number])

    def _told_attempt(
        self, detail: Mapping[str, Any], entry: Mapping[str, Any], starts: Mapping[Slot, int]
    ) -> Iterator[StoryPiece]:
        self._several = self._many(detail, entry["files"])
        yield from self._between(detail, entry["number"])
        yield from self._told(entry["number"], entry["files"], starts)

    def _followed_attempts(self) -> Iterator[Iterator[StoryPiece]]:
        detail, over = self._first_attempt()
        chosen = self._chosen(detail)
        self._check_rank(detail, {})
        starts: dict[int, dict[Slot, int]] = {}
        if self.tail is not None or self.since_at is not None:
            index = {each["number"]: each for each in self.source.logs_index(self.job, times=self._timed_at_all)}
            starts = self._starts(index, chosen)
            chosen = [number for number in chosen if number in starts] or chosen[-1:]
        while chosen:
            for number in chosen:
                yield self._followed_attempt(detail, number, starts.get(number, {}))
            if self.attempt is not None:
                break
            detail, over = self._next_attempt(chosen[-1])
            chosen = list(range(chosen[-1] + 1, detail["attempt"] + 1))
        self.ended = detail if over else self.source.wait(self.job, HOLD_S if self.attempt else None)[0]

    def _followed_attempt(
        self, detail: Mapping[str, Any], number: int, starts: Mapping[Slot, int]
    ) -> Iterator[StoryPiece]:
        self._several = self._many(detail, ())
        yield from self._between(detail, number)
        yield from self._followed(detail, number, starts)

    # --- which attempts, and from where -----------------------------------------------------------------------------

    def _chosen(self, detail: Mapping[str, Any]) -> list[int]:
        newest = int(detail["attempt"] or 0)
        if self.attempt is None:
            return list(range(1, newest + 1))
        wanted = newest if self.attempt == "last" else int(self.attempt)
        if not 1 <= wanted <= newest:
            had = "no attempt yet" if newest == 0 else f"{newest} attempt{'s' if newest > 1 else ''}"
            raise NotFound(f'attempt {self.attempt}: job "{detail["id"]}" has {had}')
        return [wanted]

    def _check_rank(self, detail: Mapping[str, Any], index: Mapping[int, Mapping[str, Any]]) -> None:
        """A rank that the job does not have is an error: it would be waited for, or show nothing, without a word."""
        count = _ranks(detail)
        there = {file["rank"] for entry in index.values() for file in entry["files"]}
        if self.rank is not None and self.rank >= count and self.rank not in there:
            has = "rank 0 only" if count == 1 else f"ranks 0 to {count - 1}"
            raise NotFound(f'job "{detail["id"]}" has no rank {self.rank}', f"it has {has}")

    def _many(self, detail: Mapping[str, Any], files: Sequence[File]) -> bool:
        """Whether lines need the name of their rank: only when more than one is told."""
        return self.rank is None and (_ranks(detail) > 1 or len({(file["task"], file["rank"]) for file in files}) > 1)

    def _starts(self, index: Mapping[int, Mapping[str, Any]], chosen: list[int]) -> dict[int, dict[Slot, int]]:
        """For each attempt that is to be shown, the offset at which each of its files begins."""
        starts: dict[int, dict[Slot, int]] = {}
        left = self.tail
        for number in reversed([each for each in chosen if each in index]):
            files = self._wanted(index[number]["files"])
            if left is not None and left <= 0 and starts:
                break
            begun = {_key(file): self._since(number, file) for file in files}
            if self.since_at is not None and files and all(start is None for start in begun.values()):
                continue
            offsets = {key: start or 0 for key, start in begun.items()}
            if left is not None:
                counted = 0
                for file in files:
                    start, lines = self._tail_start(number, file, left)
                    offsets[_key(file)] = max(start, offsets[_key(file)])
                    counted = max(counted, lines)
                left -= counted
            starts[number] = offsets
        return starts

    def _wanted(self, files: list[File]) -> list[File]:
        return [file for file in files if self.rank is None or file["rank"] == self.rank]

    def _since(self, number: int, file: File) -> int | None:
        """Where the first line begins that came after `since_at`; None when nothing did."""
        if self.since_at is None:
            return 0
        later = [start for start, _, at in file["ranges"] if at >= self.since_at]
        if not later:
            return None
        low = max((start for start, end in file["kept"] if start <= later[0]), default=0)
        begin = max(low, later[0] - BLOCK_BYTES)
        before = self._exact(number, file, begin, later[0])
        return begin + before.rfind(b"\n") + 1 if before else int(later[0])

    def _tail_start(self, number: int, file: File, lines: int) -> tuple[int, int]:
        """Where the last `lines` lines of a file begin, and how many there are (at most that many)."""
        size = int(file["bytes"])
        if lines <= 0 or size == 0:
            return size, 0
        found = 0
        for low, high in reversed([(int(a), int(b)) for a, b in file["kept"]] or [(0, size)]):
            end = high
            while end > low:
                begin = max(low, end - BLOCK_BYTES)
                block = self._exact(number, file, begin, end)
                at = len(block) - 1 if end == size and block.endswith(b"\n") else len(block)
                while (at := block.rfind(b"\n", 0, at)) >= 0:
                    found += 1
                    if found == lines:
                        return begin + at + 1, lines
                end = begin
        return 0, found + 1

    def _exact(self, number: int, file: File, begin: int, end: int) -> bytes:
        data = b""
        while begin < end:
            chunk = self._raw(number, file, begin, limit=end - begin)
            if not chunk.data or chunk.skipped:
                break
            data += chunk.data
            begin = chunk.following
        return data

    # --- one attempt -------------------------------------------------------------------------------------------------

    def _told(self, number: int, files: list[File], starts: Mapping[Slot, int]) -> Iterator[StoryPiece]:
        several = [self._timed(number, file, starts.get(_key(file), 0)) for file in self._wanted(files)]
        if self.merge:
            yield from in_time(several)
            return
        for each in several:
            yield from each

    def _timed(self, number: int, file: File, offset: int) -> Iterator[StoryPiece]:
        """A file from an offset on, in pieces of one time each, until the time that was asked for."""
        times = [(int(end), float(at)) for _, end, at in file["ranges"]]
        while offset < int(file["bytes"]):
            chunk = self._raw(number, file, offset, limit=min(1 << 20, int(file["bytes"]) - offset))
            yield from self._gap(chunk)
            if chunk.following <= offset:
                return
            for piece in self._cut(chunk, file, times):
                if self.until_at is not None and piece.at is not None and piece.at > self.until_at:
                    return
                yield piece
            offset = chunk.following
            if chunk.done:
                return

    def _cut(self, chunk: Chunk, file: File, times: Times) -> Iterator[StoryPiece]:
        """The bytes of one read, cut where their time changes."""
        start = chunk.following - len(chunk.data)
        ends = [end for end, _ in times]
        at = start
        while at < chunk.following:
            found = bisect_right(ends, at)
            end, when = times[found] if found < len(times) else (chunk.following, None)
            end = min(end, chunk.following)
            yield self._out(chunk.data[at - start : end - start], file, when)
            at = end

    def _followed(self, detail: Mapping[str, Any], number: int, starts: Mapping[Slot, int]) -> Iterator[StoryPiece]:
        if _ranks(detail) == 1 and detail["spec"].get("streams") != "split":
            file = {"task": 0, "rank": 0, "stream": "out"}
            yield from self._followed_file(number, file, starts.get(_key(file), 0))
        else:
            yield from self._followed_files(number, starts)

    def _followed_file(self, number: int, file: File, offset: int) -> Iterator[StoryPiece]:
        begun, look_s = offset > 0, LOOK_S_MAX / 2
        while True:
            chunk = self._raw(number, file, offset, wait_s=HOLD_S if begun else look_s)
            yield from self._gap(chunk)
            yield from self._cut(chunk, file, chunk.times or [(chunk.following, time.time())])
            offset = chunk.following
            if chunk.done:
                return
            begun, look_s = begun or bool(chunk.data) or self._runs(), LOOK_S_MAX

    def _runs(self) -> bool:
        """Whether the job has come so far that its own output is what is waited for. Until then it is told how far."""
        detail, over = self.source.wait(self.job, 0.0)
        if not over:
            self.on_wait(detail)
        return over or detail["state"] not in ("queued", "starting")

    def _followed_files(self, number: int, starts: Mapping[Slot, int]) -> Iterator[StoryPiece]:
        offsets = dict(starts)
        done: set[Slot] = set()
        begun, look_at = False, 0.0
        while True:
            attempts = self.source.logs_index(self.job, times=not begun)
            attempt = next((each for each in attempts if each["number"] == number), None)
            files = self._wanted(attempt["files"]) if attempt else []
            if files and not begun:
                begun = True
                yield from self._told(number, files, starts)  # What was there before, in its own order.
                offsets |= {_key(file): max(int(file["bytes"]), starts.get(_key(file), 0)) for file in files}
            grown: list[list[StoryPiece]] = []
            for file in files:
                key = _key(file)
                if key in done:
                    continue
                chunk = self._raw(number, file, offsets.get(key, 0))
                cut = self._cut(chunk, file, chunk.times or [(chunk.following, time.time())])
                grown.append([*self._gap(chunk), *cut])
                offsets[key] = chunk.following
                if chunk.done:
                    done.add(key)
            yield from in_time(grown)
            if attempt and attempt["state"] == "ended" and all(_key(file) in done for file in files):
                return
            if not begun and time.monotonic() >= look_at:
                look_at = float("inf") if self._runs() else time.monotonic() + LOOK_S_MAX
            if not any(grown):
                time.sleep(ROUND_S)

    def _raw(self, number: int, file: File, offset: int, limit: int = 1 << 20, wait_s: float = 0.0) -> Chunk:
        return self.source.logs_raw(
            self.job,
            number,
            offset,
            task=file["task"],
            rank=file["rank"],
            stream=file["stream"],
            limit=limit,
            wait_s=wait_s,
        )

    # --- between attempts -------------------------------------------------------------------------------------------

    def _first_attempt(self) -> tuple[dict[str, Any], bool]:
        detail, over = self._next_attempt(0)
        self.job = detail["id"]
        return detail, over

    def _next_attempt(self, after: int) -> tuple[dict[str, Any], bool]:
        """Wait until there is a newer attempt, or the job has ended."""
        look_s = LOOK_FIRST_S
        while True:
            detail, over = self.source.wait(self.job, look_s)
            if over or int(detail["attempt"] or 0) > after:
                return detail, over
            self.on_wait(detail)
            look_s = min(look_s * 2, LOOK_S_MAX)

    def _between(self, detail: Mapping[str, Any], number: int) -> Iterator[StoryPiece]:
        """The marked line before an attempt that is not the first."""
        if self.attempt is not None or number == 1:
            return
        attempts = {each["number"]: each for each in detail["attempts"]}
        nodes = ", ".join(dict.fromkeys(task["node"] for task in attempts.get(number, {}).get("tasks", ())))
        before = attempts.get(number - 1, {})
        why = before.get("sentence") or before.get("cause") or f"attempt {number - 1}"
        here = attempts.get(number, {})
        begins = here.get("set_back") or explain_resume(here.get("resumed_step"), here.get("resumed_unit") or STEP)
        more = f"; it {begins}" if begins else ""
        said = f"attempt {number}{' on ' + nodes if nodes else ''}, after: {why}{more}"
        yield self._remark(said, here.get("started_at") or here.get("placed_at"))

    def _gap(self, chunk: Chunk) -> Iterator[StoryPiece]:
        for count, said in (
            (chunk.skipped - chunk.damaged, "bytes are left out here: the log is larger than its limit"),
            (chunk.damaged, "bytes are not shown here: storage has lost or damaged them"),
        ):
            if count > 0:
                said = f"{count:,} {said}"
                yield self._gap_piece(said)

    def _gap_piece(self, said: str) -> StoryPiece:
        if self.attempt is None:
            return self._remark(said)
        return StoryPiece(f"headway: {said}\n".encode(), "talk", remark=True)

    def _remark(self, said: str, at: float | None = None) -> StoryPiece:
        start = "\n" if self._mid_line else ""
        self._mid_line = False
        return StoryPiece(f"{start}{MARK}{said} ──\n".encode(), at=at, remark=True)

    def _out(self, data: bytes, file: File, at: float | None) -> StoryPiece:
        rank = int(file["rank"]) if self._several else None
        if data and file["stream"] == "out" and rank is None:
            self._mid_line = not data.endswith(b"\n")
        return StoryPiece(data, file["stream"], at, rank)


def _key(file: File) -> tuple[int, int, str]:
    return int(file["task"]), int(file["rank"]), str(file["stream"])


def _ranks(detail: Mapping[str, Any]) -> int:
    spec = detail.get("spec") or {}
    return int(spec.get("nodes", 1)) * int(spec.get("ranks_per_node", 1))
