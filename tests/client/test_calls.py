"""Functions as jobs, as far as no server is needed: what is packed, how it runs, what comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.client import calls
from headway.client.code.bundle import ReadBundle
from headway.core.errors import BadInput
from headway.training import calling
from tests.client.fake_server import FakeServer
from tests.waiting import wait_until


def add(left: int, right: int = 1) -> int:
    return left + right


def fail() -> None:
    raise KeyError("gone")


class Counting(headway.Checkpointable):
    """Counts; when interrupted, goes on from the number that it had reached."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def __call__(self, flag: str) -> int:
        while self.number < 1000:
            self.number += 1
            Path(flag).touch()
            if self.number == 500:
                signal.pause()
        return self.number


class ShapeError(Exception):
    """Its constructor wants more than Exception gives it back: it is pickled, and never loaded."""

    def __init__(self, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        super().__init__(f"bad shape {found}, wanted {wanted}")
        self.found = found


class Holding(Exception):
    """Cannot even be pickled."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def misshape() -> None:
    raise ShapeError((2, 3), (4,))


def hold() -> None:
    raise Holding("all mine")


def packed(folder: Path, function: Any, *args: Any, **kwargs: Any) -> ReadBundle:
    folder.mkdir()
    return calls._pack(folder, function, [(args, kwargs)])


def run(folder: Path, python: str = sys.executable, **env: str) -> tuple[int, Any]:
    environ = {"PATH": os.environ["PATH"], "HEADWAY_OUTPUT_DIR": str(folder / "output"), **env}
    environ["PYTHONPATH"] = str(Path(headway.__file__).resolve().parents[1])
    done = subprocess.run([python, "-S", "run_call.py", "calls/0.pkl"], cwd=folder, env=environ)
    result = folder / "output/result.pkl"
    return done.returncode, calling.load(str(result)) if result.exists() else None


def test_a_call_runs_with_nothing_but_its_bundle(tmp_path: Path) -> None:
    packed(tmp_path / "b", add, 2, right=3)
    assert run(tmp_path / "b") == (0, {"value": 5})


def test_what_is_raised_comes_back(tmp_path: Path) -> None:
    packed(tmp_path / "b", fail)
    code, told = run(tmp_path / "b")
    assert code == 1
    assert isinstance(told["error"], KeyError)
    _, error = calls.read_result(str(tmp_path / "b/output/result.pkl"), "j1")
    assert isinstance(error, KeyError)
    assert isinstance(error.__cause__, headway.CallFailed)
    assert error.__cause__.job == "j1"
    assert 'raise KeyError("gone")' in error.__cause__.trace


@pytest.mark.parametrize(
    ("function", "said", "why"),
    [
        (misshape, "ShapeError: bad shape (2, 3), wanted (4,)", "cannot be unpickled here: TypeError"),
        (hold, "Holding: all mine", "cannot be pickled there"),
    ],
)
def test_an_exception_that_does_not_survive_the_way_is_told_in_words(
    tmp_path: Path, function: Any, said: str, why: str
) -> None:
    packed(tmp_path / "b", function)
    environ = {"PATH": os.environ["PATH"], "HEADWAY_OUTPUT_DIR": str(tmp_path / "b/output")}
    done = subprocess.run([sys.executable, "-S", "run_call.py", "calls/0.pkl"], cwd=tmp_path / "b", env=environ)
    assert done.returncode == 1
    _, error = calls.read_result(str(tmp_path / "b/output/result.pkl"), "j1")
    assert isinstance(error, headway.CallFailed)
    assert said in str(error)
    assert "job j1" in str(error)
    assert why in str(error)
    assert (error.job, error.raised.rpartition(".")[2]) == ("j1", said.split(":")[0])
    assert f"in {function.__name__}" in error.trace


def test_a_result_that_cannot_be_loaded_here_says_so(tmp_path: Path) -> None:
    path = tmp_path / "result.pkl"
    path.write_bytes(calling.head() + b"cnosuchmodule\nThing\n.")
    with pytest.raises(headway.CallFailed, match="job j1 returned cannot be unpickled here: ModuleNotFoundError"):
        calls.read_result(str(path), "j1")


def test_a_result_that_cannot_be_pickled_is_an_error_that_can(tmp_path: Path) -> None:
    packed(tmp_path / "b", lambda: threading.Lock())
    code, told = run(tmp_path / "b")
    assert (code, type(told["error"])) == (0, TypeError)


def test_another_minor_version_is_refused(tmp_path: Path) -> None:
    packed(tmp_path / "b", add, 1)
    file = tmp_path / "b/calls/0.pkl"
    file.write_bytes(b'{"python": [3, 7]}\n' + file.read_bytes().split(b"\n", 1)[1])
    assert run(tmp_path / "b") == (2, None)


def test_the_same_call_is_the_same_bundle(tmp_path: Path) -> None:
    assert packed(tmp_path / "a", add, 1).digest == packed(tmp_path / "b", add, 1).digest
    assert packed(tmp_path / "c", add, 2).digest != packed(tmp_path / "d", add, 1).digest


def test_an_interrupted_call_goes_on_from_where_it_was(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    packed(tmp_path / "b", Counting(), str(flag))
    (tmp_path / "ck").mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(headway.__file__).resolve().parents[1]),
        "HEADWAY_OUTPUT_DIR": str(tmp_path / "b/output"),
        "HEADWAY_CHECKPOINT_DIR": str(tmp_path / "ck"),
        "HEADWAY_SDK_DIR": str(tmp_path / "sdk"),
    }
    going = subprocess.Popen([sys.executable, "-S", "run_call.py", "calls/0.pkl"], cwd=tmp_path / "b", env=env)
    wait_until(flag.exists, what="the call")
    going.terminate()
    assert going.wait(300) == calling.AGAIN
    assert '"path": "call.pkl"' in (tmp_path / "sdk/declared.jsonl").read_text()
    left = calling.load(str(tmp_path / "ck/call.pkl"))[0].number
    assert 0 < left <= 500
    left_call = calling.load(str(tmp_path / "ck/call.pkl"))
    left_call[0].number = 500
    calling._leave(left_call, str(tmp_path / "ck/call.pkl"))
    code, told = run(tmp_path / "b", HEADWAY_CHECKPOINT_DIR=str(tmp_path / "ck"))
    assert (code, told) == (0, {"value": 1000})


def test_a_map_is_one_bundle_and_one_request(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def batch(self: Any, raws: Any, key: Any = None) -> list[str]:
        sent.extend(raws)
        return [f"j{number}" for number in range(len(raws))]

    monkeypatch.setattr("headway.client.sdk.Client.submit_many", batch)
    monkeypatch.setenv("WANDB_PROJECT", "vision")
    monkeypatch.setenv("MY_FLAG", "on")
    executor = headway.Executor(cpus=2, timeout="1h", retries=1, env={"A": "b"})
    made = executor.map_array(add, [1, 2, 3], [4, 5, 6])
    assert [each.id for each in made] == ["j0", "j1", "j2"]
    assert [raw["command"][1:] for raw in sent] == [["run_call.py", f"calls/{number}.pkl"] for number in range(3)]
    assert {raw["bundle"] for raw in sent} == set(fake.bundles)
    assert sent[0]["resources"] == {"cpus": 2}
    assert (sent[0]["name"], sent[0]["max_duration"], sent[0]["retries"]) == ("add", "1h", 1)
    assert (sent[0]["env"]["WANDB_PROJECT"], sent[0]["env"]["A"]) == ("vision", "b"), "as in any job"
    assert "MY_FLAG" not in sent[0]["env"]
    headway.Executor(executor.client, env_all=True).map_array(add, [1])
    assert sent[-1]["env"]["MY_FLAG"] == "on"
    assert executor.map_array(add, []) == []
    executor.client.close()
    with pytest.raises(BadInput, match="bundle of its own"):
        headway.Executor(bundle=True).submit(add, 1)


def test_a_decorated_function_still_runs_here() -> None:
    @headway.job(cpus=1)
    def double(number: int) -> int:
        return number * 2

    @headway.job
    def triple(number: int) -> int:
        return number * 3

    assert (double(2), double.local(3), triple(1), double.__name__) == (4, 6, 3, "double")


def test_jobs_are_yielded_as_they_end(fake: FakeServer, client: Any) -> None:
    for name in ("a", "b"):
        fake.add(name)
    fake.change("b", state="succeeded")
    jobs = [client.job("a"), client.job("b")]
    found = headway.as_completed(jobs, timeout_s=300)
    assert next(found).id == "b"
    fake.change("a", state="failed")
    assert next(found).id == "a"
    with pytest.raises(StopIteration):
        next(found)
    fake.change("a", state="running")
    with pytest.raises(TimeoutError):
        list(headway.as_completed([client.job("a")], timeout_s=0.01))


@pytest.mark.parametrize(
    ("use", "error", "said"),
    [
        (lambda made: made.submit(add(1)), TypeError, "submit: 2 is not a function"),
        (lambda made: made.submit(None), TypeError, "submit: None is not a function"),
        (lambda made: made.map_array("add", [1]), TypeError, "map_array: 'add' is not a function"),
        (lambda made: made.map_array(add), TypeError, "no values are given"),
        (lambda made: made.map_array(add, 3), TypeError, "map_array: 3 is not a list of values"),
        (lambda made: made.map_array(add, [1, 2], [1]), ValueError, "different lengths: 2, 1"),
        (lambda made: headway.job(3), TypeError, "job: 3 is not a function"),
    ],
)
def test_misuse_is_told_before_anything_is_sent(use: Any, error: type[Exception], said: str, fake: FakeServer) -> None:
    with pytest.raises(error, match=said):
        use(headway.Executor())
    assert fake.asked == []
