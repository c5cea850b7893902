"""Short jobs that wait on a node behind others: killed servers and agents neither lose one nor begin it twice."""

from __future__ import annotations

import pytest

from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

JOBS = 16
# Writes its number down as it begins, and waits there as long as the gate is shut.
SHORT = """
import os, sys, time
number, place = sys.argv[1:]
with open(os.path.join(place, "begun"), "a") as file:
    file.write(number + "\\n")
while os.path.exists(os.path.join(place, "gate")):
    time.sleep(0.01)
"""


class Flood:
    """Jobs of one cpu on a machine that has one, of a kind that is known to be short."""

    def __init__(self, living: Living) -> None:
        living.env |= {"HEADWAY_LOCAL_CPUS": "1", "HEADWAY_LINE_AHEAD_S": "100"}
        living.script("short.py", SHORT)
        self.living = living
        self.gate = living.place / "gate"
        assert living.wait(self.submit("first"))["state"] == "succeeded"
        self.gate.touch()
        self.jobs = [self.submit(str(number)) for number in range(JOBS)]
        wait_until(lambda: self.begun == ["first", "0"], what="the first to begin")
        wait_until(lambda: "begins it when" in self.why(JOBS - 1), what="the last to be in line")

    def submit(self, number: str) -> str:
        return self.living.submit("--name", "short", "short.py", number, str(self.living.place))

    @property
    def begun(self) -> list[str]:
        return (self.living.place / "begun").read_text().split()

    def why(self, number: int) -> str:
        return self.living.ok("why", self.jobs[number])

    def states(self) -> list[str]:
        return [self.living.wait(job)["state"] for job in self.jobs]


@pytest.fixture
def flood(living: Living) -> Flood:
    return Flood(living)


def test_killing_server_and_agent_under_a_line_runs_each_once_and_in_order(living: Living, flood: Flood) -> None:
    living.kill(living.server)
    living.ok("server", "start")
    living.kill(living.agent)
    wait_until(lambda: living.agent, what="another agent")
    flood.gate.unlink()
    for begun, part in ((3, "server"), (6, "agent"), (9, "server")):
        wait_until(lambda begun=begun: len(flood.begun) > begun, what=f"{begun} jobs to begin")  # type: ignore[misc]
        wait_until(lambda part=part: getattr(living, part), what=part)  # type: ignore[misc]
        living.kill(getattr(living, part))
        living.ok("server", "start")
    assert flood.states() == ["succeeded"] * JOBS
    assert flood.begun == ["first", *(str(number) for number in range(JOBS))]
    assert {living.job(job)["attempt"] for job in flood.jobs} == {1}


def test_a_job_in_line_says_so_and_is_stopped_before_it_begins(living: Living, flood: Flood) -> None:
    assert f"begins it when {flood.jobs[4]} has ended" in flood.why(5)
    living.ok("stop", flood.jobs[5])
    assert living.wait(flood.jobs[5])["state"] == "cancelled"
    assert flood.begun == ["first", "0"], "the gate is still shut"
    assert f"begins it when {flood.jobs[4]} has ended" in flood.why(6)
    flood.gate.unlink()
    states = flood.states()
    assert states.pop(5) == "cancelled"
    assert set(states) == {"succeeded"}
    assert flood.begun == ["first", *(str(number) for number in range(JOBS) if number != 5)]


def test_a_more_important_job_does_not_wait_for_the_line(living: Living, flood: Flood) -> None:
    urgent = living.submit("--name", "urgent", "--priority", "9", "short.py", "urgent", str(living.place))
    wait_until(lambda: "begins it when" not in flood.why(1), what="the line to be called back")
    flood.gate.unlink()
    assert living.wait(urgent)["state"] == "succeeded"
    assert flood.states() == ["succeeded"] * JOBS
    assert flood.begun == ["first", "0", "urgent", *(str(number) for number in range(1, JOBS))]
