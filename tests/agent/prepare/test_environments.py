"""Environments are made by the real uv, from wheels that the test has made: no network is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headway_agent.prepare import environments
from headway_agent.prepare.steps import Prepared, StepFailed, prepare
from tests.agent.stores import Site80, a_bundle, a_wheel, a_work

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_uv = pytest.mark.skipif(UV is None, reason="NOT TESTED: there is no uv on this machine")

PROJECT = '[project]\nname = "p"\nversion = "0"\nrequires-python = ">=3.8"\ndependencies = ["tinyb"]\n'
SCRIPT = '# /// script\n# dependencies = ["tinyb"]\n# ///\nimport tinyb\n'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """What a node has: uv, and an index that is a folder."""
    a_wheel(tmp_path / "wheels", "tinya")
    a_wheel(tmp_path / "wheels", "tinyb", needs=("tinya",))
    return {
        "PATH": f"{Path(UV or '/').parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv"),
    }


def lock(place: Path, environ: dict[str, str]) -> str:
    place.mkdir()
    (place / "pyproject.toml").write_text(PROJECT)
    subprocess.run([str(UV), "lock", "-q"], cwd=place, env=environ, check=True)
    return (place / "uv.lock").read_text()


def said_by(prepared: Prepared, *words: str) -> str:
    env = {**prepared.env, "HOME": "/"}
    return subprocess.run(words, env=env, cwd=prepared.cwd, capture_output=True, text=True, check=True).stdout.strip()


@needs_uv
@pytest.mark.parametrize("kind", ["uv-lock", "pyproject", "requirements", "pep723"])
def test_each_kind_of_definition_makes_an_environment(tmp_path: Path, environ: dict[str, str], kind: str) -> None:
    files = {
        "uv-lock": {"pyproject.toml": PROJECT, "uv.lock": "", "src/own.py": "NAME = 'own'\n"},
        "pyproject": {"pyproject.toml": PROJECT},
        "requirements": {"requirements.txt": "-r more.txt\n", "more.txt": "tinyb\n"},
        "pep723": {"train.py": SCRIPT},
    }[kind]
    if kind == "uv-lock":
        files["uv.lock"] = lock(tmp_path / "project", environ)
    path = "train.py" if kind == "pep723" else ""
    digest = a_bundle(tmp_path / "storage", files)
    prepared = prepare(a_work(tmp_path, environ=environ, bundle=digest, environment={"kind": kind, "path": path}))
    assert said_by(prepared, prepared.python, "-c", "import tinya, tinyb; print(tinyb.VERSION)") == "1.0"
    assert said_by(prepared, "tinyb-tool") == "tinyb 1.0"  # It was made elsewhere and moved to its place.
    assert prepared.env["VIRTUAL_ENV"] == str(Path(prepared.python).parent.parent)
    if kind == "uv-lock":
        assert said_by(prepared, prepared.python, "-c", "import own; print(own.NAME)") == "own"


@needs_uv
def test_ten_at_once_make_one_environment_once(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    run = environments._run
    monkeypatch.setattr(environments, "_run", lambda words, *rest: (made.append(words[1]), run(words, *rest))[1])
    digest = a_bundle(tmp_path / "storage", {"requirements.txt": "tinyb\n"})
    works = [
        a_work(tmp_path, f"job{n}/1/0", environ, bundle=digest, environment={"kind": "requirements"}) for n in range(10)
    ]
    threads = [threading.Thread(target=prepare, args=(work,)) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert made == ["venv", "pip"]
    assert len({work.prepared.python for work in works}) == 1
    assert works[0].prepared.python


BACKEND = """import zipfile


def build_wheel(folder, *rest):
    name = "own-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("own.py", "own.py")
        wheel.writestr("own-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: own\\nVersion: 1\\n")
        wheel.writestr("own-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("own-1.dist-info/RECORD", "")
    return name


def build_editable(folder, *rest):
    raise SystemExit("it would lead into a directory that goes with the attempt")
"""


@needs_uv
@pytest.mark.parametrize("line", ["-e .", ".", "own @ ."])
def test_a_package_of_the_bundle_itself_is_part_of_the_environment(
    tmp_path: Path, environ: dict[str, str], line: str
) -> None:
    project = '[project]\nname = "own"\nversion = "1"\n'
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"pyproject.toml": project + build, "backend.py": BACKEND, "requirements.txt": f"{line}\n"}
    for number, value in enumerate((1, 1, 2)):
        digest = a_bundle(tmp_path / "storage", {**files, "own.py": f"X = {value}\n"})
        work = a_work(tmp_path, f"job{number}/1/0", environ, bundle=digest, environment={"kind": "requirements"})
        prepared = prepare(work)
        shutil.rmtree(work.place)
        prepared.cwd = "/"
        assert said_by(prepared, prepared.python, "-c", "import own; print(own.X)") == str(value)
    assert len([name for name in os.listdir(tmp_path / "cache/envs") if name.endswith(".json")]) == 2


@needs_uv
def test_the_python_that_a_script_asks_for_is_the_one_it_gets(tmp_path: Path, environ: dict[str, str]) -> None:
    script = '# /// script\n# requires-python = ">=3.99"\n# dependencies = []\n# ///\n'
    digest = a_bundle(tmp_path / "storage", {"train.py": script})
    with pytest.raises(StepFailed, match=r">=3\.99"):
        prepare(a_work(tmp_path, environ=environ, bundle=digest, environment={"kind": "pep723", "path": "train.py"}))
    running = ".".join(map(str, sys.version_info[:2]))
    digest = a_bundle(tmp_path / "storage", {"train.py": script.replace(">=3.99", f"=={running}.*")})
    work = a_work(tmp_path, "job2/1/0", environ, bundle=digest, environment={"kind": "pep723", "path": "train.py"})
    assert said_by(prepare(work), "python", "-V").startswith(f"Python {running}.")


@needs_uv
def test_a_failing_build_shows_what_uv_said(tmp_path: Path, environ: dict[str, str]) -> None:
    digest = a_bundle(tmp_path / "storage", {"requirements.txt": "tinyb==9\n"})
    work = a_work(tmp_path, environ=environ, bundle=digest, environment={"kind": "requirements"})
    with pytest.raises(StepFailed) as raised:
        prepare(work)
    assert raised.value.cause == "environment_failed"
    assert raised.value.detail.startswith("uv pip install failed: ")
    assert "tinyb==9" in raised.value.detail
    assert not [name for name in os.listdir(tmp_path / "cache/envs") if name.endswith((".json", ".new"))]


@needs_uv
def test_environments_are_kept_within_a_limit_but_never_taken_from_a_task(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    environ["HEADWAY_AGENT_ENVS_BYTES_MAX"] = "1"
    first = a_work(
        tmp_path, "a/1/0", environ, bundle=a_bundle(tmp_path / "storage", {"requirements.txt": "tinya\n"}),
        environment={"kind": "requirements"},
    )  # fmt: skip
    python = prepare(first).python
    second = a_work(
        tmp_path, "b/1/0", environ, bundle=a_bundle(tmp_path / "storage", {"requirements.txt": "tinyb\n"}),
        environment={"kind": "requirements"},
    )  # fmt: skip
    prepare(second)
    assert os.path.exists(python)
    shutil.rmtree(first.directory)
    third = a_work(
        tmp_path, "c/1/0", environ, bundle=a_bundle(tmp_path / "storage", {"requirements.txt": "tinya\ntinyb\n"}),
        environment={"kind": "requirements"},
    )  # fmt: skip
    prepare(third)
    assert not os.path.exists(python)
    assert os.path.exists(second.prepared.python)


CONDA = """#!/bin/sh
echo "$(basename "$0") $*" >> "$HOME/asked"
echo "$CONDA_ALWAYS_YES $MAMBA_ALWAYS_YES" > "$HOME/yes"
while [ "$1" != -p ]; do shift; done
if grep -q no-such-package "$4"; then echo "PackagesNotFoundError: no-such-package"; exit 1; fi
mkdir -p "$2/bin" && ln -s "$(command -v python3)" "$2/bin/python"
"""


@pytest.mark.parametrize(
    ("tool", "words"), [("micromamba", "create -y -p"), ("mamba", "env create -q -p"), ("conda", "env create -q -p")]
)
def test_a_conda_file_is_built_once_with_the_tool_that_is_there(tmp_path: Path, tool: str, words: str) -> None:
    """With a stand-in: none of the three can be had from where our tests get their packages."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / tool).write_text(CONDA)
    (tmp_path / "tools" / tool).chmod(0o755)
    environ = {"PATH": f"{tmp_path}/tools:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    bundle = a_bundle(tmp_path / "storage", {"environment.yml": "dependencies: [numpy]\n"})
    for number in (1, 2):
        work = a_work(tmp_path, f"job{number}/1/0", environ, bundle=bundle, environment={"kind": "conda"})
        prepare(work)
        assert work.prepared.env["CONDA_PREFIX"] == str(Path(work.prepared.python).parents[1])
        assert said_by(work.prepared, work.prepared.python, "-c", "print(6 * 7)") == "42"
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.startswith(f"{tool} {words} ")
    assert asked.endswith("environment.yml")
    assert (tmp_path / "yes").read_text() == "true true\n"
    bundle = a_bundle(tmp_path / "storage", {"environment.yml": "dependencies: [no-such-package]\n"})
    with pytest.raises(StepFailed, match="PackagesNotFoundError: no-such-package"):
        prepare(a_work(tmp_path, "job3/1/0", environ, bundle=bundle, environment={"kind": "conda"}))


@needs_uv
@pytest.mark.parametrize("how", ["silent", "busy", "unknown"])
def test_an_index_that_cannot_be_reached_is_no_fault_of_the_file(
    tmp_path: Path, environ: dict[str, str], how: str
) -> None:
    site = Site80()
    site.busy = how == "busy"
    environ = {name: value for name, value in environ.items() if name not in ("UV_NO_INDEX", "UV_OFFLINE")}
    environ |= {"UV_DEFAULT_INDEX": site.url if how != "silent" else "http://127.0.0.1:9", "UV_HTTP_RETRIES": "0"}
    bundle = a_bundle(tmp_path / "storage", {"requirements.txt": "tinyz\n"})
    with pytest.raises(StepFailed) as raised:
        prepare(a_work(tmp_path, "job1/1/0", environ, bundle=bundle, environment={"kind": "requirements"}))
    site.close()
    assert raised.value.cause == ("environment_failed" if how == "unknown" else "unreachable"), raised.value.detail
    assert "tinyz" in raised.value.detail


@pytest.mark.parametrize(
    ("kind", "said"), [("requirements", "needs uv"), ("conda", "needs micromamba, mamba, conda or uv")]
)
def test_a_node_without_the_tool_says_so(tmp_path: Path, kind: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    file = environments.FILES[kind]
    work = a_work(
        tmp_path, environ={"PATH": "/nowhere", "HOME": "/nowhere"}, environment={"kind": kind},
        bundle=a_bundle(tmp_path / "storage", {file: "tinya\n"}),
    )  # fmt: skip
    with pytest.raises(StepFailed) as raised:
        prepare(work)
    assert raised.value.cause == "environment_failed"
    assert said in raised.value.detail


def test_a_definition_that_is_not_in_the_bundle_is_said(tmp_path: Path) -> None:
    work = a_work(
        tmp_path, bundle=a_bundle(tmp_path / "storage", {"a": "1"}), environment={"kind": "uv-lock", "path": "uv.lock"}
    )
    with pytest.raises(StepFailed, match="which is not there"):
        prepare(work)


def test_the_key_has_all_that_decides_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("-c limits.txt\ntinya\n")
    (tmp_path / "limits.txt").write_text("tinya<2\n")
    first = environments.key_of("requirements", str(file), "bundle1", {})
    assert environments.key_of("requirements", str(file), "bundle2", {}) == first
    (tmp_path / "limits.txt").write_text("tinya<3\n")
    assert environments.key_of("requirements", str(file), "bundle1", {}) != first
    script = tmp_path / "train.py"
    script.write_text(SCRIPT + "print(1)\n")
    first = environments.key_of("pep723", str(script), "", {})
    script.write_text(SCRIPT + "print(2)\n")
    assert environments.key_of("pep723", str(script), "", {}) == first
    script.write_text(SCRIPT.replace("tinyb", "tinya"))
    assert environments.key_of("pep723", str(script), "", {}) != first


def test_the_ranks_python_is_the_environments() -> None:
    from headway_agent.launch.ranks import launch_of
    from headway_wire.claim import Claim

    duty = {"task": "a/1/0", "argv": ["/usr/bin/python3.11", "train.py"]}
    launch = launch_of(Claim.read(duty), "/t", "", 0, 0, Prepared(python="/env/bin/python"))
    assert launch["ranks"][0]["argv"] == ["/env/bin/python", "train.py"]
    launch = launch_of(Claim.read(dict(duty, argv=["pythonic"])), "/t", "", 0, 0, Prepared(python="/env/bin/python"))
    assert launch["ranks"][0]["argv"] == ["pythonic"]
