"""Progress that is kept: preemptions lose nothing, deaths lose one interval, and nothing torn is ever restored."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import pytest

from tests.living import Living
from tests.real.training import Training, events_of
from tests.waiting import wait_until

pytestmark = pytest.mark.real

TIMES = 20


def test_preempted_with_notice_again_and_again_it_loses_not_one_step(living: Living) -> None:
    training = Training(living, steps=1500).begin()
    chance = random.Random(7)
    resumed = training.began(1)
    for attempt in range(1, TIMES + 1):
        training.until(attempt, resumed + chance.randint(1, 30))
        living.ok("preempt", training.job, "-q")
        before = resumed
        resumed = training.began(attempt + 1)
        assert resumed > before
    ended = training.finished_like_an_undisturbed_one()
    assert ended["attempt"] == TIMES + 1
    assert [each["steps_lost"] for each in ended["attempts"]] == [0] * (TIMES + 1)
    logs = living.ok("logs", training.job).splitlines()
    steps = [int(line.split()[1]) for line in logs if line.startswith("step ")]
    assert steps == list(range(1, training.steps + 1)), "a step was done twice, or not at all"


def kill_rank(living: Living, training: Training) -> None:
    living.kill(training.pid())


def kill_keeper(living: Living, training: Training) -> None:
    living.kill(living.keeper)


def kill_agent_and_keeper(living: Living, training: Training) -> None:
    living.kill(living.agent, living.keeper)


def kill_server_and_keeper(living: Living, training: Training) -> None:
    living.kill(living.server, living.keeper)
    living.ok("ps")  # Starts the server again.


def said_last(living: Living, training: Training, attempt: int) -> int:
    """The last step that an attempt has written, from its log: its directory may be gone by now."""
    steps = [
        int(line.split()[1]) for line in living.log(training.job, str(attempt)).splitlines() if line[:5] == "step "
    ]
    assert steps, f"attempt {attempt} was to be killed in the middle of its work"
    return max(steps)


WAYS = [kill_keeper, kill_rank, kill_agent_and_keeper, kill_server_and_keeper]


def test_killed_without_notice_again_and_again_it_loses_one_interval_at_most(living: Living) -> None:
    """And, where the agent died too, the time that the commit took which died with it."""
    training = Training(living, steps=1400).begin("--max-retries", "100")
    chance = random.Random(11)
    resumed = training.began(1)
    kills: list[float] = []
    beyond: list[int] = []  # Steps lost beyond one interval, where nobody was left to salvage.
    for attempt in range(1, TIMES + 1):
        training.until(attempt, resumed + training.every + chance.randint(5, 25))
        way = WAYS[attempt % len(WAYS)]
        kills.append(time.time())
        way(living, training)
        training.ended(attempt)
        seen = said_last(living, training, attempt)
        living.run("retry", training.job)  # Do not wait until it has backed off.
        before, resumed = resumed, training.began(attempt + 1)
        assert resumed >= before, "older than what it had begun from"
        if way is kill_agent_and_keeper:
            beyond.append(seen - resumed - training.every)
        else:
            assert seen - resumed <= training.every, f"{way.__name__}: the agent lived, but did not salvage"
    training.finished_like_an_undisturbed_one()
    assert max(beyond) <= training.longest_commit_s(kills) / training.pace_s


def test_what_a_killed_rank_had_finished_is_salvaged(living: Living) -> None:
    training = Training(living, steps=400).begin("--max-retries", "3")
    training.began(1)
    training.until(1, 60)
    living.kill(training.pid())
    seen = max(training.words(1, "step") or [60])
    living.run("retry", training.job)
    assert seen - training.began(2) <= training.every
    training.finished_like_an_undisturbed_one()


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(living: Living) -> None:
    training = Training(living, steps=300, pace_s=0.03).begin()
    wait_until(lambda: len(training.checkpoints()) >= 3, what="three checkpoints")
    os.kill(training.pid(), signal.SIGSTOP)
    newest = committed(training)
    storage = living.home / "data/storage"
    parts = sorted((storage / f"jobs/{training.job}/1/parts").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    content = bytearray(parts[-1].read_bytes())
    content[len(content) // 2] ^= 1
    parts[-1].write_bytes(content)
    living.kill(living.keeper)
    assert training.began(2) == newest[1]["step"]
    assert living.job(training.job)["attempts"][1]["resumed_step"] == newest[1]["step"]
    aside = [each["data"] for each in events_of(living, training.job) if each["kind"] == "CheckpointSetAside"]
    assert [(each["step"], each["instead"]) for each in aside] == [(newest[0]["step"], newest[1]["step"])]
    training.finished_like_an_undisturbed_one()


def test_when_all_checkpoints_are_damaged_it_begins_from_nothing_and_says_so(living: Living) -> None:
    training = Training(living, steps=120, pace_s=0.03).begin()
    wait_until(lambda: len(training.checkpoints()) >= 2, what="two checkpoints")
    os.kill(training.pid(), signal.SIGSTOP)
    newest = committed(training)
    for part in (living.home / f"data/storage/jobs/{training.job}/1/parts").iterdir():
        content = bytearray(part.read_bytes())
        content[0] ^= 1
        part.write_bytes(content)
    living.kill(living.keeper)
    assert training.began(2) == 0
    ended = training.finished_like_an_undisturbed_one()
    aside = [each["data"] for each in events_of(living, training.job) if each["kind"] == "CheckpointSetAside"]
    assert [each["step"] for each in aside] == [each["step"] for each in newest]
    assert aside[-1]["instead"] is None
    said = f"begins from nothing, not from step {newest[0]['step']}"
    assert said in ended["attempts"][1]["set_back"]
    assert said in living.ok("logs", training.job)
    assert said in living.ok("describe", training.job)
    assert ended["account"]["by_cause"]["checkpoint_damaged"]["steps"] == newest[0]["step"]


def committed(training: Training) -> list[dict[str, Any]]:
    """The checkpoints, once no more of them are on their way."""
    saved = max(int(path.stem[6:]) for path in (training.directory(1) / "checkpoints").glob("*.pkl"))
    return wait_until(
        lambda: (found := training.checkpoints())[0]["step"] == saved and found, what=f"the commit of step {saved}"
    )


def test_the_machine_s_own_notice_ends_its_tasks_as_reclaimed(living: Living) -> None:
    training = Training(living, steps=200, pace_s=0.02).begin()
    training.began(1)
    training.until(1, 15)
    (living.home / "state/nodes/local-1/notice.json").write_text('{"seconds_left": 20}')
    living.kill(living.agent, sign=signal.SIGUSR1)
    wait_until(lambda: living.job(training.job)["attempts"][0].get("cause") == "reclaimed", what="the end of attempt 1")
    seen = max(int(line.split()[1]) for line in living.log(training.job, "1").splitlines() if line.startswith("step"))
    assert training.checkpoints()[0]["step"] == seen
