"""The SDK as a program uses it: what may be submitted, and which names there are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headway
from tests.client.fake_server import FakeServer


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_BUNDLE", "never")
    (tmp_path / "train.py").write_text("")
    return tmp_path


def test_a_dict_is_the_description_of_a_job(fake: FakeServer, place: Path) -> None:
    described = {"name": "fit", "command": ["make", "all"], "resources": {"gpus": 1}, "env": {"A": "b"}}
    job = headway.submit(described, cpus=2, tags={"by": "me"})
    sent = fake.jobs[job.id]["spec"]
    assert (sent["name"], sent["command"], sent["tags"]) == ("fit", ["make", "all"], {"by": "me"})
    assert sent["resources"] == {"gpus": 1, "cpus": 2}
    assert (sent["workdir"], sent["env"]["A"]) == (str(place), "b")
    assert "PATH" in sent["env"], "as for a script: the job finds the caller's programs"
    assert described["env"] == {"A": "b"}, "the caller's own dict is left alone"


@pytest.mark.parametrize("script", ["train.py", Path("train.py")])
def test_a_script_is_run_with_its_arguments(fake: FakeServer, script: Any) -> None:
    with headway.Client() as client:
        job = client.submit(script, "--lr", "0.1", gpus=1)
    assert fake.jobs[job.id]["spec"]["command"][1:] == ["train.py", "--lr", "0.1"]


def test_a_list_is_a_command_as_it_stands(fake: FakeServer) -> None:
    assert fake.jobs[headway.submit(["echo", "train.py"]).id]["spec"]["command"] == ["echo", "train.py"]


def test_one_key_makes_one_job(fake: FakeServer) -> None:
    assert headway.submit(["true"], key="mine").id == headway.submit(["true"], key="mine").id


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([{}], headway.BadInput, "no command"),
        ([{"command": ["true"], "gpu": 1}], headway.BadInput, "gpu"),
        ([{"command": ["true"]}, "more"], TypeError, "'more' after a description"),
        ([print], TypeError, "is a function; headway.Executor"),
        ([7], TypeError, "7 is neither a script"),
        ([b"true"], TypeError, "b'true' is neither a script"),
        (["nosuch.py"], headway.BadInput, "nosuch.py"),
        (["train.py --lr 0.1"], headway.BadInput, "is several words"),
    ],
)
def test_misuse_is_told_before_anything_is_sent(
    fake: FakeServer, given: list[Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        headway.submit(*given)
    assert fake.asked == []


def test_every_public_name_is_there_before_it_is_loaded() -> None:
    program = "import headway, sys; print(*dir(headway)); assert 'headway.client.sdk' not in sys.modules"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set(headway.__all__) <= set(shown)
    assert set(headway._PLACES) == set(headway.__all__)
    for name in headway.__all__:
        assert getattr(headway, name).__doc__, f"headway.{name} says nothing of itself"


def test_what_looks_like_a_secret_is_warned_of_where_it_was_submitted(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "abc")
    with pytest.warns(UserWarning, match="^MY_TOKEN is kept readable") as told:
        job = headway.submit(["true"], env_all=True)
    assert told[0].filename == __file__
    assert fake.jobs[job.id]["spec"]["env"]["MY_TOKEN"] == "abc"

    async def program() -> headway.AsyncJobHandle:
        async with headway.AsyncClient() as client:
            return await client.submit(["true"], env_all=True)

    with pytest.warns(UserWarning, match="^MY_TOKEN is kept readable") as told:
        asyncio.run(program())
    assert told[0].filename == __file__


def test_a_filter_that_does_not_exist_is_refused_and_not_passed_over(fake: FakeServer, client: headway.Client) -> None:
    with pytest.raises(TypeError, match="jobs: 'stat' is not one of state, "):
        client.jobs(stat="failed")  # type: ignore[call-arg]
    assert fake.asked == []
