"""The words that keep progress: what is read, what is refused, parameters in the command, bundles' manifests."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.errors import BadInput
from headway.core.spec.bundle import read_manifest, stays_inside
from headway.core.spec.job import WORDS, read_spec, show_spec
from headway.core.spec.params import command_with, seed_of
from headway.core.spec.program import PLAIN
from headway.core.spec.program_words import ACTIONS, ENVIRONMENTS, SAVED_BY, SIGNALS
from tests.builders import a_job

BASE: dict[str, Any] = {"command": ["python", "train.py"]}
SHA = "ab" * 32

BAD: list[tuple[dict[str, Any], str]] = [
    ({"bundle": "abc"}, 'bundle: "abc" is not a sha256'),
    ({"subdir": "/src"}, "not a path inside the tree"),
    ({"subdir": "a/../../b"}, "not a path inside the tree"),
    ({"environment": {"kind": "poetry"}}, 'environment.kind: "poetry" is not one of uv-lock'),
    ({"environment": "uv.lock"}, "environment: expected keys and values"),
    ({"inputs": {"data": "ftp://host/x"}}, "inputs.data: ftp:// cannot be fetched; http, https, s3, file and absolute"),
    ({"inputs": {"data": "relative/path"}}, "neither a URL nor an absolute path"),
    ({"inputs": {"data": "s3:///key"}}, 'inputs.data: "s3:///key" names no bucket'),
    ({"inputs": {"data": "http:///x"}}, 'inputs.data: "http:///x" names no host'),
    ({"inputs": {"data": "http://:80/x"}}, 'inputs.data: "http://:80/x" names no host'),
    ({"inputs": {"data": "https://me:secret@host:99999/x"}}, 'inputs.data: "https://host:99999/x" is not an address'),
    ({"inputs": {"data": "http://[::1/x"}}, 'inputs.data: "http://[::1/x" is not an address'),
    ({"inputs": {"da-ta": "/x"}}, 'inputs: "da-ta" is not a usable name'),
    ({"inputs": {"data": {"url": "/x", "sha": "1"}}}, 'unknown key "sha"'),
    ({"inputs": ["/x"]}, "inputs: expected names and values"),
    ({"volumes": {"scratch": "mnt"}}, "not an absolute path"),
    ({"params": {"a b": 1}}, 'params: "a b" is not a usable name'),
    ({"params": {"lr": [1]}}, "params.lr: expected a text, a number or a truth value, found a list"),
    ({"params": {"lr": float("nan")}}, "params.lr"),
    ({"params": {"n": 2**63}}, "too large a number"),
    ({"seed": -1}, "seed: -1 is outside"),
    ({"seed": 2**32}, "seed: 4294967296 is outside"),
    ({"checkpoint": {"keep_last": 0}}, "checkpoint.keep_last: 0 is outside"),
    ({"checkpoint": {"keep_best": {"metric": "l", "mode": "best"}}}, "is not one of min, max"),
    ({"checkpoint": {"marker": "a/b"}}, "is not the name of a file"),
    ({"checkpoint": {"saved_by": "last"}}, 'checkpoint.saved_by: "last"'),
    ({"checkpoint": {"dir": "/outputs"}}, "is not a path inside the tree"),
    ({"checkpoint": {"dir": ["runs", "../runs"]}}, "is not a path inside the tree"),
    ({"checkpoint": {"dir": 3}}, "checkpoint.dir: expected a path"),
    ({"checkpoint": {"settle": "soon"}}, "checkpoint.settle"),
    ({"outputs": "output/"}, "outputs: expected a list of paths, found a text"),
    ({"outputs": ["../x"]}, "not a path inside the tree"),
    ({"notice": {"signal": "SIGKILL"}}, 'notice.signal: "SIGKILL" is not one of'),
    ({"notice": {"grace": "1m"}, "grace": "2m"}, "give one of them"),
    ({"retry": {"max": 3}, "retries": 2}, "give one of them"),
    ({"retry": {"max": -1}}, "retry.max: -1 is outside"),
    ({"retry": {"on_exit_codes": [0]}}, "retry.on_exit_codes: 0 is outside 1 to 255"),
    ({"log_policies": [{"pattern": "(", "label": "x"}]}, "is not a regular expression"),
    ({"log_policies": [{"pattern": "x", "label": "y", "action": "kill"}]}, "is not one of label, stop_retrying"),
    ({"limits": {"pending": 0}}, "limits.pending"),
    ({"limits": {"open_files": 1}}, "limits.open_files: 1 is outside"),
    ({"limits": {"pin_cpus": "yes"}}, "is neither true nor false"),
    ({"limits": {"memory": 1}}, 'limits: unknown key "memory"'),
    ({"resume_from": {"step": 1}}, "resume_from.job"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD, ids=[words[:40] for _, words in BAD])
def test_bad_words_are_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_spec(BASE | wrong)
    said = f"{refused.value.message} {refused.value.hint}"
    assert message in said
    assert len(said) < 400


def test_a_job_without_any_of_it_is_plain_and_shows_nothing_of_it() -> None:
    spec = read_spec(BASE)
    assert spec.progress is PLAIN
    assert not set(show_spec(spec)) & {key for key, entry in WORDS.all.items() if entry.group == "progress"}


def test_the_long_and_the_short_form_mean_the_same() -> None:
    long = read_spec(BASE | {"retry": {"max": 3}, "notice": {"grace": "1m"}})
    short = read_spec(BASE | {"retries": 3, "grace": 60})
    assert (long.retries_max, long.grace_s) == (short.retries_max, short.grace_s) == (3, 60.0)
    assert read_spec(BASE | {"retries": 3, "retry": {"max": 3}}) == long or long.grace_s == 60.0


NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,9}\Z")
TEXT = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)
PATHS = st.from_regex(r"\A[a-z]{1,5}(/[a-z]{1,5}){0,2}\Z")
DIGESTS = st.from_regex(r"\A[0-9a-f]{64}\Z")
BEST = st.fixed_dictionaries({"metric": TEXT}, optional={"mode": st.sampled_from(["min", "max"])})
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "bundle": DIGESTS,
        "subdir": PATHS,
        "environment": st.fixed_dictionaries(
            {"kind": st.sampled_from(ENVIRONMENTS)}, optional={"path": PATHS, "digest": DIGESTS}
        ),
        "inputs": st.dictionaries(NAMES, st.one_of(PATHS.map("/".__add__), PATHS.map("s3://b/".__add__)), max_size=3),
        "volumes": st.dictionaries(NAMES, PATHS.map("/".__add__), max_size=3),
        "params": st.dictionaries(
            NAMES, st.one_of(TEXT, st.integers(-(2**62), 2**62), st.booleans(), st.floats(-1e9, 1e9)), max_size=4
        ),
        "seed": st.integers(0, 2**32 - 1),
        "checkpoint": st.fixed_dictionaries(
            {},
            optional={
                "keep_last": st.integers(1, 9),
                "keep_best": st.fixed_dictionaries(
                    {"metric": TEXT}, optional={"mode": st.sampled_from(["min", "max"])}
                ),
                "marker": st.sampled_from(["DONE", ".done"]),
                "settle": st.sampled_from(["10s", 5, 0.5]),
                "saved_by": st.sampled_from(SAVED_BY),
                "dir": st.one_of(PATHS, st.lists(PATHS, max_size=3)),
            },
        ),
        "outputs": st.lists(PATHS, max_size=3),
        "notice": st.fixed_dictionaries({}, optional={"signal": st.sampled_from(SIGNALS), "grace": st.floats(0, 99)}),
        "retry": st.fixed_dictionaries(
            {},
            optional={
                "max": st.integers(0, 9),
                "on_exit_codes": st.lists(st.integers(1, 255), max_size=3),
                "capacity_max": st.integers(0, 9),
                "platform_max": st.integers(0, 9),
                "platform_max_per_day": st.none() | st.integers(0, 9),
                "capacity_max_per_day": st.none() | st.integers(0, 9),
                "quick_max": st.integers(0, 9),
            },
        ),
        "log_policies": st.lists(
            st.fixed_dictionaries({"pattern": PATHS, "label": TEXT}, optional={"action": st.sampled_from(ACTIONS)}),
            max_size=2,
        ),
        "limits": st.fixed_dictionaries(
            {},
            optional={
                "open_files": st.integers(16, 9999),
                "output": st.sampled_from(["50G", 4096]),
                "stalled_after": st.sampled_from(["30m", 60]),
                "pending": st.sampled_from(["2h", 60]),
                "pin_cpus": st.booleans(),
            },
        ),
        "resume_from": st.fixed_dictionaries({"job": NAMES}, optional={"step": st.integers(0, 2**40)}),
    },
)


@given(GIVEN)
def test_what_was_read_can_be_shown_and_read_again(given_words: dict[str, Any]) -> None:
    spec = read_spec(BASE | given_words)
    assert read_spec(show_spec(spec)) == spec
    assert read_spec(json.loads(json.dumps(show_spec(spec)))) == spec


@pytest.mark.parametrize(
    ("command", "params", "becomes"),
    [
        ("train --lr 0.5 --n 3", {"lr": 0.1}, "train --lr 0.1 --n 3"),
        ("train --lr=0.5", {"lr": 3e-5}, "train --lr=3e-05"),
        ("train --learning-rate 1", {"learning_rate": 2}, "train --learning-rate 2"),
        ("train --lr_max 1 --lr 2", {"lr": 3}, "train --lr_max 1 --lr 3"),
        ("train", {"lr": 3}, "train"),
        ("train --lr 1 --lr 2", {"lr": 3}, "train --lr 3 --lr 3"),
        ("train --amp --n 1", {"amp": False}, "train --n 1"),
        ("train --amp --n 1", {"amp": True}, "train --amp --n 1"),
        ("train --amp true", {"amp": False}, "train --amp false"),
        ("train --shift -1", {"shift": -2}, "train --shift -2"),
        ("train --name", {"name": "x"}, "train --name x"),
    ],
)
def test_a_parameter_replaces_its_option_where_it_stands(command: str, params: dict[str, Any], becomes: str) -> None:
    assert command_with(command.split(), params.items()) == becomes.split()


def test_a_job_has_a_seed_of_its_own_unless_one_is_given() -> None:
    assert seed_of(a_job("j1")) == seed_of(a_job("j1", state="running")) != seed_of(a_job("j2"))
    progress = read_spec(BASE | {"seed": 7}).progress
    assert seed_of(a_job(progress=progress)) == 7


# --- bundles ----------------------------------------------------------------------------------------------------------


def a_file(path: str, **words: Any) -> dict[str, Any]:
    return {"path": path, "sha256": SHA, "size": 3, "mode": 0o644, **words}


def test_a_manifest_is_named_by_its_files_in_order_of_path() -> None:
    files = [a_file("b.py"), a_file("a/ü.py"), {"path": "l", "link": "a/ü.py", "mode": 0o777}]
    manifest = read_manifest({"files": files, "git": {"commit": "c"}})
    ordered = sorted(files, key=lambda entry: entry["path"])
    canonical = json.dumps(ordered, sort_keys=True, separators=(",", ":"))
    assert manifest.digest == hashlib.sha256(canonical.encode()).hexdigest()
    assert manifest.contents == {SHA: 3}
    assert (manifest.size_bytes, len(manifest.files)) == (6, 3)


@pytest.mark.parametrize(
    "files",
    [
        [a_file("../x")],
        [a_file("d/" * 2100 + "x")],
        [a_file("/etc/passwd")],
        [a_file("a/../../x")],
        [a_file("a\nb")],
        [a_file("a\0b")],
        [a_file("")],
        [a_file("./a")],
        [a_file("a//b")],
        [a_file("a"), a_file("a")],
        [a_file("a"), a_file("a/b")],
        [{"path": "l", "link": "..", "mode": 511}, a_file("l/x")],
        [{"path": "l", "link": "/etc", "mode": 511}],
        [{"path": "a/l", "link": "../../x", "mode": 511}],
        [{"path": "l", "link": "", "mode": 511}],
        [a_file("a", sha256="no")],
        [a_file("a", size=-1)],
        [a_file("a", mode="rw")],
        [a_file("a", owner="root")],
        "a",
    ],
    ids=str,
)
def test_a_manifest_that_could_leave_its_tree_is_refused(files: Any) -> None:
    with pytest.raises(BadInput):
        read_manifest({"files": files})


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("a/b/l", "../../x", True),
        ("a/l", "../..", False),
        ("l", ".", True),
        ("a/l", "b/../../c", True),
        ("l", "x\n", False),
    ],
)
def test_a_link_stays_inside_its_tree(path: str, target: str, inside: bool) -> None:
    assert stays_inside(path, target) is inside
