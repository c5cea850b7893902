from __future__ import annotations

from headway_agent.collect.parameters import of_command, of_line, of_yaml


def test_flags_of_a_command_are_parameters():
    argv = ["python", "train.py", "--lr", "0.1", "--batch-size=32", "--amp", "--name", "a b", "--shift", "-3"]
    assert of_command(argv) == {"lr": 0.1, "batch-size": 32, "amp": True, "name": "a b", "shift": -3}


def test_overrides_of_hydra_are_parameters():
    argv = ["python", "train.py", "model.width=64", "+trainer.epochs=3", "optimizer=adam", "debug=false"]
    assert of_command(argv) == {"model.width": 64, "trainer.epochs": 3, "optimizer": "adam", "debug": False}


def test_secrets_and_paths_are_none():
    assert of_command(["python", "--api-key", "abc", "--hub_token=x", "./a=b", "--max_tokens=5"]) == {"max_tokens": 5}


def test_settings_are_told_by_the_way_to_each():
    content = b"""\
lr: 0.1
model:
  width: 64  # neurons
  name: 'net'
  layers:
  - 1
  - 2
trainer:
  deep:
    amp: true
  none: null
text: |
  a: 1
"""
    assert of_yaml(content) == {
        "lr": 0.1,
        "model.width": 64,
        "model.name": "net",
        "trainer.deep.amp": True,
        "trainer.none": None,
    }


def test_a_printed_namespace_is_read():
    line = b"INFO Namespace(lr=0.1, optimizer='adam', layers=[1, 2], seed=None, amp=False, token='x')\n"
    assert of_line(line) == {"lr": 0.1, "optimizer": "adam", "seed": None, "amp": False}
    assert of_line(b"Namespace(lr=)\n") == {}
    assert of_line(b"loss=1\n") == {}
