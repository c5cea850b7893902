"""`python -m yardsticks.choose`: try the constants of the policies on jobs that are not judged; print what each gives.

KTH: the first half of the log. Lublin: five sequences before the first of the ten. Tiresias: the same gangs in five
other orders. What was chosen stands in `Policy`; docs/reference/yardsticks.md tells what it gives on the rest.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from statistics import mean

from headway.core.model import Policy
from yardsticks import logs
from yardsticks.replay import Trace, replay, slowdown

DAY_S = 86400.0
LUBLIN_OTHERS = (0, 240, 480, 720, 957)
PATIENCES_D = (0.25, 0.5, 1.0, 2.0, 4.0)
BONUSES = (0.0, 1.0, 2.0, 2.7, 4.0, 6.0, 10.0, 20.0, 40.0)
STEPS = ((900.0, 9000.0), (1800.0, 18000.0), (3600.0,), (3600.0, 36000.0), (7200.0,), (900.0, 3600.0, 36000.0))
SEEDS = (1, 2, 3, 4, 5)


def kth_half(second: bool) -> list[Trace]:
    whole = logs.read_swf(logs.KTH)
    half = len(whole) // 2
    return logs.kth(half) if second else logs.kth(0, half)


def other_tiresias(seed: int) -> list[Trace]:
    """The same arrivals and the same gangs, but who comes when is drawn anew."""
    traces = logs.tiresias()
    drawn = list(traces)
    random.Random(seed).shuffle(drawn)
    return [
        replace(there, job=replace(there.job, spec=other.job.spec), run_s=other.run_s)
        for there, other in zip(traces, drawn, strict=True)
    ]


def say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def kth() -> None:
    for estimates in ("limit", "history"):
        for patience in PATIENCES_D:
            traces = kth_half(second=False)
            replay(traces, logs.processors(100), Policy(estimates=estimates, patience_s=patience * DAY_S))
            slow = [slowdown(trace) for trace in traces]
            say(f"kth, first half, {estimates}, patience {patience:g} d: {mean(slow):.2f}, worst {max(slow):,.0f}")


def lublin() -> None:
    for bonus in BONUSES:
        averages = []
        for offset in LUBLIN_OTHERS:
            traces = logs.lublin(offset)
            replay(traces, logs.processors(256), Policy("throughput", bonus_per_hour=bonus))
            averages.append(mean(slowdown(trace) for trace in traces))
        say(f"lublin, five others, bonus {bonus:g}: {mean(averages):.2f}")


def tiresias() -> None:
    for steps in STEPS:
        means = []
        for seed in SEEDS:
            traces = other_tiresias(seed)
            replay(traces, logs.gpu_nodes(15), Policy("las", preemptions_most=100, service_steps=steps))
            means.append(mean((trace.ended_at or 0.0) - trace.job.submitted_at for trace in traces))
        say(f"tiresias, five other orders, steps {steps}: {mean(means):,.0f} s")


if __name__ == "__main__":
    for name in sys.argv[1:] or ("kth", "lublin", "tiresias"):
        {"kth": kth, "lublin": lublin, "tiresias": tiresias}[name]()
