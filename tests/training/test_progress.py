"""Inside a job and outside: checkpoints told, resuming, notices, metrics, parameters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.training import files, progress


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job's variables, as the agent sets them."""
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setenv("HEADWAY_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("HEADWAY_SDK_DIR", str(tmp_path / "sdk"))
    monkeypatch.setenv("HEADWAY_METRICS_FILE", str(tmp_path / "sdk/rank0.logged"))
    monkeypatch.setenv("HEADWAY_NOTICE_FILE", str(tmp_path / "notice"))
    monkeypatch.setattr(progress, "_places", None)
    monkeypatch.setattr(progress, "_metrics", (-1, 0, 0))
    monkeypatch.setattr(progress, "_sure_until", 0.0)
    monkeypatch.setattr(progress, "_last_step", -1)
    monkeypatch.setattr(progress, "_signalled", [])
    monkeypatch.setattr(progress, "_listening", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_outside_a_job_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    headway.checkpoint(1, "nowhere")
    headway.log({"loss": 1.0}, step=1)
    assert headway.resume() is None
    assert headway.stop_requested() is None
    assert headway.params(lr=0.1) == {"lr": 0.1}
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_told_by_its_path_in_the_directory(job: Path) -> None:
    (job / "checkpoints/model.pt").write_text("x")
    headway.checkpoint(3, "model.pt", metrics={"loss": 0.5})
    headway.checkpoint(4, job / "checkpoints/model.pt")
    headway.checkpoint(5)
    told = lines(job / "sdk/declared.jsonl")
    assert [(each["step"], each["path"]) for each in told] == [(3, "model.pt"), (4, "model.pt"), (5, ".")]
    assert told[0]["metrics"] == {"loss": 0.5}
    assert {each["newest_ns"] for each in told} == {os.stat(job / "checkpoints/model.pt").st_mtime_ns}


def test_what_lies_elsewhere_is_brought_whole(job: Path) -> None:
    (job / "out/inner").mkdir(parents=True)
    (job / "out/inner/a").write_text("1")
    (job / "m.pt").write_text("2")
    headway.checkpoint(1, job / "m.pt")
    headway.checkpoint(2, job / "out")
    (job / "out/inner/a").write_text("3")
    headway.checkpoint(3, job / "out")
    assert (job / "checkpoints/m.pt").read_text() == "2"
    assert (job / "checkpoints/out/inner/a").read_text() == "3"
    assert sorted(os.listdir(job / "checkpoints")) == ["m.pt", "out"]
    for path in ("gone.pt", "notice"):
        with pytest.raises(FileNotFoundError, match="give an absolute path"):
            headway.checkpoint(4, path)


@pytest.mark.parametrize("step", [-1, 1.5, "3", True, None])
def test_a_step_is_a_whole_number(job: Path, step: Any) -> None:
    with pytest.raises(ValueError, match="whole number"):
        headway.checkpoint(step)


def test_resume_tells_step_and_place(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert headway.resume() is None
    monkeypatch.setenv("HEADWAY_RESUME_STEP", "7")
    found = headway.resume()
    assert (found.step, found.dir) == (7, str(job / "checkpoints"))
    assert os.path.join(found, "x") == found.path("x")


def test_metrics_are_lines_of_plain_numbers(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Scalar:
        def item(self) -> float:
            return 0.25

    headway.log({"loss": Scalar(), "bad": float("nan")}, step=4)
    headway.log(loss=1)
    told = lines(job / "sdk/rank0.logged")
    assert [(each["s"], each["m"]["loss"]) for each in told] == [(4, 0.25), (5, 1)]
    assert told[0]["m"]["bad"] == "nan"
    assert "r" not in told[0]


def test_a_rank_that_a_launcher_in_the_job_has_made_says_which_it_is(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_line_end", "}\n")
    monkeypatch.setenv("RANK", "3")
    headway.log({"loss": 1.0, "step": 2.0}, step=1)
    headway.log({}, step=2)
    told = lines(job / "sdk/rank0.logged")
    assert [(each["s"], each["r"], each["m"]) for each in told] == [(1, 3, {"loss": 1.0, "step": 2.0}), (2, 3, {})]


def test_metrics_go_on_when_their_file_was_closed_or_removed_by_somebody(job: Path) -> None:
    headway.log(loss=1.0, step=1)
    os.close(progress._metrics[0])
    headway.log(loss=2.0, step=2)
    progress._sure_until = 0.0  # A moment later.
    (job / "sdk/rank0.logged").rename(job / "first")
    headway.log(loss=3.0, step=3)
    assert [each["s"] for each in lines(job / "first")] == [1, 2, 3]
    (job / "first").unlink()
    progress._sure_until = 0.0
    headway.log(loss=4.0, step=4)
    assert [each["s"] for each in lines(job / "sdk/rank0.logged")] == [4]


@pytest.mark.parametrize("high", [True, False])
def test_a_file_that_has_the_number_of_the_metrics_gets_no_line(
    job: Path, high: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are given from the lowest on; where ours had to be low, each line looks first."""
    if not high:
        monkeypatch.setattr(progress, "_raised", lambda fd: fd)
    headway.log(loss=1.0, step=1)
    mine = progress._metrics[0]
    assert (mine >= progress.HIGH_FD) is high
    os.close(mine)
    with (job / "model.bin").open("wb") as other:
        assert (other.fileno() == mine) is not high
        headway.log(loss=2.0, step=2)
    assert (job / "model.bin").read_bytes() == b""
    assert [each["s"] for each in lines(job / "sdk/rank0.logged")] == [1, 2]


def test_processes_that_are_forked_while_it_is_open_share_the_file(job: Path) -> None:
    headway.log(loss=0.0, step=0)
    children = []
    for number in range(1, 4):
        child = os.fork()
        if not child:
            headway.log({f"loss_{number}": 1.0}, step=number)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert sorted(each["s"] for each in lines(job / "sdk/rank0.logged")) == [0, 1, 2, 3]


def test_a_step_in_the_place_of_metrics_is_refused_inside_a_job_and_outside(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"not 0; a step is given as step=0"):
        headway.log(0, loss=1.0)  # type: ignore[arg-type]


def test_without_a_step_metrics_go_on_where_the_checkpoint_ended(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_RESUME_STEP", "10")
    headway.log(loss=1)
    assert lines(job / "sdk/rank0.logged")[0]["s"] == 11


def test_a_notice_is_true_and_counts_down(job: Path) -> None:
    assert headway.stop_requested() is None
    (job / "notice").write_text(json.dumps({"cause": "preempted", "seconds_left": 30.0, "at": time.time() - 10}))
    notice = headway.stop_requested()
    assert notice
    assert notice.cause == "preempted"
    assert 15 < notice.seconds_left <= 20
    (job / "notice").write_text(json.dumps({"cause": "reclaimed", "seconds_left": 0, "at": time.time() - 99}))
    assert headway.stop_requested()
    assert headway.stop_requested().seconds_left == 0
    (job / "notice").write_text("{")
    assert headway.stop_requested().cause == "stop"


def test_parameters_come_with_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_PARAMS", '{"lr": 0.5, "amp": true}')
    assert headway.params(lr=0.1, layers=2) == {"lr": 0.5, "amp": True, "layers": 2}


PROGRAM = """
import os, signal, headway
headway.stop_requested()
os.kill(os.getpid(), signal.{sign})
print(headway.stop_requested())
"""


@pytest.mark.parametrize("sign", ["SIGTERM", "SIGUSR1"])
def test_a_script_that_asks_is_not_ended_by_the_signal(sign: str) -> None:
    env = {**os.environ, "HEADWAY_JOB_ID": "j1", "HEADWAY_NOTICE_SIGNAL": sign}
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(sign=sign)], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "Notice(cause='signal', seconds_left=None)\n")


def test_a_script_that_never_asks_is(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os, signal, headway; headway.log(a=1); os.kill(os.getpid(), signal.SIGTERM)"
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "HEADWAY_JOB_ID": "j1"})
    assert done.returncode == -signal.SIGTERM


def test_importing_and_asking_costs_next_to_nothing() -> None:
    program = "import time; began = time.process_time(); import headway; headway.resume(); headway.stop_requested(); "
    program += "print(time.process_time() - began)"
    best = min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5))
    assert best < 0.04  # Seconds of a processor, which a crowded one stretches as well.


def test_files_are_written_whole_and_the_last_two_stay(job: Path) -> None:
    folder = files.directory()
    for step in (1, 2, 30):
        files.save(folder, step, ".pt", lambda path: Path(path).write_text("x"))
    assert sorted(os.listdir(folder)) == ["step-000000002.pt", "step-000000030.pt"]
    assert files.newest(folder, ".pt") == (30, os.path.join(folder, "step-000000030.pt"))
    assert [each["step"] for each in lines(job / "sdk/declared.jsonl")] == [1, 2, 30]


def test_a_later_file_than_the_restored_step_is_not_taken(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = files.directory()
    for step in (2, 30):
        files.save(folder, step, ".pt", lambda path: Path(path).write_text("x"))
    monkeypatch.setenv("HEADWAY_RESUME_STEP", "2")
    assert files.newest(folder, ".pt") == (2, os.path.join(folder, "step-000000002.pt"))


def test_a_write_that_breaks_leaves_the_old_one(job: Path) -> None:
    folder = files.directory()
    files.save(folder, 1, ".pt", lambda path: Path(path).write_text("x"))

    def breaks(path: str) -> None:
        Path(path).write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        files.save(folder, 2, ".pt", breaks)
    assert files.found(folder, ".pt") == ["step-000000001.pt"]


def test_a_node_for_which_another_writes_tells_of_its_step_and_drops_what_was_restored(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    folder = files.directory()
    (job / "checkpoints/step-000000005.pt").write_text("of the first node, put back when this one resumed")
    for step in (10, 20, 30):
        files.finish(folder, step, ".pt")
    assert [(each["step"], each["path"]) for each in lines(job / "sdk/declared.jsonl")] == [
        (step, f"step-{step:09d}.pt.rank-1") for step in (10, 20, 30)
    ]
    assert sorted(os.listdir(folder)) == ["step-000000020.pt.rank-1", "step-000000030.pt.rank-1"]
    assert files.newest(folder, ".pt") is None


def test_a_draft_that_an_earlier_try_left_is_not_a_part_of_the_next(job: Path) -> None:
    folder = files.directory()
    os.makedirs(files.draft(folder, 3, ".parts"))
    Path(files.draft(folder, 3, ".parts"), "old").write_text("x")

    def write(path: str) -> None:
        os.makedirs(path)
        Path(path, "new").write_text("x")

    assert os.listdir(files.save(folder, 3, ".parts", write)) == ["new"]


def test_the_signal_of_a_notice_can_be_taken_over_from_a_library(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_JOB_ID", "abc")
    before, heard = signal.getsignal(signal.SIGTERM), []
    try:
        signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
        progress.listen_alone()
        os.kill(os.getpid(), signal.SIGTERM)
        assert progress.stop_requested()
        assert not heard
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_newest_step_is_noted_for_the_agent_whatever_ends_the_process(job: Path) -> None:
    said = "import os; from headway.training.progress import reached; [reached(n) for n in range(8)]; "
    subprocess.run([sys.executable, "-c", f"{said}os.kill(os.getpid(), 9)"], check=False)
    assert (job / "sdk/reached").read_text().split() == [f"{7:020d}"] * 2


def test_a_step_that_cannot_be_noted_ends_nothing(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (job / "sdk").write_text("no folder")
    monkeypatch.setattr(progress, "_note", None)
    progress.reached(3)
    monkeypatch.setattr(progress, "_places", ("", ""))
    monkeypatch.setattr(progress, "_note", None)
    progress.reached(3)
    assert (job / "sdk").read_text() == "no folder"
