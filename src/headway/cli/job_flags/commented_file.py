"""A job file with comments: what was said of the job, and beside it the keys that people add next, each with its
sentence. The words of a job and what they say come from core/spec; here are only samples of their values.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from headway.cli.frame.yaml import dump
from headway.core.spec.command import command_words
from headway.core.spec.job_schema import job_schema

SCHEMA_FILE = ".headway/job.schema.json"
# A sample of each word; those up to `env` stand in every file that is made.
SAMPLES: dict[str, Any] = {
    "name": "train",
    "command": "python train.py --lr 0.1",
    "resources": {"cpus": 4, "memory": "16G", "gpus": 1},
    "max_duration": "6h",
    "retries": 2,
    "params": {"lr": 0.1},
    "outputs": ["results"],
    "environment": "auto",
    "env": {"OMP_NUM_THREADS": "4"},
    "secrets": {"HF_TOKEN": "hf-token"},
    "inputs": {"data": {"url": "https://example.org/data.tar", "sha256": ""}},
    "volumes": {"scratch": "/scratch"},
    "workdir": ".",
    "bundle": True,
    "subdir": "",
    "seed": 7,
    "stdin": "yes\n",
    "checkpoint": {
        "keep_last": 3,
        "keep_best": {"metric": "val_loss", "mode": "min"},
        "marker": "",
        "settle": "10s",
        "saved_by": "auto",
        "dir": ["checkpoints"],
    },
    "resume_from": {"job": "k7m2xq4w", "step": 1200},
    "nodes": 2,
    "ranks_per_node": 1,
    "launcher": "torchrun",
    "project": "default",
    "queue": "default",
    "pool": "",
    "priority": 0,
    "after": [{"job": "prepare", "when": "ok", "each": False}],
    "hold": False,
    "start_at": "2030-01-31T18:00Z",
    "deadline": "2030-02-01T08:00Z",
    "estimate": "40m",
    "array": 10,
    "at_once": 4,
    "zone": "same",
    "layout": "spread",
    "gpu_type": "a100",
    "labels": {"rack": "r1"},
    "licences": {"matlab": 1},
    "retry": {
        "max": 2,
        "on_exit_codes": [1, 75],
        "capacity_max": 1000,
        "platform_max": 20,
        "quick_max": 3,
        "capacity_max_per_day": None,
        "platform_max_per_day": None,
    },
    "grace": "30s",
    "notice": {"signal": "SIGTERM", "grace": "30s"},
    "limits": {"open_files": 65536, "output": "1G", "stalled_after": "30m", "pending": "2d", "pin_cpus": False},
    "log_policies": [{"pattern": "loss is nan", "label": "diverged", "action": "stop_retrying"}],
    "metrics": [{"name": "val_loss", "regex": "validation: ([0-9.]+)"}],
    "on_failure": {"hold": "30m"},
    "streams": "merged",
    "log_max": "256Mi",
    "tags": {"team": "vision"},
}
FIRST = tuple(SAMPLES)[: list(SAMPLES).index("env") + 1]
HEAD = """
# What else it may say. To use a key, remove the # before it.
"""


def commented(said: Mapping[str, Any], path: str, *, every: bool = False, schema: bool = True) -> str:
    """The text of a job file: what was said as it is, other keys as comments; every one of them, if asked for."""
    known = job_schema()["properties"]
    text = f"# yaml-language-server: $schema={SCHEMA_FILE}\n" if schema else ""
    text += f"# Submit it: headway run -f {path}    Check it: headway validate {path}\n"
    for key in [key for key in SAMPLES if key in said]:
        text += f"\n{_entry(key, said[key], known[key], active=True, every=every)}\n"
    others = [key for key in SAMPLES if key not in said and (key in FIRST or every)]
    text += HEAD if others else ""
    for key in others:
        text += f"\n{_entry(key, SAMPLES[key], known[key], active=False, every=every)}\n"
    return text


def _entry(key: str, value: Any, schema: Mapping[str, Any], *, active: bool, every: bool) -> str:
    value = one_line(value) if key == "command" else value
    inner = _inner(schema) if every and isinstance(value, Mapping) else {}
    text = _yaml(key, value)
    if inner:
        text = "\n".join([f"{key}:", *(f"  {_yaml(name, part)}  # {inner[name]}" for name, part in value.items())])
    mark = "" if active else "#"
    return "\n".join([f"# {schema['description']}", *(f"{mark}{line}" for line in text.split("\n"))])


def _inner(schema: Mapping[str, Any]) -> dict[str, str]:
    """What is said of the keys inside a word, where it has keys of its own."""
    forms = [schema, *schema.get("anyOf", ())]
    found: dict[str, Any] = next((form["properties"] for form in forms if "properties" in form), {})
    return {name: each["description"] for name, each in found.items()}


def _yaml(key: str, value: Any) -> str:
    """In few lines: lists and small groups on one."""
    return dump({key: value}, short=isinstance(value, Mapping | list)).rstrip("\n")


def one_line(command: Any) -> Any:
    """A list of words as the line that reads back as the same, where there is one."""
    if not isinstance(command, list):
        return command
    line = shlex.join(command)
    return line if command_words(line) == command else command
