"""Fetching artifacts: chosen by path, resumed, checked, never half."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from headway.client.artifacts import choose, fetch, place_of
from headway.client.sdk import Client
from headway.core.errors import BadInput, HeadwayError, NotFound
from tests.client.fake_server import FakeServer


def artifact(path: str, content: bytes = b"x", attempt: int = 1, task: int = 0) -> dict[str, Any]:
    sha256 = hashlib.sha256(content).hexdigest()
    return {"attempt": attempt, "task": task, "path": path, "size": len(content), "sha256": sha256, "at": 0.0}


def test_of_each_path_the_newest_attempts_file_is_chosen() -> None:
    found = [artifact("output/a", attempt=1), artifact("output/a", attempt=2), artifact("output/b/c")]
    assert [(each["path"], each["attempt"]) for each in choose(found, ())] == [("output/a", 2), ("output/b/c", 1)]
    assert [each["path"] for each in choose(found, ["output/b"])] == ["output/b/c"]
    assert [each["attempt"] for each in choose(found, ["output/a"], attempt=1)] == [1]
    with pytest.raises(NotFound) as missing:
        choose(found, ["output/a.pt"])
    assert missing.value.hint == 'did you mean "output/a"?'
    with pytest.raises(NotFound) as elsewhere:
        choose(found, ["results/deep/down/c"])
    assert elsewhere.value.hint == 'did you mean "output/b/c"?'
    with pytest.raises(NotFound, match="attempt 9 has kept nothing") as missing:
        choose(found, (), attempt=9)
    assert missing.value.hint == "there are artifacts of attempt 1, 2"
    assert choose([], (), attempt=9) == []


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/../../b"])
def test_an_artifact_never_leaves_the_directory(path: str) -> None:
    with pytest.raises(BadInput):
        place_of(artifact(path), "here")


@pytest.fixture
def content(fake: FakeServer) -> bytes:
    fake.add("j1", state="succeeded")
    fake.contents["output/m"] = os.urandom(3 << 20)
    return fake.contents["output/m"]


def test_it_is_fetched_whole_and_not_twice(fake: FakeServer, client: Client, content: bytes, tmp_path: Path) -> None:
    place = fetch(client, "j1", artifact("output/m", content), str(tmp_path))
    assert Path(place).read_bytes() == content
    fake.asked.clear()
    assert fetch(client, "j1", artifact("output/m", content), str(tmp_path)) == place
    assert fake.asked == []


def test_what_broke_off_is_resumed(fake: FakeServer, client: Client, content: bytes, tmp_path: Path) -> None:
    fake.faults = ["cut"]
    place = fetch(client, "j1", artifact("output/m", content), str(tmp_path))
    assert Path(place).read_bytes() == content
    assert len(fake.asked) == 2
    assert os.listdir(os.path.dirname(place)) == ["m"]


def test_a_wrong_beginning_is_thrown_away(fake: FakeServer, client: Client, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    (tmp_path / "output/m.part").write_bytes(b"other bytes")
    assert Path(fetch(client, "j1", artifact("output/m", content), str(tmp_path))).read_bytes() == content


def test_a_wrong_content_never_appears(fake: FakeServer, client: Client, content: bytes, tmp_path: Path) -> None:
    said = artifact("output/m", content)
    fake.contents["output/m"] = bytes(len(content))
    with pytest.raises(HeadwayError, match="another content"):
        fetch(client, "j1", said, str(tmp_path))
    assert os.listdir(tmp_path / "output") == []
