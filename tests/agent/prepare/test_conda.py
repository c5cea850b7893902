"""Conda files on a node without conda: the real rattler solves, and installs from channels that are made here."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway_agent.prepare import conda, environments
from headway_agent.prepare.steps import NotHere, Prepared, StepFailed, Work, prepare
from headway_wire.kinds import replace
from tests.agent.channels import PLACEHOLDER, Channel, Link, Package, a_module, a_python
from tests.agent.rattling import a_conda_node, needs_uv, solver_of
from tests.agent.stores import Site80, a_bundle, a_wheel, a_work
from tests.waiting import wait_until

pytestmark = needs_uv

TOLD = {"etc/told.txt": f"{PLACEHOLDER}/etc", "bin/told": f"#!/bin/sh\ncat {PLACEHOLDER}/etc/told.txt\n"}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    a_wheel(tmp_path / "wheels", "frompip")
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **a_conda_node(tmp_path)}


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    """A channel with a Python, a module in two versions and both formats, and packages that make trouble."""
    made = Channel(tmp_path / "channels/house")
    made.add(a_python())
    made.add(a_module("tinya", "1.0"), ".tar.bz2")
    made.add(a_module("tinya", "2.0"))
    made.add(Package("told", "1", TOLD))
    made.add(a_module("wantsold", "1.0", ("python", "tinya <2")))
    made.add(a_module("wantsnew", "1.0", ("python", "tinya >=2")))
    made.add(Package("ongpu", "1", {"etc/ongpu": "yes\n"}, ("__cuda >=12",)))
    return made


@pytest.fixture
def site(channel: Channel) -> Iterator[Site80]:
    """The same channel over HTTP."""
    site = Site80()
    for file in channel.folder.rglob("*.*"):
        site.files[f"/house/{file.relative_to(channel.folder)}"] = file.read_bytes()
    yield site
    site.close()


def a_file(channel: str, *dependencies: str, more: str = "") -> str:
    return (
        f"channels:\n- {channel}\n- nodefaults\ndependencies:\n"
        + "".join(f"- {each}\n" for each in dependencies)
        + more
    )


def a_conda_work(home: Path, environ: dict[str, str], text: str, task: str = "job1/1/0", **files: str) -> Work:
    bundle = a_bundle(home / "storage", {"environment.yml": text, **files})
    return a_work(home, task, environ, bundle=bundle, environment={"kind": "conda"})


def said_by(prepared: Prepared, *words: str) -> str:
    env = {**prepared.env, "HOME": "/"}
    return subprocess.run(words, env=env, cwd=prepared.cwd, capture_output=True, text=True, check=True).stdout.strip()


def visible(home: Path) -> list[str]:
    """What the cache shows of environments: neither whole ones nor halves, locks aside."""
    return [name for name in os.listdir(home / "cache/envs") if not name.endswith((".lock", ".uses"))]


@pytest.mark.parametrize("way", ["file", "http", "alias"])
def test_a_conda_file_is_built_where_there_is_only_uv(
    tmp_path: Path, environ: dict[str, str], channel: Channel, site: Site80, way: str
) -> None:
    place = {"file": channel.url, "http": f"{site.url}/house", "alias": "house"}[way]
    if way == "alias":
        environ["CONDA_CHANNEL_ALIAS"] = site.url
    more = "- pip:\n  - frompip\n  - -r more.txt\nvariables: {COLOUR: dark blue, DEPTH: 3}\n"
    text = a_file(place, "python", f"{place}::tinya=1", "told", more=more)
    a_wheel(tmp_path / "wheels", "alsopip")
    for number in (1, 2):
        prepared = prepare(a_conda_work(tmp_path, environ, text, f"job{number}/1/0", **{"more.txt": "alsopip\n"}))
        program = "import alsopip, frompip, sys, tinya; print(frompip.VERSION, tinya.VERSION, sys.prefix)"
        assert said_by(prepared, "python", "-c", program) == f"1.0 1.0 {prepared.env['CONDA_PREFIX']}"
        assert said_by(prepared, prepared.python, "-c", program).startswith("1.0 1.0")
        assert said_by(prepared, "told") == f"{prepared.env['CONDA_PREFIX']}/etc"
        assert said_by(prepared, "tinya-tool") == "tinya 1.0"
        assert said_by(prepared, "frompip-tool") == "frompip 1.0"
        assert (prepared.env["COLOUR"], prepared.env["DEPTH"]) == ("dark blue", "3")
        parts = ["pkgs"] if way == "file" else ["pkgs", "repodata"]
        assert sorted(os.listdir(tmp_path / "rattler-cache")) == parts
        assert not (tmp_path / ".cache/rattler").exists()
        for kept in (tmp_path / "channels").rglob("tinya*"):
            kept.unlink()  # The second is not built again.
    if way != "file":
        assert [path for path in site.fetched if "tinya-" in path] == ["/house/noarch/tinya-1.0-0.tar.bz2"]


def test_what_packages_want_to_be_set_is_set_as_if_the_environment_were_activated(
    tmp_path: Path, environ: dict[str, str], channel: Channel
) -> None:
    scripts: dict[str, str | Link] = {
        "etc/conda/activate.d/a.sh": 'echo noise; export DATA_DIR="$CONDA_PREFIX/share" MOOD="$COLOUR and calm"\n',
        "etc/conda/activate.d/b.sh": "export KEPT=yes PATH=/nowhere\nexit 3\n",
        "etc/conda/env_vars.d/c.json": '{"LEVEL": "7", "COLOUR": "red"}\n',
    }
    channel.add(Package("setter", "1", scripts))
    text = a_file(channel.url, "setter", more="variables: {COLOUR: blue}\n")
    work = a_conda_work(tmp_path, environ, text)
    work.claim = replace(work.claim, env={"LEVEL": "9"})
    prepared = prepare(work)
    home = prepared.env["CONDA_PREFIX"]
    assert prepared.env == {
        "CONDA_PREFIX": home, "PATH": f"{home}/bin:/usr/bin:/bin", "COLOUR": "blue", "DATA_DIR": f"{home}/share",
        "MOOD": "blue and calm", "KEPT": "yes",
    }  # fmt: skip


def test_a_python_that_is_not_among_the_packages_is_missed_at_once(
    tmp_path: Path, environ: dict[str, str], channel: Channel
) -> None:
    work = a_conda_work(tmp_path, environ, a_file(channel.url, "told"))
    work.claim = replace(work.claim, argv=("python", "train.py"))
    with pytest.raises(StepFailed, match=r'"python" is to run, and environment\.yml has no Python'):
        prepare(work)


def test_the_newest_that_fits_all_is_taken(tmp_path: Path, environ: dict[str, str], channel: Channel) -> None:
    prepared = prepare(a_conda_work(tmp_path, environ, a_file(channel.url, "tinya")))
    assert said_by(prepared, "tinya-tool") == "tinya 2.0"
    prepared = prepare(a_conda_work(tmp_path, environ, a_file(channel.url, "tinya", "wantsold"), "job2/1/0"))
    assert said_by(prepared, "tinya-tool") == "tinya 1.0"


def test_the_nodes_own_virtual_packages_decide(tmp_path: Path, environ: dict[str, str], channel: Channel) -> None:
    environ["CONDA_OVERRIDE_CUDA"] = "12.4"
    prepared = prepare(a_conda_work(tmp_path, environ, a_file(channel.url, "python", "ongpu")))
    assert (Path(prepared.env["CONDA_PREFIX"]) / "etc/ongpu").read_text() == "yes\n"


@pytest.mark.parametrize(
    ("dependencies", "more", "said"),
    [
        (["nosuch >=2"], "", "No candidates were found for nosuch >=2"),
        (["tinya >=3"], "", "No candidates were found for tinya >=3"),
        (["wantsold", "wantsnew"], "", "tinya 1.0, which conflicts with the versions reported above"),
        (["python", "ongpu <1"], "", "No candidates were found for ongpu <1"),
        (["python"], "- pip: [nosuchwheel]\n", "Because nosuchwheel was not found"),
        (["told"], "- pip: [frompip]\n", "the pip section needs a Python: add `python` to the dependencies"),
        (["3.11"], "", "environment.yml: dependencies: 3.11 is not a string"),
        (["python"], "a: b: c\n", "environment.yml is not valid YAML: mapping values are not allowed here"),
        (["python"], "package: []\n", "environment.yml is a lock file"),
        (["'tinya >='"], "", 'dependency "tinya >=": unable to parse version spec'),
    ],
)
def test_what_cannot_be_built_is_said_in_the_solvers_own_words(
    tmp_path: Path, environ: dict[str, str], channel: Channel, dependencies: list[str], more: str, said: str
) -> None:
    with pytest.raises(StepFailed) as raised:
        prepare(a_conda_work(tmp_path, environ, a_file(channel.url, *dependencies, more=more)))
    assert raised.value.cause == "environment_failed"
    assert raised.value.detail.startswith("building environment.yml failed: ")
    assert said in raised.value.detail
    assert "Traceback" not in raised.value.detail
    assert visible(tmp_path) == []


@pytest.mark.parametrize("where", ["file:///nowhere/at/all", "{site}/nowhere", "http://127.0.0.1:9/none"])
def test_a_channel_that_is_not_there_is_named(
    tmp_path: Path, environ: dict[str, str], site: Site80, where: str
) -> None:
    where = where.replace("{site}", site.url)
    with pytest.raises(StepFailed) as raised:
        prepare(a_conda_work(tmp_path, environ, a_file(where, "python")))
    assert where.removeprefix("file://") in raised.value.detail


@pytest.mark.parametrize("way", ["file", "http"])
@pytest.mark.parametrize("harm", ["another", "cut short"])
def test_a_package_that_is_not_what_the_index_says_leaves_nothing_behind(
    tmp_path: Path, environ: dict[str, str], channel: Channel, site: Site80, harm: str, way: str
) -> None:
    place = channel.url if way == "file" else f"{site.url}/house"
    file = channel.folder / "noarch/tinya-2.0-0.conda"
    good = file.read_bytes()
    if harm == "another":  # A whole package, but not the one that was announced.
        other = Channel(tmp_path / "channels/other")
        file.write_bytes(other.add(a_module("tinya", "2.0", ("python", "python"))).read_bytes())
    else:
        file.write_bytes(good[: len(good) // 2])
    site.files["/house/noarch/tinya-2.0-0.conda"] = file.read_bytes()
    with pytest.raises(StepFailed, match=r"tinya-2\.0-0\.conda") as raised:
        prepare(a_conda_work(tmp_path, environ, a_file(place, "told", "tinya")))
    assert harm == "cut short" or "hash mismatch" in raised.value.detail
    assert visible(tmp_path) == []
    file.write_bytes(good)
    site.files["/house/noarch/tinya-2.0-0.conda"] = good
    prepared = prepare(a_conda_work(tmp_path, environ, a_file(place, "told", "tinya"), "job2/1/0"))
    assert said_by(prepared, "tinya-tool") == "tinya 2.0"


def test_a_damaged_cache_of_packages_is_no_reason_to_fail(
    tmp_path: Path, environ: dict[str, str], channel: Channel
) -> None:
    (tmp_path / "rattler-cache").mkdir()
    (tmp_path / "rattler-cache/pkgs").write_text("not a folder\n")
    prepared = prepare(a_conda_work(tmp_path, environ, a_file(channel.url, "told", "tinya")))
    assert said_by(prepared, "tinya-tool") == "tinya 2.0"


def test_a_solver_that_is_killed_leaves_nothing_and_is_tried_again(
    tmp_path: Path, environ: dict[str, str], channel: Channel, site: Site80
) -> None:
    go_on, failed = threading.Event(), []
    site.before = lambda path: go_on.wait(60) if "tinya-2.0" in path else None
    work = a_conda_work(tmp_path, environ, a_file(f"{site.url}/house", "told", "tinya"))

    def build() -> None:
        try:
            prepare(work)
        except NotHere as error:
            failed.append(str(error))

    thread = threading.Thread(target=build)
    thread.start()
    wait_until(lambda: any("tinya-2.0" in path for path in site.fetched), what="the download")
    os.kill(solver_of(f"{work.place}/environment.yml"), 9)
    thread.join()
    go_on.set()
    assert failed == ["building environment.yml was ended by signal 9"]
    assert visible(tmp_path) == []
    assert said_by(prepare(work), "tinya-tool") == "tinya 2.0"


def test_a_conda_on_the_node_comes_first_unless_rattler_is_asked_for(tmp_path: Path) -> None:
    tool = tmp_path / "bin/mamba"
    tool.parent.mkdir()
    tool.touch(0o755)
    environ = {"PATH": str(tool.parent)}
    asked = (str(tmp_path / "environment.yml"), str(tmp_path / "home"))
    words = conda.command(*asked, environ, str(tmp_path / "cache"), list)
    assert words == [str(tool), "env", "create", "-q", "-p", asked[1], "-f", asked[0]]
    environ["HEADWAY_AGENT_CONDA"] = "rattler"
    words = conda.command(*asked, environ, str(tmp_path / "cache"), lambda: ["uv"])
    assert words[:2] == ["uv", "run"]
    assert Path(words[-3]).read_bytes() == Path(conda.__file__).with_name("conda_script.py").read_bytes()
    environ["HEADWAY_AGENT_CONDA"] = "/opt/micromamba"
    words = conda.command(*asked, environ, str(tmp_path / "cache"), list)
    assert words[:3] == ["/opt/micromamba", "create", "-y"]


def test_lists_that_the_pip_section_takes_in_are_part_of_the_key(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies:\n- pip:\n  - -r more.txt\n")
    (tmp_path / "more.txt").write_text("tinya<2\n")
    first = environments.key_of("conda", str(file), "", {})
    (tmp_path / "more.txt").write_text("tinya<3\n")
    assert environments.key_of("conda", str(file), "", {}) != first
