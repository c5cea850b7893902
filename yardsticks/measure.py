"""The three yardsticks: which log, which policy, which figure. Published figures stand beside ours.

Sources: KTH, Gaussier et al. (SC'15) and Tsafrir et al. (2007); Lublin-256, RLScheduler (SC'20); Tiresias (NSDI'19).
"""

from __future__ import annotations

from statistics import mean

from headway.core.model import Policy
from yardsticks import logs
from yardsticks.page import Table
from yardsticks.replay import Replay, replay, slowdown

KTH_SLICE = 1500
LUBLIN_SLICE = 2
PREEMPTIONS_MOST = 100  # Time-sharing preempts as a matter of course.
RESTART_S = 30.0


def kth(quick: bool = False) -> Table:
    """Average bounded slowdown over the whole KTH log."""
    table = Table(
        "KTH-SP2",
        "28,481 jobs of 11 months on 100 processors. Average bounded slowdown (threshold 10 s), and the worst single "
        "one. `fair` is the default policy, with shares between the log's users. A job ends at its requested time.",
        ("average", "worst"),
    )
    table.published("EASY, users' estimates", "92.58", "14,805")
    table.published("EASY, shortest first, users' estimates", "69.41", "10,017")
    _kth_row(table, quick, "`fifo`, users' estimates", Policy("fifo", estimates="limit"), 70.7)
    _kth_row(table, quick, "`fair`, users' estimates", Policy("fair", estimates="limit"), 70.7)
    table.published("EASY, shortest first, run times from history", "63.50", "")
    table.published("the best learned predictor", "45.80", "")
    table.published("EASY, shortest first, true run times known", "49.85", "9,942")
    _kth_row(table, quick, "`fifo`, run times from history", Policy("fifo"), 63.5)
    _kth_row(table, quick, "`fair`, run times from history (all defaults)", Policy(), 50.0)
    half = len(logs.read_swf(logs.KTH)) // 2
    _kth_row(table, quick, "`fair`, all defaults, second half of the log alone", Policy(), first=half)
    return table


def _kth_row(table: Table, quick: bool, what: str, policy: Policy, goal: float | None = None, first: int = 0) -> None:
    traces = logs.kth(first, KTH_SLICE if quick else None)
    replay(traces, logs.processors(100), policy)
    slow = [slowdown(trace) for trace in traces]
    average = mean(slow)
    table.measured(what, average, f"{average:.2f}", f"{max(slow):,.0f}", goal=None if quick else goal)


def lublin(quick: bool = False) -> Table:
    """Ten sequences of the Lublin model."""
    table = Table(
        "Lublin-256",
        "Ten sequences of 1,024 jobs on 256 processors, run times known: the mean over the ten of the average bounded "
        "slowdown, and the worst single one. Our `throughput` is like F1, with an even bonus for waiting.",
        ("average", "worst"),
    )
    table.published("first come, first served, with backfill", "235.82", "")
    table.published("shortest first, with backfill", "73.31", "")
    table.published("F1, with backfill", "75.07", "")
    table.published("learned (RLScheduler), with backfill", "58.64", "")
    table.published("textbook: shortest first", "42.08", "")
    table.published("textbook: F1", "35.26", "")
    _lublin_row(table, quick, "`throughput`", Policy("throughput"), 42.1)
    _lublin_row(table, quick, "`fair` (default), run times as told", Policy(estimates="limit"))
    _lublin_row(table, quick, "`fair`, all defaults: run times from the history of one user", Policy())
    return table


def _lublin_row(table: Table, quick: bool, what: str, policy: Policy, goal: float | None = None) -> None:
    averages, worst = [], 0.0
    for offset in logs.LUBLIN_OFFSETS[: LUBLIN_SLICE if quick else None]:
        traces = logs.lublin(offset)
        replay(traces, logs.processors(256), policy)
        slow = [slowdown(trace) for trace in traces]
        averages.append(mean(slow))
        worst = max(worst, *slow)
    table.measured(what, mean(averages), f"{mean(averages):.2f}", f"{worst:,.0f}", goal=None if quick else goal)


def tiresias(quick: bool = False) -> Table:
    """480 gangs on 60 GPUs, nobody's run time known."""
    table = Table(
        "Tiresias 480",
        "480 gangs of 1 to 32 GPUs on 15 nodes of 4. Nobody tells how long a job runs; jobs may be preempted. "
        f"Mean completion time, the longest, and how many preemptions that took. `las` has steps after "
        f"{' and '.join(f'{step:,.0f}' for step in Policy().service_steps)} GPU-seconds.",
        ("mean, s", "longest, s", "preemptions"),
    )
    table.published("first in, first out", "6,820", "", "0")
    table.published("first in, first out, with skipping", "2,027", "", "0")
    table.published("least attained service, two queues", "1,470", "", "")
    table.published("least attained service, three queues", "1,412", "", "")
    table.published("perfect knowledge", "1,042", "", "")
    las = Policy("las", preemptions_most=PREEMPTIONS_MOST)
    strict = Policy("fifo", backfill_depth=0)
    _tiresias_row(table, "`fifo` without backfill", replay(logs.tiresias(), logs.gpu_nodes(15), strict))
    _tiresias_row(table, "`fair` (default)", replay(logs.tiresias(), logs.gpu_nodes(15), Policy()))
    _tiresias_row(table, "`las`", replay(logs.tiresias(), logs.gpu_nodes(15), las), 1500.0)
    again = replay(logs.tiresias(), logs.gpu_nodes(15), las, restart_s=RESTART_S)
    _tiresias_row(table, f"`las`, each restart costs {RESTART_S:g} s", again)
    return table


def _tiresias_row(table: Table, what: str, found: Replay, goal: float | None = None) -> None:
    times = [trace.ended_at - trace.job.submitted_at for trace in found.traces if trace.ended_at is not None]
    assert len(times) == len(found.traces), "a job never ended"
    table.measured(what, mean(times), f"{mean(times):,.0f}", f"{max(times):,.0f}", f"{found.preemptions:,}", goal=goal)
