"""One contract for every warning: the same file, the signal that was asked for, and the checkpoint before the end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from tests.living import Living
from tests.real.training import events_of
from tests.waiting import wait_until

pytestmark = pytest.mark.real

GRACE_S = 60.0

# Saves a good while after the signal, and nothing before: a notice that did not wait would lose it.
SAVES_LATE = """
import json, os, signal, sys, time
told = []
signal.signal(signal.SIGUSR2, lambda *_: told.append(open(os.environ["HEADWAY_NOTICE_FILE"]).read()))
print("ready", flush=True)
if os.environ.get("HEADWAY_RESUME_STEP"):
    sys.exit(0)
while not told:
    time.sleep(0.02)
print("told", told[0], flush=True)
time.sleep(1.0)
place = os.environ["HEADWAY_CHECKPOINT_DIR"]
with open(place + "/x.tmp", "wb") as file:
    file.write(os.urandom(30_000_000))
os.rename(place + "/x.tmp", place + "/step-7.pt")
"""


def preempt(living: Living, job: str) -> None:
    living.ok("preempt", job)


def more_important(living: Living, job: str) -> None:
    living.submit("--no-bundle", "--cpus", "2", "--priority", "100", "--", "true")


def machine_goes(living: Living, job: str) -> None:
    (living.home / "state/nodes/local-1/notice.json").write_text(json.dumps({"seconds_left": GRACE_S}))
    living.kill(living.agent, sign=signal.SIGUSR1)


def nothing(living: Living, job: str) -> None:
    """Time alone ends it."""


SOURCES = [
    (preempt, "preempted", ()),
    (more_important, "preempted", ()),
    (machine_goes, "reclaimed", ()),
    (nothing, "time_limit", ("--max-duration", "20s")),
]


@pytest.mark.parametrize(("warn", "cause", "words"), SOURCES, ids=[each[0].__name__ for each in SOURCES])
def test_every_warning_is_the_same_to_a_rank(
    living: Living, warn: Callable[[Living, str], None], cause: str, words: tuple[str, ...]
) -> None:
    living.env = {"HEADWAY_PREEMPTION": "on", "HEADWAY_LOCAL_CPUS": "2"}
    living.script("late.py", SAVES_LATE)
    asked = ["--no-bundle", "--cpus", "2", "--notice-signal", "SIGUSR2", "--grace", f"{GRACE_S:g}s", *words]
    job = living.submit(*asked, "late.py")
    wait_until(lambda: living.job(job)["attempt"] and "ready" in living.log(job, "1"), what="the rank's handler")
    warn(living, job)
    wait_until(lambda: living.job(job)["attempts"][0]["ended_at"], what="the end of attempt 1")
    first = living.job(job)["attempts"][0]
    assert (first["cause"], first["committed_step"]) == (cause, 7)
    said = json.loads(living.log(job, "1").partition("told ")[2])
    assert set(said) == {"cause", "seconds_left", "at"}
    assert said["cause"] == cause
    assert 0 < said["seconds_left"] <= GRACE_S + 1
    kinds = [each["kind"] for each in events_of(living, job) if each["attempt"] == 1]
    assert kinds.index("CheckpointCommitted") < kinds.index("AttemptEnded"), "it ended before its last checkpoint"
