"""The step that a file tells inside."""

from __future__ import annotations

import argparse
import collections
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway_agent.formats.pickled_data import Loading
from headway_agent.formats.pickles import Cut, Odd, TooLong
from headway_agent.formats.saved_steps import step_of

SAID = (
    ({"global_step": 40, "epoch": 3, "state_dict": {}}, ("step", 40)),
    ({"epoch": 3, "step": 12}, ("step", 12)),
    ({"MODEL_STATE": {}, "EPOCHS_RUN": 7}, ("epoch", 7)),
    ({"Epoch": 7.0}, ("epoch", 7)),
    ({"epoch": 7.5}, None),
    ({"epoch": True}, None),
    ({"epoch": -1}, None),
    ({"iteration": 8, "epoch": 2}, ("step", 8)),
    ({"model": {"step": 5}}, None),
    ({"trainer": {"global_step": 5}, "epoch": 2}, ("step", 5)),
    ({"progress": argparse.Namespace(step=6)}, ("step", 6)),
    (argparse.Namespace(step=6), ("step", 6)),
    (collections.OrderedDict(step=6), ("step", 6)),
    ([1, 2], None),
    ("words", None),
)


def a_file(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(("held", "step"), SAID)
def test_a_pickle_says_its_step(tmp_path: Path, held: Any, step: tuple[str, int] | None, protocol: int) -> None:
    assert step_of(a_file(tmp_path, "a.pkl", pickle.dumps(held, protocol))) == step


def test_of_several_pickles_the_last_is_the_newest(tmp_path: Path) -> None:
    data = b"".join(pickle.dumps({"step": step}) for step in range(5))
    assert step_of(a_file(tmp_path, "log.pkl", data)) == ("step", 4)


def test_a_torch_file_says_its_step(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps({"model": {"w": [1.0]}, "epoch": 4}, 2))
        archive.writestr("model/version", b"3\n")
    assert step_of(str(path)) == ("epoch", 4)


JSON = (
    ("trainer_state.json", {"global_step": 500, "epoch": 1.0, "log_history": [{"step": 10}]}, ("step", 500)),
    ("progress.json", {"step": 3}, ("step", 3)),
    ("progress.json", {"epoch": 3, "loss": 0.5}, ("epoch", 3)),
    ("progress.json", {"epochs": 100}, None),
    ("config.json", {"epoch": 100}, None),
    ("training_args.json", {"step": 100}, None),
    ("list.json", [1], None),
)


@pytest.mark.parametrize(("name", "held", "step"), JSON)
def test_json_says_its_step(tmp_path: Path, name: str, held: Any, step: tuple[str, int] | None) -> None:
    assert step_of(a_file(tmp_path, name, json.dumps(held).encode())) == step


def test_a_trainer_s_long_history_is_not_read_to_know_its_step(tmp_path: Path) -> None:
    state = {"best": None, "global_step": 70, "log_history": [{"step": step, "x": "y" * 90} for step in range(50_000)]}
    path = a_file(tmp_path, "trainer_state.json", json.dumps(state, indent=2).encode())
    assert os.path.getsize(path) > 4 << 20
    assert step_of(path) == ("step", 70)


def test_lines_of_json_say_their_step_in_the_last_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 15}\n{"step": 30}\n{"step": 4')
    assert step_of(str(path)) == ("step", 30)


def test_a_safetensors_header_says_its_step(tmp_path: Path) -> None:
    header = json.dumps({"__metadata__": {"step": "30", "format": "pt"}}).encode()
    assert step_of(a_file(tmp_path, "a.safetensors", struct.pack("<Q", len(header)) + header)) == ("step", 30)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made-by-a-pickle",)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_in_a_pickle_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    assert step_of(a_file(tmp_path, "a.pkl", pickle.dumps({"evil": Evil(), "step": 3}, protocol))) == ("step", 3)
    assert os.listdir(tmp_path) == ["a.pkl"]


def test_a_pickle_that_nests_without_end_does_no_harm(tmp_path: Path) -> None:
    nested = b"\x80\x02}q\x00)" + b"\x85" * 300_000 + b"K\x01sX\x04\x00\x00\x00stepK\x05s."
    assert step_of(a_file(tmp_path, "a.pkl", nested)) == ("step", 5)
    huge = b"\x80\x02}r\xff\xff\xff\xff\x8b\xff\xff\xff\x7f"
    assert step_of(a_file(tmp_path, "a.pkl", huge)) is None


def test_what_counts_for_itself_says_nothing_of_the_training(tmp_path: Path) -> None:
    for name in ("random_states_0.pkl", "optimizer.pkl", "rng_state_1.pkl"):
        assert step_of(a_file(tmp_path, name, pickle.dumps({"step": 0}))) is None


def test_what_is_cut_or_odd_says_nothing(tmp_path: Path) -> None:
    for data in (b"", b"PK\x03\x04", b"\x80\x04", b"\x80\x02\xff", pickle.dumps({"step": 3})[:-1], b"{"):
        assert step_of(a_file(tmp_path, "a.pkl", data)) is None
        assert step_of(a_file(tmp_path, "a.json", data)) is None
    assert step_of(str(tmp_path)) is None
    assert step_of(str(tmp_path / "none")) is None


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 5))
def test_no_damage_makes_it_raise_or_loop(chance: Any, protocol: int) -> None:
    held = {
        "a": [1, 2.5, "b" * 300, b"c", None, {1}, (1, 2)],
        "n": Evil(),
        "o": collections.OrderedDict(a=1),
        "big": 2**70,
    }
    data = bytearray(pickle.dumps(held, protocol))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data))
        data[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        data = data or bytearray(b".")
    try:
        Loading(lambda at, count: bytes(data[at : at + count])).load()
    except (Cut, Odd, TooLong):
        pass
