"""The pages that people follow from top to bottom: what they say is what is printed today."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.typed_page import Reader, fits, plain, steps
from tests.living import PATIENT, Living

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "tutorial/first-job.md",
    "tutorial/keep-your-progress.md",
    "how-to/python.md",
    "how-to/environment-of-a-job.md",
]


@pytest.fixture
def reader(headway_home: Path, tmp_path: Path) -> Iterator[Reader]:
    """Somebody who has installed Headway as the first tutorial says, in a shell of their own."""
    living = Living(headway_home, tmp_path)
    clone = tmp_path / "clone"
    clone.mkdir()
    shutil.copytree(ROOT / "examples", clone / "examples")
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    env = {**PATIENT, "PATH": path, "HOME": str(headway_home), "LANG": "C.UTF-8", "TERM": "dumb"}
    yield Reader(clone, {**env, "PYTHONUNBUFFERED": "1"})  # Its lines in the order in which a terminal shows them.
    living.end()


@pytest.mark.real
@pytest.mark.parametrize("name", PAGES)
def test_the_page_can_be_typed_from_top_to_bottom(name: str, reader: Reader) -> None:
    reader.follow((ROOT / "docs" / name).read_text())


@pytest.mark.long
def test_a_type_checker_reads_the_scripts_of_the_page(tmp_path: Path) -> None:
    """As strictly as a project of a user may be checked: against the installed package."""
    page = (ROOT / "docs/how-to/python.md").read_text()
    for step in steps(page):
        if step.file:
            (tmp_path / step.file).write_text(step.content)
    (tmp_path / "shown.py").write_text(SHOWN)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    said = [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("shown.py")]
    kinds = [line.split('"')[1] for line in said if "Revealed type" in line]
    assert kinds == REVEALED, done.stdout
    assert [line for line in said if line.startswith("error")] == WRONG, done.stdout
    assert [line for line in done.stdout.splitlines() if ": error:" in line and "shown.py" not in line] == []


SHOWN = """import headway

reveal_type(headway.submit("fit.py", gpus=1).wait())
reveal_type(headway.Client().job("fit").logs())


@headway.job(gpus=1)
def fit(depth: int) -> float:
    return depth / 2


reveal_type(fit.remote(4))
reveal_type(fit.spawn(4).result())
reveal_type([job.result() for job in headway.as_completed([fit.spawn(1)])])


async def main() -> None:
    reveal_type(await fit.remote.aio(4))
    reveal_type((await headway.AsyncClient().submit(["true"])).state)


fit.remote("four")
headway.sumbit("fit.py")
"""
REVEALED = [
    "str",
    "typing.Iterator[str]",
    "float",
    "float",
    "list[float]",
    "float",
    "str",
]
WRONG = [
    'error: Argument 1 to "__call__" of "TwoWays" has incompatible type "str"; expected "int"  [arg-type]',
    'error: Module has no attribute "sumbit"; maybe "submit"?  [attr-defined]',
]


def test_ids_times_and_widths_may_differ_and_nothing_else() -> None:
    sample = "ID        NAME   AGE\nx8q38e7m  first  1.8 s\n…\nend"
    assert fits(plain("ID NAME AGE\nqyya9hzx  first  12 min 3 s\nmore\nand more\nend"), plain(sample))
    assert fits(plain("ID NAME AGE\nqyya9hzx  first  3m\nend"), plain(sample))
    assert not fits(plain("ID NAME AGE\nqyya9hzx  second  3m\nend"), plain(sample))
    assert not fits(plain("ID NAME AGE\nqyya9hzx  first  3m\nend\nmore"), plain(sample))
