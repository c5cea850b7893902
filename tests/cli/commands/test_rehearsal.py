"""`headway doctor checkpoint` and `run --rehearse`: what they submit, what they do to the job, and what they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.cli.commands.rehearsal import Stages, warn_of_overwriting
from headway.cli.frame.output import Output
from headway.client import rehearsal
from tests.client.fake_server import FakeServer
from tests.waiting import wait_until

JOB = "job1"


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "RUN_S_MIN", "LINGER_S"):
        monkeypatch.setattr(rehearsal, name, 0.02)


class Play:
    """What happens to the job, as a real server would tell it; the acts follow what is asked of the server."""

    def __init__(self, fake: FakeServer, *acts: Callable[[Play], None]) -> None:
        self.fake = fake
        self.attempts: list[dict[str, Any]] = []
        self.thread = threading.Thread(target=self._play, args=acts, daemon=True)
        self.thread.start()

    def _play(self, *acts: Callable[[Play], None]) -> None:
        for act in acts:
            act(self)

    def asked(self, what: str) -> None:
        wait_until(lambda: what in self.fake.asked, every_s=0.01, what=what)

    def begin(self, resumed: int | None = None, **more: Any) -> None:
        number = len(self.attempts) + 1
        now = time.time()
        made = {"number": number, "started_at": now, "ended_at": None, "cause": None, "sentence": f"attempt {number} …"}
        self.attempts.append({**made, "resumed_step": resumed, "tasks": [{"node": "n1", "outcome": None}], **more})
        self.fake.change(JOB, state="running", attempt=number, attempts=list(self.attempts))

    def end(self, cause: str, sentence: str = "", state: str = "queued") -> None:
        if self.attempts:
            self.attempts[-1] |= {"ended_at": time.time(), "cause": cause, "sentence": sentence}
        ended_at = None if state == "queued" else time.time()
        self.fake.change(JOB, state=state, attempts=list(self.attempts), ended_at=ended_at, sentence=sentence or state)

    def save(self, step: int, how: str = "renamed", path: str = "snapshot.pt") -> None:
        made = {
            "step": step,
            "attempt": len(self.attempts),
            "how": how,
            "bytes": 4_300_000,
            "files": 1,
            "paths": [path],
        }
        kept = self.fake.checkpoints.setdefault(JOB, [])
        kept.insert(0, {**made, "at": time.time(), "complete": True, "resumable": True})

    def say(self, *lines: str) -> None:
        self.fake.write(JOB, "".join(f"{line}\n" for line in lines).encode(), attempt=len(self.attempts))


def first_half(play: Play) -> None:
    play.asked("POST /jobs")
    play.begin()
    play.say("step 1", "step 2", "step 3")
    play.save(2)
    play.say("step 4", "step 5")
    play.save(4)
    play.asked(f"POST /jobs/{JOB}/preempt")
    play.end("preempted")


def second_half(*lines: str) -> Callable[[Play], None]:
    def act(play: Play) -> None:
        play.begin(resumed=4)
        play.say(*lines)
        stopped(play)

    return act


def stopped(play: Play) -> None:
    play.asked(f"POST /jobs/{JOB}/stop")
    play.end("cancelled", state="cancelled")


def test_a_training_that_resumes(fake: FakeServer, headway: Callable, golden: Callable, place: Path) -> None:
    Play(fake, first_half, second_half("step 5", "step 6"))
    said = headway("doctor", "checkpoint", "train.py")
    assert said.code == 0, said
    golden("rehearsal.txt", re_timed(said.out))
    assert "headway: saved after 0.0 s: snapshot.pt, 4.1 MiB, step 2, known as renamed\n" in said.err
    assert "headway: preempting it once, with 30 s to save in\n" in said.err
    assert "headway: attempt 2 runs, from the checkpoint of step 4\n" in said.err
    assert f"headway logs {JOB}" in said.err
    assert fake.jobs[JOB]["state"] == "cancelled", "it was to be stopped"


def re_timed(page: str) -> str:
    """Without the seconds, which no test can promise."""
    import re

    return re.sub(r"\d+\.\d s", "0.0 s", page)


def test_a_training_that_starts_over_ends_with_1(fake: FakeServer, headway: Callable, place: Path) -> None:
    Play(fake, first_half, second_half("step 1", "step 2"))
    said = headway("run", "--rehearse", "--json", "train.py")
    assert (said.code, said.err) == (1, "")
    assert (said.json["kind"], said.json["resumes"], said.json["job"]) == ("starts_over", False, JOB)
    assert said.json["remarks"][0]["found"] == 'no: step 4 was put back, but attempt 2 began with "step 1" again'
    assert said.json["observed"]["before"]["saves"][0]["names"] == ["snapshot.pt"]


def test_a_training_that_fails_on_its_checkpoint_shows_its_last_lines(
    fake: FakeServer, headway: Callable, place: Path
) -> None:
    def fails(play: Play) -> None:
        play.begin(resumed=4)
        play.say("Traceback …", "KeyError: 'optimizer'")
        play.end("exit_code", "attempt 2 failed with exit code 1", state="failed")

    Play(fake, first_half, fails)
    said = headway("doctor", "checkpoint", "train.py")
    assert said.code == 1
    assert (
        "      | KeyError: 'optimizer'\n      it must be able to load what it saved itself: snapshot.pt\n" in said.out
    )
    assert headway_quiet(fake, headway, first_half, fails) == "fails_on_resume\n"


def headway_quiet(fake: FakeServer, headway: Callable, *acts: Callable[[Play], None]) -> str:
    for kept in (fake.jobs, fake.logs, fake.keys, fake.checkpoints):
        kept.clear()
    fake.asked.clear()
    Play(fake, *acts)
    said = headway("doctor", "checkpoint", "-q", "train.py")
    assert said.err == ""
    return str(said.out)


def test_one_that_saves_nothing_is_preempted_all_the_same(fake: FakeServer, headway: Callable, place: Path) -> None:
    def nothing(play: Play) -> None:
        play.asked("POST /jobs")
        play.begin()
        play.asked(f"POST /jobs/{JOB}/preempt")
        play.end("preempted")
        play.begin()
        stopped(play)

    Play(fake, nothing)
    said = headway("doctor", "checkpoint", "--within", "0.1s", "train.py")
    assert said.code == 1
    assert said.out.startswith("fail  resumes: no: it saved nothing within 0.1 s\n")
    assert "--within 10m" in said.out


def test_one_that_only_saves_on_the_notice_resumes(fake: FakeServer, headway: Callable, place: Path) -> None:
    def act(play: Play) -> None:
        play.asked("POST /jobs")
        play.begin()
        play.say("step 1", "step 2", "step 3")
        play.asked(f"POST /jobs/{JOB}/preempt")
        play.save(4)
        play.end("preempted")

    Play(fake, act, second_half("step 4", "step 5"))
    said = headway("doctor", "checkpoint", "--within", "0.2s", "train.py")
    assert said.code == 0, said
    assert "headway: saved on the notice: snapshot.pt" in said.err
    assert "only when it was told that the end is near" in said.out
    assert "a preemption loses nothing" in said.out


@pytest.mark.parametrize(
    ("state", "sentence", "told"),
    [
        ("succeeded", "succeeded", "warn  resumes: not tried: it succeeded after 0.0 s, without saving"),
        ("failed", "attempt 1 failed: no data", "warn  resumes: not tried: attempt 1 failed: no data"),
    ],
)
def test_one_that_ends_by_itself_ends_with_2(
    fake: FakeServer, headway: Callable, place: Path, state: str, sentence: str, told: str
) -> None:
    def act(play: Play) -> None:
        play.asked("POST /jobs")
        play.begin()
        play.end("" if state == "succeeded" else "exit_code", sentence, state=state)

    Play(fake, act)
    said = headway("doctor", "checkpoint", "train.py")
    assert said.code == 2
    assert re_timed(said.out).startswith(told)


def test_the_job_is_an_ordinary_one_under_a_name_of_its_own(fake: FakeServer, headway: Callable, place: Path) -> None:
    words = ["--name", "mnist", "--tag", "team=vision", "--max-retries", "3", "--hold", "--cpus", "2"]
    shown = headway("doctor", "checkpoint", "--dry-run", "--json", *words, "train.py", "--lr", "1").json
    assert (shown["name"], shown["tags"]) == ("mnist-rehearsal", {"team": "vision", "rehearsal": "yes"})
    assert (shown["retries"], shown["resources"]["cpus"], shown["command"][-2:]) == (0, 2.0, ["--lr", "1"])
    assert "hold" not in shown
    assert shown["max_duration"] > 0, "it must end though nobody is there to stop it"
    assert headway("run", "--rehearse", "--dry-run", "--json", *words, "train.py", "--lr", "1").json == shown
    assert headway("doctor", "checkpoint", "--array", "4", "train.py").code == 2
    assert headway("doctor", "checkpoint").code == 2
    assert headway("doctor", "checkpoint", "--within", "soon", "train.py").code == 2
    assert fake.jobs == {}


def test_a_model_that_could_be_written_over_is_named_beforehand(
    headway: Callable, capfd: pytest.CaptureFixture[str], place: Path
) -> None:
    (place / "runs").mkdir()
    for name in ("last.pt", "runs/best.ckpt", "runs/a.log", "z.bin"):
        (place / name).write_text("x")
    warn_of_overwriting(str(place), Stages(Output()))
    said = "headway: it runs in this directory and may write over last.pt, z.bin and 1 more; --bundle runs a copy\n"
    assert capfd.readouterr().err == said
    warn_of_overwriting(str(place / "nowhere"), Stages(Output()))
    assert capfd.readouterr().err == ""


def test_interrupted_it_stops_the_job(
    fake: FakeServer, headway: Callable, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: rehearsal.Rehearsal) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rehearsal.Rehearsal, "observe", interrupt)
    Play(fake, stopped)
    said = headway("doctor", "checkpoint", "train.py")
    assert said.code == 130
    assert fake.jobs[JOB]["state"] == "cancelled"
    fake.asked.clear()
    kept = headway("doctor", "checkpoint", "--keep", "train.py")
    assert kept.code == 130
    assert not any(asked.endswith("/stop") for asked in fake.asked)
    assert "goes on; stop it: headway stop job2" in kept.err


def test_doctor_itself_is_what_it_was(fake: FakeServer, headway: Callable) -> None:
    assert "Look for what is wrong with this installation" in headway("doctor", "--help").out
    assert 'no such command "chekpoint"' in headway("doctor", "chekpoint").err.lower().replace("'", '"')
