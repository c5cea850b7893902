"""When a task has had enough: from samples of what it uses to warnings, a stack dump, and its end.

Pure; the order is always the same: warn, stop with grace, kill (the keeper's part). sampler.py takes the samples,
loop/agent.py acts on what is found here. Memory that a control group limits is the kernel's business, not ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_wire import causes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

WARN_AT = 0.9  # Of a limit of size.
WARN_STALLED_AT = 0.5  # Of the time without a sign of life.
PERIOD_S, PERIOD_S_MIN = 1.0, 0.1


@dataclass(frozen=True)
class Sample:
    """What a task uses, and its signs of life: sizes of logs and metrics, its checkpoints, bytes written to disk."""

    memory_bytes: int = 0
    output_bytes: int = 0
    signs: Any = None  # Anything; only whether it changes counts.


@dataclass
class Watch:
    """One task that is limited. `grouped`: the kernel sees to its memory."""

    task: str
    limits: Mapping[str, Any]
    pids: tuple[int, ...] = ()
    grouped: bool = False
    grace_s: float = 30.0
    signs: Any = None
    moved_at_s: float = 0.0
    warned: set[str] = field(default_factory=set)
    written: dict[int, int] = field(default_factory=dict)  # To disk, by process, as last seen.
    written_bytes: int = 0
    ended: bool = False

    @property
    def memory_bytes_max(self) -> int:
        return 0 if self.grouped else int(self.limits.get("memory_bytes") or 0)

    @property
    def output_bytes_max(self) -> int:
        return int(self.limits.get("output_bytes") or 0)

    @property
    def stalled_s(self) -> float:
        return float(self.limits.get("stalled_s") or 0.0)

    @property
    def needed(self) -> bool:
        return bool(self.memory_bytes_max or self.output_bytes_max or self.stalled_s)


@dataclass(frozen=True)
class LimitVerdict:
    """What is to be done: `warn` (an empty detail takes a warning back), or `stop`, with a stack dump before it."""

    do: str
    what: str
    detail: str = ""
    cause: str = ""
    grace_s: float = 0.0
    dump: bool = False


def period_s(watch: Watch) -> float:
    """How often to look: memory can grow fast, and a short patience needs a closer look."""
    if watch.stalled_s:
        return max(PERIOD_S_MIN, min(PERIOD_S, watch.stalled_s / 10))
    return PERIOD_S / 4 if watch.memory_bytes_max else PERIOD_S


def judge(watch: Watch, sample: Sample, now: float) -> list[LimitVerdict]:
    """What follows from one sample. A task is stopped once, for the first limit that it goes beyond."""
    if watch.ended:
        return []
    found = _memory(watch, sample) + _output(watch, sample) + _stalled(watch, sample, now)
    stops = [each for each in found if each.do == "stop"]
    if stops:
        watch.ended = True
    return [each for each in found if each.do != "stop"] + stops[:1]


def _memory(watch: Watch, sample: Sample) -> list[LimitVerdict]:
    most, used = watch.memory_bytes_max, sample.memory_bytes
    if not most:
        return []
    if used > most:
        said = f"it used {show(used)} of memory; its limit is {show(most)}"
        return [LimitVerdict("stop", "memory", said, causes.OUT_OF_MEMORY)]
    return _warn(watch, "memory", used > most * WARN_AT, f"uses {show(used)} of its {show(most)} of memory")


def _output(watch: Watch, sample: Sample) -> list[LimitVerdict]:
    most, used = watch.output_bytes_max, sample.output_bytes
    if not most:
        return []
    if used > most:
        said = f"its checkpoints and output take {show(used)}; its limit is {show(most)}"
        return [LimitVerdict("stop", "output", said, causes.OUTPUT_LIMIT, watch.grace_s)]
    return _warn(watch, "output", used > most * WARN_AT, f"has written {show(used)} of the {show(most)} that it may")


def _stalled(watch: Watch, sample: Sample, now: float) -> list[LimitVerdict]:
    if not watch.stalled_s:
        return []
    if sample.signs != watch.signs or not watch.moved_at_s:
        watch.signs, watch.moved_at_s = sample.signs, now
    still_s = now - watch.moved_at_s
    said = f"no log line, metric, checkpoint or disk write for {still_s:.0f} s"
    if still_s >= watch.stalled_s:
        return [LimitVerdict("stop", "stalled", said, causes.STALLED, watch.grace_s, dump=True)]
    warning = f"{said}; it is stopped after {watch.stalled_s:.0f} s"
    return _warn(watch, "stalled", still_s >= watch.stalled_s * WARN_STALLED_AT, warning)


def _warn(watch: Watch, what: str, wrong: bool, detail: str) -> list[LimitVerdict]:
    """Say it once when it begins, and once when it is over."""
    if wrong == (what in watch.warned):
        return []
    if wrong:
        watch.warned.add(what)
        return [LimitVerdict("warn", what, detail)]
    watch.warned.discard(what)
    return [LimitVerdict("warn", what)]


def show(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
