"""What defines a job's packages: found, named by its kind, and hashed with all that enters it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.client.code import environments
from headway.core.errors import BadInput

HEADER = '# /// script\n# dependencies = ["numpy"]\n# ///\nprint(1)\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    return tmp_path


def found(place: Path, wish: object = "auto", script: str = "train.py") -> dict[str, str]:
    return environments.resolve(wish, str(place), str(place), script)


def test_the_most_particular_file_wins(place: Path) -> None:
    for name, text, kind in (
        ("environment.yml", "dependencies: [python]\n", "conda"),
        ("requirements.txt", "numpy\n", "requirements"),
        ("pyproject.toml", '[project]\nname = "x"\n', "pyproject"),
        ("uv.lock", "version = 1\n", "uv-lock"),
        ("train.py", HEADER, "pep723"),
    ):
        (place / name).write_text(text)
        assert (found(place)["kind"], found(place)["path"]) == (kind, name)


def test_settings_of_tools_alone_are_no_project(place: Path) -> None:
    (place / "pyproject.toml").write_text("[tool.ruff]\n")
    (place / "requirements.txt").write_text("numpy\n")
    assert found(place)["kind"] == "requirements"


def test_it_is_looked_for_upwards_to_the_root(place: Path) -> None:
    (place / "requirements.txt").write_text("numpy\n")
    (place / "src/deep").mkdir(parents=True)
    made = environments.resolve("auto", str(place), str(place / "src/deep"), None)
    assert made["path"] == "requirements.txt"
    with pytest.raises(BadInput, match="nothing in"):
        environments.resolve("auto", str(place / "src/deep"), str(place / "src/deep"), None)


def test_the_hash_follows_everything_that_enters(place: Path) -> None:
    (place / "requirements.txt").write_text("-r base.txt\nnumpy\n")
    (place / "base.txt").write_text("torch\n-c requirements.txt\n")
    first = found(place)["digest"]
    assert found(place)["digest"] == first
    (place / "base.txt").write_text("torch==2\n")
    assert found(place)["digest"] != first
    (place / "uv.lock").write_text("version = 1\n")
    (place / "pyproject.toml").write_text('[project]\nname = "x"\n')
    locked = found(place)["digest"]
    (place / "pyproject.toml").write_text('[project]\nname = "y"\n')
    assert found(place)["digest"] != locked


def test_of_a_script_only_the_header_counts(place: Path) -> None:
    (place / "train.py").write_text(HEADER)
    first = found(place)["digest"]
    (place / "train.py").write_text(HEADER + "print(2)\n")
    assert found(place)["digest"] == first
    (place / "train.py").write_text(HEADER.replace("numpy", "torch"))
    assert found(place)["digest"] != first


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ("auto", "nothing in"),
        ("nope.txt", 'no file "nope.txt"'),
        ("train.py", 'has no "# /// script" header'),
        ("strange.ini", "cannot be told from its name"),
        (7, "neither auto nor a file"),
    ],
)
def test_what_cannot_be_used_is_refused(place: Path, wish: object, message: str) -> None:
    (place / "strange.ini").write_text("")
    with pytest.raises(BadInput) as refused:
        found(place, wish)
    assert message in refused.value.message


def test_a_missing_included_list_is_named(place: Path) -> None:
    (place / "requirements.txt").write_text("-r gone.txt\n")
    with pytest.raises(BadInput, match="gone"):
        found(place)


def test_a_description_without_a_digest_gets_one(place: Path) -> None:
    (place / "requirements.txt").write_text("numpy\n")
    made = found(place, {"kind": "requirements", "path": "requirements.txt"})
    assert made["digest"] == found(place)["digest"]
    assert found(place, {"kind": "conda", "digest": "x"}) == {"kind": "conda", "digest": "x"}


def test_a_project_without_its_packages_is_refused_before_it_runs(place: Path) -> None:
    (place / "uv.lock").write_text('version = 1\n[[package]]\nname = "some-thing"\n')
    with pytest.raises(BadInput, match=r"needs the pyproject\.toml"):
        found(place, "uv.lock")
    (place / "pyproject.toml").write_text("[tool.ruff]\n")
    with pytest.raises(BadInput, match=r"has no \[project\]"):
        found(place, "pyproject.toml")
    (place / "pyproject.toml").write_text(
        '[project]\nname = "x"\ndependencies = ["Some_Thing>=1", "a; os_name == \'nt\'"]\n'
    )
    assert found(place)["kind"] == "uv-lock"
    (place / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["other[extra]>=1"]\n')
    with pytest.raises(BadInput, match='older than its project: it lacks "other"') as refused:
        found(place)
    assert refused.value.hint == "run `uv lock`"


def test_a_list_that_a_conda_file_takes_in_enters_its_hash(place: Path) -> None:
    (place / "environment.yml").write_text('dependencies:\n- python\n- pip:\n  - "-r more.txt"\n')
    with pytest.raises(BadInput, match="more"):
        found(place)
    (place / "more.txt").write_text("numpy\n")
    first = found(place)["digest"]
    (place / "more.txt").write_text("torch\n")
    assert found(place)["digest"] != first
