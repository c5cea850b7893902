"""A rehearsal: a job is run until it has saved, preempted once, and watched until it shows whether it went on.

Drives a job that is submitted already, and notes what is seen; core/rehearsal/verdict.py says what it means. Leaves the
job running: who began it ends it.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from headway.client import traces
from headway.core.errors import Conflict, HeadwayError, NotFound
from headway.core.rehearsal import log_counters
from headway.core.rehearsal.verdict import Half, Observations, SaveSeen, as_people_know_it, interval_s, show_step
from headway.core.units import show_duration, show_size

if TYPE_CHECKING:
    from headway.client.sdk import Client

LOOK_S = 0.3
SAVES_WANTED = 2  # The second one shows how often it saves, and lets the log count for a while.
RUN_S_MIN = 2.0
SECOND_S_MIN = 10.0
WATCH_S_MIN = 20.0  # How long the next attempt is watched at least before "nobody can tell" is said.
LINGER_S = 2.0  # Who has begun to go on may fail on its next step, or on another rank.
OPENED_EVERY_S = 1.0
LAST_LINES = 6
LOG_BYTES_MAX = 4 << 20

Detail = Mapping[str, Any]


class Teller(Protocol):
    """Who is told what happens: lines that stay, and one that changes."""

    def say(self, sentence: str) -> None: ...
    def live(self, sentence: str) -> None: ...


@dataclass
class Log:
    """What one attempt has written so far, file by file."""

    offsets: dict[tuple[int, int, str], int] = field(default_factory=dict)
    texts: dict[tuple[int, int, str], bytes] = field(default_factory=dict)

    def lines(self, key: tuple[int, int, str]) -> list[str]:
        """Whole lines only: half a number is another number."""
        whole = self.texts.get(key, b"").replace(b"\r", b"\n").rpartition(b"\n")[0]
        return log_counters.lines_of(whole.decode("utf-8", "replace"))

    def last_lines(self, rank: int) -> list[str]:
        """The last words of a rank: what it said on stderr, where that is a file of its own."""
        told = [self.texts[key] for key in sorted(self.texts, key=lambda key: key[2]) if key[1] == rank]
        said = next((text for text in told if text.strip()), b"")
        return log_counters.lines_of(said.decode("utf-8", "replace"))[-LAST_LINES:]


class Rehearsal:
    def __init__(self, client: Client, job: str, within_s: float, teller: Teller) -> None:
        self.client, self.job, self.within_s, self.teller = client, job, within_s, teller
        self.detail: Detail = client.detail(job)
        self.began_s: dict[int, float] = {}  # By attempt: when it was first seen to run, on our own clock.
        self.logs: dict[int, Log] = {}
        self.saves: dict[int, dict[int, SaveSeen]] = {}  # By attempt and step.
        self.partial: dict[int, dict[int, SaveSeen]] = {}  # Those that not all nodes have which must.
        self.told = 0  # The attempt that was given notice.
        self.notice_at_s: float | None = None
        self.seen = Observations(within_s, Half())

    def observe(self) -> Observations:
        spec = self.detail["spec"]
        self.seen = replace(
            self.seen,
            nodes=int(spec.get("nodes") or 1),
            grace_s=float(spec.get("grace") or 30.0),
            in_place=not spec.get("bundle"),
        )
        number = self._until_it_has_saved()
        if number and self._preempt(number):
            self._until_the_next_runs(number)
            self._watch(number)
        return self._noted(number)

    # --- the first attempt ---

    def _until_it_has_saved(self) -> int:
        """Wait for two saves, or as long as it is worth; returns the attempt, or 0 if there is none to preempt."""
        while True:
            over = self._look()
            number = int(self.detail["attempt"] or 0)
            if over:
                return 0
            if self.detail["state"] != "running":
                self._tell_waiting()
                continue
            ran_s = self._ran_s(number)
            saved = len(self.saves.get(number, {}))
            if (saved >= SAVES_WANTED and ran_s >= RUN_S_MIN) or ran_s > self._patience_s(number):
                return number
            self.teller.live(f"runs ({show_duration(ran_s)}){_so_far(saved)}")

    def _patience_s(self, number: int) -> float:
        """How long the first attempt may run: for the second save about as long again as for the first."""
        saves = self._saves_of(number)
        if not saves:
            return self.within_s
        return min(self.within_s + SECOND_S_MIN, 2 * saves[0].at_s + SECOND_S_MIN)

    def _preempt(self, number: int) -> bool:
        """Look at what it has written, and let it make room; False if it has ended meanwhile."""
        words = [str(word) for word in self.detail["spec"].get("command") or ()]
        self.seen = replace(self.seen, files=traces.written(self.client, self.job, self._ran_s(number), words))
        self._look()
        try:
            self.client.preempt(self.job)
        except (Conflict, NotFound):
            self._look()
            return False
        self.told, self.notice_at_s = number, time.monotonic()
        self.teller.say(f"preempting it once, with {show_duration(self.seen.grace_s)} to save in")
        return True

    # --- the second ---

    def _until_the_next_runs(self, number: int) -> None:
        while True:
            over = self._look()
            ended = self._attempt(number).get("ended_at") is not None
            if ended and self.seen.notice_s == 0.0 and self.notice_at_s is not None:
                self.seen = replace(self.seen, notice_s=time.monotonic() - self.notice_at_s)
            if over or (int(self.detail["attempt"] or 0) > number and self.detail["state"] == "running"):
                return
            if ended:
                self._tell_waiting()
            else:
                self.teller.live(
                    f"told to end; it has its grace ({show_duration(time.monotonic() - (self.notice_at_s or 0.0))})"
                )

    def _watch(self, before: int) -> None:
        """Until the next attempt has shown whether it went on, has ended, or has had its time."""
        number = int(self.detail["attempt"] or 0)
        if number <= before:
            return
        resumed = self._attempt(number).get("resumed_step")
        save = self.saves.get(before, {}).get(resumed) if resumed is not None else None
        unit = save.unit if save else ""
        put_back = "with nothing" if resumed is None else f"from the checkpoint of {show_step(resumed, unit)}"
        self.teller.say(f"attempt {number} runs, {put_back}")
        opened, look_at_s, shown_s = traces.Opened(self._names(before, resumed)), 0.0, math.inf
        while True:
            over = self._look()
            if over or int(self.detail["attempt"] or 0) > number or (resumed is None and not self.seen.files):
                return
            ran_s = self._ran_s(number)
            saved = bool(self.saves.get(number))
            if not opened.read and (time.monotonic() >= look_at_s or saved):
                look_at_s = time.monotonic() + OPENED_EVERY_S
                opened.look(self.client, self.job, ran_s)
            read = None if opened.read is False and self._too_late(before, number, opened.untouched_s) else opened.read
            self.seen = replace(self.seen, read=read, count=self._count(before, number))
            shown_s = min(shown_s, ran_s) if self._shown(number) else math.inf
            if ran_s >= shown_s + LINGER_S or ran_s > self._watch_s(before):
                return
            self.teller.live(f"watching attempt {number} ({show_duration(ran_s)})")

    def _too_late(self, before: int, number: int, untouched_s: float) -> bool:
        """Whether it may have opened its checkpoint after the last look that found it closed, and then saved anew."""
        saves = self._saves_of(number)
        return bool(saves) and saves[0].at_s - untouched_s > interval_s(self._saves_of(before)) / 2

    def _saves_of(self, number: int) -> tuple[SaveSeen, ...]:
        return tuple(sorted(self.saves.get(number, {}).values(), key=lambda save: save.at_s))

    def _names(self, number: int, step: int | None) -> tuple[str, ...]:
        save = self.saves.get(number, {}).get(step) if step is not None else None
        return save.names if save else ()

    def _shown(self, number: int) -> bool:
        """What it counts has shown it; or it has saved again, and counts nothing."""
        if self.seen.count is not None:
            return True
        return bool(self.saves.get(number)) and not self._counts(number - 1)

    def _watch_s(self, before: int) -> float:
        """It needs as long to start as the first attempt needed until it had saved, and some time more."""
        saves = self._saves_of(before)
        return WATCH_S_MIN + (min(2 * saves[0].at_s, self.within_s) if saves else 0.0)

    # --- one look ---

    def _look(self) -> bool:
        """Take in how the job is now; returns whether it has ended."""
        self.detail, over = self.client.wait(self.job, LOOK_S)
        number = int(self.detail["attempt"] or 0)
        if self._attempt(number).get("started_at") is not None:
            self.began_s.setdefault(number, time.monotonic())
        self._take_in_saves()
        self._take_in_logs()
        return over

    def _attempt(self, number: int) -> Detail:
        return next((each for each in self.detail["attempts"] if each["number"] == number), {})

    def _ran_s(self, number: int) -> float:
        attempt = self._attempt(number)
        if attempt.get("started_at") is not None and attempt.get("ended_at") is not None:
            return float(attempt["ended_at"] - attempt["started_at"])
        return time.monotonic() - self.began_s[number] if number in self.began_s else 0.0

    def _take_in_saves(self) -> None:
        for each in reversed(self.client.checkpoints(self.job)):
            of_attempt = self.saves.setdefault(each["attempt"], {})
            if not each["complete"]:
                self.partial.setdefault(each["attempt"], {})[each["step"]] = self._save(each, named=False)
            elif each["step"] not in of_attempt and each["resumable"]:
                save = of_attempt[each["step"]] = self._save(each)
                if (len(of_attempt) <= SAVES_WANTED and self.notice_at_s is None) or save.on_notice:
                    self.teller.say(_told(save))

    def _save(self, each: Mapping[str, Any], named: bool = True) -> SaveSeen:
        began_at = self._attempt(each["attempt"]).get("started_at") or each["at"]
        try:
            files = self.client.checkpoint_files(self.job, each["step"]) if named else []
        except HeadwayError:
            files = []  # Perhaps a newer one has taken its place already.
        return SaveSeen(
            step=int(each["step"]),
            at_s=max(0.0, each["at"] - began_at),
            bytes=int(each["bytes"]),
            how=str(each["how"]),
            unit=str(each.get("unit") or ""),
            names=tuple(dict.fromkeys(str(file["path"]) for file in files)),
            tasks=tuple(int(task) for task in each.get("tasks") or ()),
            sharded=bool(each.get("sharded")),
            found=str(each.get("found") or ""),
            on_notice=self.notice_at_s is not None and each["attempt"] == self.told,
        )

    def _take_in_logs(self) -> None:
        for attempt in self.client.logs_index(self.job):
            log = self.logs.setdefault(attempt["number"], Log())
            for file in attempt["files"]:
                key = (int(file["task"]), int(file["rank"]), str(file["stream"]))
                offset = log.offsets.get(key, 0)
                if offset >= min(int(file["bytes"]), LOG_BYTES_MAX):
                    continue
                chunk = self.client.logs_raw(
                    self.job, attempt["number"], offset, task=key[0], rank=key[1], stream=key[2]
                )
                log.offsets[key] = chunk.following
                log.texts[key] = log.texts.get(key, b"") + chunk.data

    def _counts(self, number: int) -> bool:
        log = self.logs.get(number, Log())
        return any(log_counters.counts_at_all(log.lines(key)) for key in log.texts)

    def _count(self, before: int, number: int) -> log_counters.Count | None:
        """Each rank is compared with itself."""
        first, second = self.logs.get(before, Log()), self.logs.get(number, Log())
        return log_counters.best(log_counters.compare(first.lines(key), second.lines(key)) for key in first.texts)

    def _tell_waiting(self) -> None:
        self.teller.live(str(self.detail.get("sentence") or "waits"))

    # --- what was seen ---

    def _noted(self, number: int) -> Observations:
        newest = int(self.detail["attempt"] or 0)
        first = number or newest
        seen = replace(self.seen, before=self._half(first), counts=self._counts(first))
        if self.notice_at_s is None or newest <= first:
            return seen
        attempt = self._attempt(newest)
        resumed = attempt.get("resumed_step")
        save = self.saves.get(first, {}).get(resumed) if resumed is not None else None
        ends = {_signal(task.get("outcome") or {}) for task in self._attempt(first)["tasks"]}
        notice = getattr(signal, str((self.detail["spec"].get("notice") or {}).get("signal")), signal.SIGTERM)
        return replace(
            seen,
            after=self._half(newest),
            resumed_step=resumed,
            resumed_unit=save.unit if save else "",
            count=self._count(first, newest),
            killed=signal.SIGKILL in ends,
            caught=not ends & {signal.SIGTERM, notice},
        )

    def _half(self, number: int) -> Half:
        attempt = self._attempt(number)
        ended = str(attempt.get("cause") or "")
        if self.detail["state"] == "succeeded" and number == int(self.detail["attempt"] or 0):
            ended = "succeeded"
        saves = self._saves_of(number)
        sentence = str(attempt.get("sentence") or self.detail.get("sentence") or "")
        log = self.logs.get(number, Log())
        outcomes = [task.get("outcome") or {} for task in attempt.get("tasks") or ()]
        failed = next((each["rank"] for each in outcomes if each.get("exit_code") and each.get("rank") is not None), 0)
        lines = log.last_lines(failed) if ended not in ("", "succeeded", "preempted") else []
        partial = tuple(self.partial.get(number, {}).values())
        return Half(self._ran_s(number), saves, ended, sentence, tuple(lines), number, partial)


def _signal(outcome: Mapping[str, Any]) -> int:
    """The signal that ended a rank; a shell says 128 more of what ended its command."""
    code = int(outcome.get("exit_code") or 0)
    return int(outcome.get("signal") or (code - 128 if code > 128 else 0))


def _so_far(saves: int) -> str:
    return "; waiting for its second save" if saves else "; waiting for its first save"


def _told(save: SaveSeen) -> str:
    shown = [as_people_know_it(name) for name in save.names[:2]]
    names = ", ".join(shown) + (f" and {len(save.names) - 2} more" if len(save.names) > 2 else "")
    what = f"{names}, " if names else ""
    when = "saved on the notice" if save.on_notice else f"saved after {show_duration(save.at_s)}"
    return f"{when}: {what}{show_size(save.bytes)}, {show_step(save.step, save.unit)}, known as {save.how}"
