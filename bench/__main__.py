"""`python -m bench`: measure everything, print one table, and keep it in bench/results.md.

Throughput is told as a ratio to the limit of this machine, measured just before and after: the seconds beside it
belong to the machine. `--quick` leaves out the 10,000 jobs and the idle time.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import idle, latency, limit, throughput
from bench.house import House, house
from bench.table import Table

RESULTS = Path(__file__).with_name("results.md")
CPUS = 0.02
CONNECTIONS = 8
TRUE = ["/bin/true"]
ECHO = ["/bin/echo", "one line"]

ABOUT = """\
# What `make bench` measured

The limit is the rate at which a bare `posix_spawn` program starts and reaps `/bin/true` on this machine. It is measured
just before and after each line, and the better one counts; the best of all was {rate:,.0f} per second. `n ×` means: n
times as long as the limit needs for as many. Each job is durable before it is answered, and has an attempt, a log and
an exit code of its own; the clock stops when the client has seen every one of them end. Jobs ask for {cpus} cpus unless
the line says otherwise, so that some run beside each other. Python {python}, {cores} cores, {kernel}.

"""


def say(words: str) -> None:
    sys.stderr.write(f"bench: {words}\n")
    sys.stderr.flush()


class Run:
    """One run of the benchmark: what was found so far."""

    def __init__(self) -> None:
        self.table = Table()
        self.rate_best = 0.0

    def flood(self, what: str, goal: float, measure: Callable[[House], throughput.Flood]) -> None:
        """Measure one flood between two looks at the limit, in a fresh home: none inherits another's database."""
        say(what)
        before = limit.measure()
        with house() as mine:
            flood = measure(mine)
        rate = max(before, limit.measure())
        self.rate_best = max(self.rate_best, rate)
        self.table.ratio(what, flood.wall_s * rate / flood.jobs, flood.wall_s, goal)

    def batch(self, what: str, count: int, goal: float, cpus: float | None = CPUS, command: list[str] = TRUE) -> None:
        self.flood(what, goal, lambda mine: throughput.in_one_batch(mine, count, cpus, command))

    def single(self, what: str, connections: int, goal: float) -> None:
        self.flood(what, goal, lambda mine: throughput.one_by_one(mine, 1000, CPUS, TRUE, connections))

    def latency(self) -> None:
        with house() as mine:
            say("one job at a time")
            one = latency.measure(mine)
            say("headway ps")
            ps_ms = idle.ps_cpu_ms(mine)
        self.table.amount("one job, idle machine: accepted after", one.accepted_ms, " ms", 20)
        self.table.amount("… its process runs after another", one.started_ms, " ms", 50)
        self.table.amount("… its end is seen after another", one.end_seen_ms, " ms", 50)
        self.table.amount("`headway ps`, warm server: CPU", ps_ms, " ms", 150)

    def idle(self) -> None:
        say("an idle server")
        with house() as mine:
            quiet = idle.measure(mine)
        self.table.amount(f"idle server with its node, {quiet.processes} processes: resident", quiet.rss_mb, " MB", 120)
        self.table.amount("… the same with shared pages counted once (PSS)", quiet.pss_mb, " MB")
        self.table.amount("… CPU of one core", quiet.cpu_percent, " %", 1, digits=2)


def main() -> int:
    quick = "--quick" in sys.argv[1:]
    begin = time.monotonic()
    run = Run()
    run.batch("1,000 jobs in one batch request", 1000, 4)
    run.single("1,000 jobs, a request each, one connection", 1, 6)
    run.single(f"1,000 jobs, a request each, {CONNECTIONS} connections", CONNECTIONS, 6)
    if not quick:
        run.batch("10,000 jobs in one batch request", 10000, 4)
    run.batch("1,000 jobs in one batch request, each writes a line", 1000, 0, command=ECHO)
    run.batch("1,000 jobs in one batch request, 1 cpu each (the default)", 1000, 0, cpus=None)
    run.latency()
    if not quick:
        run.idle()
    facts = {"python": platform.python_version(), "kernel": f"{platform.system()} {platform.release()}"}
    cores = len(os.sched_getaffinity(0))
    text = ABOUT.format(rate=run.rate_best, cpus=CPUS, cores=cores, **facts) + run.table.markdown()
    sys.stdout.write(text)
    if not quick:
        RESULTS.write_text(text)
    say(f"done in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
