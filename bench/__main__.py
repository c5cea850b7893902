"""`python -m bench`: measure everything, print one table, and keep it in bench/results.md.

Throughput is told as a ratio to the limit of this machine, measured right before and right after each flood: the
seconds beside it belong to the machine. `--quick` leaves out all but the floods of 1,000 jobs, and one job alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import (
    crowd,
    figures,
    followers,
    idle,
    latency,
    limit,
    peers,
    points,
    postgres,
    progress,
    queue,
    saves,
    scheduler,
    throughput,
)
from bench.house import House, house
from bench.table import Table

RESULTS = Path(__file__).with_name("results.md")
CPUS = 0.02
CONNECTIONS = 8
ROUNDS = 3
TRUE = ["/bin/true"]
ECHO = ["/bin/echo", "one line"]

ABOUT = """\
# What `make bench` measured

The limit is the rate at which a bare `posix_spawn` program starts and reaps `/bin/true` on this machine, the better of
one and nproc at a time: **{slowest:,.0f} to {fastest:,.0f} per second** in this run. It is measured right before and
right after each flood, and the better of these two looks is the flood's own limit; `n ×` means: n times as long as that
limit needs for as many. Each job is durable before it is answered, and has an attempt, a log and an exit code of its
own; the clock stops when the client has seen every one of them end. Each line has a fresh home, in which one job has
run. Of lines with a goal the median of {rounds} rounds counts, one after the other in that home; 10,000 jobs and lines
without a goal have one round. "First batch of a fresh server" is the first round of the line before it. Jobs ask for
{cpus} cpus unless the line says otherwise, so that some run beside each other. Python {python}, {cores} cores,
{kernel}; load average {load_before:.1f} before and {load_after:.1f} after; one fsync takes {fsync_ms:.1f} ms here.

"""


BEGAN = time.monotonic()


def say(words: str) -> None:
    sys.stderr.write(f"bench: {time.monotonic() - BEGAN:5.0f} s  {words}\n")
    sys.stderr.flush()


class Run:
    """One run of the benchmark: what was found so far."""

    def __init__(self) -> None:
        self.table = Table()
        self.rates: list[float] = []
        self.fsync_ms = float("inf")

    def look_at_limits(self) -> float:
        self.rates.append(limit.measure())
        self.fsync_ms = min(self.fsync_ms, limit.fsync_ms())
        return self.rates[-1]

    def flood(
        self, what: str, goal: float, rounds: int, measure: Callable[[House], throughput.Flood], first: str = ""
    ) -> None:
        """Measure one flood, in a home of its own: none inherits another's database. The median round counts.

        Each round has its own limit, the better of a look right before it and one right after it: whatever else the
        machine does then slows both. (The best ratio would be that of the round whose looks were disturbed most.)
        """
        found: list[tuple[float, float]] = []
        with house() as mine:
            for number in range(rounds):
                say(f"{what}, round {number + 1} of {rounds}")
                before = self.look_at_limits()
                flood = measure(mine)
                rate = max(before, self.look_at_limits())
                found.append((flood.wall_s * rate / flood.jobs, flood.wall_s))
        self.table.ratio(what, *statistics.median_low(found), goal)
        if first:
            self.table.ratio(first, *found[0])

    def batch(
        self,
        what: str,
        count: int,
        goal: float,
        cpus: float | None = CPUS,
        command: list[str] = TRUE,
        first: str = "",
    ) -> None:
        rounds = ROUNDS if count <= 1000 and goal else 1
        self.flood(what, goal, rounds, lambda mine: throughput.in_one_batch(mine, count, cpus, command), first)

    def first_batches(self) -> None:
        first = "… the first batch of a fresh server"
        self.batch("1,000 jobs in one batch request", 1000, 4, first=first)

    def single(self, what: str, connections: int, goal: float) -> None:
        self.flood(what, goal, ROUNDS, lambda mine: throughput.one_by_one(mine, 1000, CPUS, TRUE, connections))

    def default_request(self, quick: bool = False) -> None:
        """Jobs of one cpu, as most are, and HyperQueue's tasks beside them."""
        self.batch("1,000 jobs in one batch request, 1 cpu each (the default)", 1000, 5, cpus=None)
        if quick:
            return
        self.batch("10,000 jobs in one batch request, 1 cpu each", 10000, 5, cpus=None)
        say("HyperQueue, 10,000 tasks")
        before = self.look_at_limits()
        try:
            flood = peers.hyperqueue(10000)
        except peers.Missing as missing:
            say(str(missing))
            return
        rate = max(before, self.look_at_limits())
        self.table.ratio("… HyperQueue: 10,000 tasks in one job, 1 cpu each", flood.wall_s * rate / 10000, flood.wall_s)

    def latency(self) -> None:
        with house() as mine:
            say("one job at a time")
            one = latency.measure(mine)
            say("headway ps")
            ps_ms = idle.ps_cpu_ms(mine)
        self.table.amount("one job, idle machine: accepted after", one.accepted_ms, " ms", 20)
        self.table.amount("… its process runs after another", one.started_ms, " ms", 50)
        self.table.amount("… its end is seen after another", one.end_seen_ms, " ms", 50)
        self.table.amount("`headway ps`, warm server: CPU", ps_ms, " ms", 100)

    def idle(self) -> None:
        say("an idle server")
        with house() as mine:
            quiet = idle.measure(mine)
        self.table.amount(f"idle server with its node, {quiet.processes} processes: resident", quiet.rss_mb, " MB", 120)
        self.table.amount("… the same with shared pages counted once (PSS)", quiet.pss_mb, " MB")
        self.table.amount("… CPU of one core", quiet.cpu_percent, " %", 1, digits=2)

    def progress(self) -> None:
        say("checkpoints, and what they cost the training")
        for row in progress.measure():
            self.table.amount(row.what, row.value, row.unit, row.goal, row.digits)

    def saves(self) -> None:
        say("saves in place, every second and large")
        for row in saves.measure():
            self.table.amount(row.what, row.value, row.unit, row.goal, row.digits)

    def scheduler(self) -> None:
        say("the scheduler, with 100,000 jobs and 10,000 nodes")
        for what, value, unit, goal in scheduler.rows():
            self.table.amount(what, value, f" {unit}", goal, digits=1)

    def postgres(self) -> None:
        say("PostgreSQL, and a takeover")
        for what, value, unit, goal in postgres.rows():
            self.table.amount(what, value, f" {unit}", goal, digits=1)

    def queue(self) -> None:
        say("a queue of 100,000 jobs")
        with house() as mine:
            for what, value, unit, goal in queue.rows(mine):
                self.table.amount(what, value, f" {unit}", goal, digits=1)

    def points(self) -> None:
        say("points of metrics")
        for what, value, unit, goal in points.rows():
            self.table.amount(what, value, f" {unit}", goal, digits=2 if unit == "%" else 1)

    def figures(self) -> None:
        say("event files of TensorBoard")
        for row in figures.measure(figures.python()):
            self.table.amount(row.what, row.value, row.unit, row.goal, row.digits)

    def crowd(self) -> None:
        say(f"{crowd.AGENTS:,} agents at one server on PostgreSQL")
        with postgres.postgres() as databases:
            held = crowd.measure(next(databases))
        beats = f"{held.beats_per_s:.0f} beats a second"
        tasks = crowd.AGENTS * crowd.TASKS_EACH
        what = f"{crowd.AGENTS:,} agents, {tasks:,} running tasks on PostgreSQL, {beats}: CPU of one core"
        self.table.amount(what, held.cpu_percent, " %", 60, digits=1)
        self.table.amount("… CPU for each beat", held.cpu_ms_per_beat, " ms", 3, digits=2)
        own = sum(held.rows_written.values()) - crowd.not_its_own(held.rows_written)
        what = f"… rows that beats wrote (the server's own lead and presence: {own})"
        self.table.none(what, crowd.not_its_own(held.rows_written))
        self.table.none("… calls that failed", sum(held.errors.values()))
        self.table.amount("… resident", held.rss_mb, " MB")
        self.table.amount(
            f"… before: all joined after {held.joined_s:.0f} s, all tasks ran after", held.started_s, " s"
        )
        self.table.amount(
            "… before: CPU for each task, from its submission until it ran", held.start_cpu_ms, " ms", digits=1
        )

    def followers(self) -> None:
        say(f"{followers.FOLLOWERS} followers of one log")
        with house() as mine:
            found = followers.measure(mine)
        what = f"{followers.FOLLOWERS} followers of one log: threads beside the {found.threads_alone} that one needs"
        self.table.amount(what, found.threads - found.threads_alone, "", 4)
        self.table.amount("… resident for each", found.kb_each, " kB", 200)
        what = f"… CPU for each new line, delivered to all (to one: {found.cpu_ms_per_line_alone:.0f} ms)"
        self.table.amount(what, found.cpu_ms_per_line, " ms", 200)


ALONE = {
    "batches": Run.first_batches,
    "default": Run.default_request,
    "latency": Run.latency,
    "idle": Run.idle,
    "progress": Run.progress,
}
ALONE |= {
    "saves": Run.saves,
    "scheduler": Run.scheduler,
    "queue": Run.queue,
    "crowd": Run.crowd,
    "points": Run.points,
    "figures": Run.figures,
    "followers": Run.followers,
    "postgres": Run.postgres,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the 10,000 jobs and the idle time")
    parser.add_argument("--only", choices=ALONE, help="measure this alone, and keep nothing")
    words = parser.parse_args()
    quick = words.quick
    load_before = os.getloadavg()[0]
    run = Run()
    if words.only:
        ALONE[words.only](run)
        sys.stdout.write(run.table.markdown())
        say(f"done; load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after")
        return 0
    run.first_batches()
    run.single(f"1,000 jobs, a request each, on {CONNECTIONS} connections", CONNECTIONS, 5)
    run.single("1,000 jobs, a request each, one after another", 1, 6)
    if not quick:
        run.batch("10,000 jobs in one batch request", 10000, 4)
    run.batch("1,000 jobs in one batch request, each writes a line", 1000, 0, command=ECHO)
    run.default_request(quick)
    run.latency()
    if not quick:
        run.idle()
        run.progress()
        run.saves()
        run.scheduler()
        run.queue()
        run.postgres()
        run.crowd()
        run.points()
        run.figures()
        run.followers()
    facts = {"python": platform.python_version(), "kernel": f"{platform.system()} {platform.release()}"}
    cores = len(os.sched_getaffinity(0))
    found = {
        "slowest": min(run.rates),
        "fastest": max(run.rates),
        "fsync_ms": run.fsync_ms,
        "cpus": CPUS,
        "cores": cores,
        "rounds": ROUNDS,
    }
    found |= {"load_before": load_before, "load_after": os.getloadavg()[0]}
    text = ABOUT.format(**found, **facts) + run.table.markdown()
    sys.stdout.write(text)
    if not quick:
        RESULTS.write_text(text)
    say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
