"""Jobs with packages from a conda file, on a node that has uv and no conda: rattler, server and agent are all real."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.agent.channels import Channel, a_module, a_python
from tests.agent.rattling import UV, a_conda_node, needs_uv, solver_of
from tests.agent.stores import Site80, a_wheel
from tests.living import Living
from tests.waiting import wait_until

pytestmark = [pytest.mark.real, needs_uv]

TRAIN = "import frompip, os, tinya\nprint('has', tinya.VERSION, frompip.VERSION, os.environ['COLOUR'])\n"
FILE = """channels: [{channel}]
dependencies:
- python
- {wish}
- pip:
  - frompip
variables: {{COLOUR: blue}}
"""


@pytest.fixture
def channel(living: Living) -> Channel:
    made = Channel(living.home / "channels/house")
    made.add(a_python())
    made.add(a_module("tinya", "1.0"), ".tar.bz2")
    made.add(a_module("tinya", "2.0"))
    made.add(a_module("wantsold", "1.0", ("python", "tinya <2")))
    a_wheel(living.home / "wheels", "frompip")
    counted = living.home / "uv"
    counted.write_text(f'#!/bin/sh\necho "$1" >> {living.home}/calls\nexec {UV} "$@"\n')
    counted.chmod(0o700)
    living.env.update(a_conda_node(living.home), HEADWAY_AGENT_UV=str(counted))
    living.script("train.py", TRAIN)
    return made


def submit(living: Living, channel: str, wish: str) -> str:
    living.script("environment.yml", FILE.format(channel=channel, wish=wish))
    return living.submit("--bundle", "--environment", "auto", "train.py")


def test_ten_jobs_want_one_conda_environment_and_one_that_cannot_be_made_says_why(
    living: Living, channel: Channel
) -> None:
    for name in [submit(living, channel.url, "tinya=1") for _ in range(10)]:
        job = living.wait(name)
        assert job["state"] == "succeeded", job["sentence"]
        assert living.log(name) == "has 1.0 1.0 blue\n"
    assert (living.home / "calls").read_text().split() == ["run"]
    for wish, said in [
        ("tinya >=3", "No candidates were found for tinya >=3"),
        ("wantsold\n- tinya >=2", "wantsold 1.0 would require"),
    ]:
        name = submit(living, channel.url, wish)
        job = living.wait(name)
        assert (job["state"], job["cause"]) == ("failed", "environment_failed"), job["sentence"]
        assert said in living.ok("describe", name)


@pytest.mark.parametrize("killed", ["solver", "agent"])
def test_a_build_that_is_killed_is_made_again_and_nothing_of_it_is_left(
    living: Living, channel: Channel, killed: str
) -> None:
    site, go_on = Site80(), threading.Event()
    for file in channel.folder.rglob("*.*"):
        site.files[f"/house/{file.relative_to(channel.folder)}"] = file.read_bytes()
    site.before = lambda path: go_on.wait(60) if "tinya-2.0" in path else None
    name = submit(living, f"{site.url}/house", "tinya")
    wait_until(lambda: any("tinya-2.0" in path for path in site.fetched), what="the download")
    (left,) = [path for path in environments(living) if path.is_dir() and path.suffix != ".uses"]
    (left / "half").touch()
    os.kill(solver_of(str(left)) if killed == "solver" else living.agent, 9)
    go_on.set()
    job = living.wait(name)
    site.close()
    assert job["state"] == "succeeded", job["sentence"]
    assert living.log(name) == "has 2.0 1.0 blue\n"
    assert (left / "bin/python").exists()
    assert not (left / "half").exists()


def environments(living: Living) -> list[Path]:
    return list((living.home / "state/nodes/cache/envs").iterdir())
