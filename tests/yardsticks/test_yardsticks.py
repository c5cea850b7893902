"""Slices of the public logs: the replay is sound, and the figures are what they were."""

from __future__ import annotations

from statistics import mean

import pytest

from headway.core.model import Policy
from tests.builders import NOW, a_job, a_node
from yardsticks import logs
from yardsticks.page import Table, page
from yardsticks.replay import Trace, replay, slowdown

needs_kth = pytest.mark.skipif(not logs.KTH.exists(), reason="the KTH log is not on this machine")
needs_lublin = pytest.mark.skipif(not logs.LUBLIN.exists(), reason="the Lublin log is not on this machine")
needs_tiresias = pytest.mark.skipif(not logs.TIRESIAS.exists(), reason="the Tiresias list is not on this machine")


def test_a_replay_starts_and_ends_everything_in_its_time() -> None:
    traces = [
        Trace(a_job(f"j{number}", seq=number, cpus=4, submitted_at=NOW), 10.0 * (number + 1)) for number in range(3)
    ]
    replay(traces, [a_node(cpus=4)], Policy())
    assert [trace.started_at for trace in traces] == [NOW, NOW + 10, NOW + 30]
    assert [slowdown(trace) for trace in traces] == [1.0, 1.5, 2.0]


def test_a_preempted_job_goes_on_where_it_was_and_pays_for_the_restart() -> None:
    low = Trace(a_job("low", seq=1, cpus=4, submitted_at=NOW), 100.0)
    high = Trace(a_job("high", seq=2, cpus=4, priority=1, submitted_at=NOW + 40), 10.0)
    found = replay([low, high], [a_node(cpus=4)], Policy(preemption=True), restart_s=5.0)
    assert found.preemptions == 1
    assert high.ended_at == NOW + 50
    assert low.ended_at == NOW + 50 + 60 + 5


@needs_kth
def test_the_published_order_is_reproduced_on_a_slice_of_kth() -> None:
    traces = logs.kth(count=1000)
    replay(traces, logs.processors(100), Policy("fifo", estimates="limit"))
    # What a textbook scheduler that counts processors gives, to the digit.
    assert mean(map(slowdown, traces)) == pytest.approx(38.1114, abs=0.001)
    assert all(trace.ended_at is not None for trace in traces)


@needs_lublin
def test_throughput_beats_first_come_first_served_on_a_slice_of_lublin() -> None:
    figures = {}
    for name in ("throughput", "fifo"):
        traces = logs.lublin(logs.LUBLIN_OFFSETS[2], 300)
        replay(traces, logs.processors(256), Policy(name))
        figures[name] = mean(map(slowdown, traces))
    assert figures["throughput"] < figures["fifo"]


@needs_tiresias
def test_time_sharing_meets_its_goal() -> None:
    found = replay(logs.tiresias(), logs.gpu_nodes(15), Policy("las", preemptions_most=100))
    assert mean(trace.ended_at - trace.job.submitted_at for trace in found.traces if trace.ended_at) <= 1500
    assert found.preemptions <= 300


def test_the_page_tells_goals_and_what_was_left_out() -> None:
    table = Table("T", "about", ("average",))
    table.published("theirs", "7.00")
    table.measured("ours", 5.0, "5.00", goal=6.0)
    table.measured("worse", 9.0, "9.00", goal=6.0)
    text = page([table], ["kth: there is no log"])
    assert "| theirs | *7.00* |  |" in text
    assert "| ours | 5.00 | ≤ 6: met |" in text
    assert "| worse | 9.00 | ≤ 6: NOT MET |" in text
    assert "Left out: kth: there is no log." in text
    assert not table.met
