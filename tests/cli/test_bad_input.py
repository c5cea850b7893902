"""Bad input: a clear error, exit code 2, and nothing half-made. No server is ever asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

WRONG = [
    # what was typed; what the error says; what the hint says
    (["rum"], 'no command "rum"', 'did you mean "rm"?'),
    (["--nonsense"], 'unknown flag "--nonsense"', ""),
    (["run"], "no script and no command", "end with train.py"),
    (["run", "--gpsu", "1", "train.py"], 'unknown flag "--gpsu"', 'did you mean "--gpus"?'),
    (["run", "--gpus", "-1", "train.py"], "resources.gpus: -1 is outside 0 to 1024", ""),
    (["run", "--gpus", "many", "train.py"], "--gpus", ""),
    (["run", "--cpus", "nan", "train.py"], "resources.cpus", ""),
    (["run", "--cpus", "-2", "train.py"], "resources.cpus", ""),
    (["run", "--mem", "-5G", "train.py"], 'resources.memory: "-5G" is not a size', ""),
    (["run", "--mem", "5Q", "train.py"], "resources.memory", "Ki, Mi, Gi, Ti"),
    (["run", "--nodes", "0", "train.py"], "nodes: 0 is outside", ""),
    (["run", "--max-duration", "soon", "train.py"], "max_duration", ""),
    (["run", "--max-duration", "0", "train.py"], "max_duration", "leave it out"),
    (["run", "--max-retries", "-1", "train.py"], "retries: -1 is outside", ""),
    (["run", "--grace", "x", "train.py"], "grace", ""),
    (["run", "-n", "a b/c", "train.py"], 'name: "a b/c" is not a name', "letters, digits"),
    (["run", "-n", "../../etc", "train.py"], "is not a name", ""),
    (["run", "-n", "x" * 64, "train.py"], "is not a name", "1 to 63"),
    (["run", "--queue", "", "train.py"], 'queue: "" is not a name', ""),
    (["run", "--tag", "x", "train.py"], '--tag: "x" is not of the form KEY=VALUE', ""),
    (["run", "--env", "1A=2", "train.py"], 'env: "1A" is not a usable name', ""),
    (["run", "--env", "NOT_SET_ANYWHERE", "train.py"], "is not set here", ""),
    (["run", "--env-file", "none.env", "train.py"], '"none.env" cannot be read', ""),
    (["run", "trian.py"], 'no file "trian.py"', 'did you mean "train.py"?'),
    (["run", "--workdir", "nowhere", "train.py"], "does not exist", ""),
    (["run", "-f", "jop.yaml"], 'no file "jop.yaml"', 'did you mean "job.yaml"?'),
    (["run", "-f", "job.yaml", "--set", "x"], "not of the form KEY=VALUE", ""),
    (["run", "-f", "job.yaml", "--set", "resorces.gpus=1"], 'unknown key "resorces"', 'did you mean "resources"?'),
    (["run", "-f", "job.yaml", "--set", "resources.gpu=1"], 'unknown key "gpu"', 'did you mean "gpus"?'),
    (["run", "-f", "job.yaml", "--set", "command.x=1"], "is not a group of keys", ""),
    (["run", "--", "echo", "x" * 10 * 2**20], "has 10,485,760 bytes", "put the data in a file"),
    (["logs"], "missing argument", "headway logs --help"),
    (["logs", "x", "--attempt", "first"], 'neither a number from 1 on nor "last"', ""),
    (["logs", "x", "--tail", "-1"], "--tail", ""),
    (["logs", "x", "--since", "yesterdy"], "--since", "14:30"),
    (["logs", "x", "--until", "25:99"], "--until", "2026-11-18"),
    (["logs", "x", "--since", "1m", "--until", "5m"], "later than --until", ""),
    (["logs", "x", "-f", "--until", "5m"], "--until and --follow", "-f"),
    (["logs", "x", "--grep", "(x"], "not a regular expression", ""),
    (["ps", "--state", "runing"], '"runing" is not a state', "running"),
    (["ps", "-o", "xml"], "xml", "--help"),
    (["stop", "x", "--grace", "-3"], "--grace", ""),
    (["stop", "x", "--force", "--grace", "3"], "exclude each other", ""),
    (["completion", "tcsh"], "tcsh", ""),
    (["server", "begin"], "begin", ""),
]


@pytest.mark.parametrize(("words", "message", "hint"), WRONG, ids=[" ".join(words)[:60] for words, _, _ in WRONG])
def test_bad_input_ends_with_2_and_makes_nothing(
    headway: Callable, place: Path, headway_home: Path, words: list[str], message: str, hint: str
) -> None:
    (place / "job.yaml").write_text("command: [python, train.py]\n")
    said = headway(*words)
    assert (said.code, said.out) == (2, "")
    first, *rest = said.err.splitlines()
    assert first.startswith("error: ")
    assert message in first + "".join(rest)
    assert hint in "".join(rest)
    assert len(said.err) < 800
    assert not list(headway_home.iterdir()), "a home was begun"


YAMLS = [
    ("", "is empty", ""),
    ("[1, 2]", "expected keys and values", ""),
    ("command: [a\n", "line 2", ""),
    ("command: a\n\tname: b\n", "line 2", ""),
    ("command: [a]\ncommand: [b]\n", 'job.yaml, line 2: the key "command" is there twice', ""),
    ("comand: [a]\n", 'unknown key "comand"', 'did you mean "command"?'),
    ("command: [a]\nresources: {gpu: 1}\n", 'resources: unknown key "gpu"', 'did you mean "gpus"?'),
    ("command: {a: b}\n", "job.yaml, line 1: command: expected words or a script", "write"),
    ("command: [python, null]\n", "None is not a word", "quote it"),
    ("- command: x\n", "expected keys and values", "parted by lines of ---"),
    ("jobs:\n- command: x\n", 'unknown key "jobs"', "parted by lines of ---"),
    ("command: x\nmax_retries: 1\n", 'line 2: job: unknown key "max_retries"', 'did you mean "retries"?'),
    ("command: x\nmem: 1G\n", 'unknown key "mem"', "write resources: {memory: …}"),
    ("command: x\nkeep_last: 1\n", 'unknown key "keep_last"', "write checkpoint: {keep_last: …}"),
    ("command: [a]\nresources:\n  cpus: 1\n  gpu: 2\n", 'job.yaml, line 4: resources: unknown key "gpu"', "gpus"),
    ("command: [a]\n---\ncommand: [b]\nretries: -1\n", "job.yaml, line 4: retries: -1 is outside", ""),
    ("name: a\ncommand: [x]\nafter: b\n---\nname: b\nafter: [a]\ncommand: [x]\n",
     "job.yaml, line 3: after: these jobs wait for each other: a → b → a", "must not wait"),
    ("name: x\ncommand: [x]\nafter: x\n", "job.yaml, line 3: after: these jobs wait for each other: x → x", ""),
    ("command: [x]\n---\ncommand: [x]\n---\nname: y\nafter: x\ncommand: [y]\n",
     'job.yaml, line 6: after: "x" could be the job of line 1 and 3', "a name of its own"),
    ("command: [a]\ngpus: 1\n", 'job: unknown key "gpus"', "write resources: {gpus: …}"),
    ("command: [a]\nnodes: -1\n", "nodes: -1 is outside", ""),
    ("command: [a]\nnodes: 1.5\n", "not a whole number", ""),
    ("command: [a]\nnodes: true\n", "not a whole number", ""),
    ("command: [a]\nresources: 3\n", "expected keys and values", ""),
    ("command: [a]\nresources: {memory: -5}\n", "negative", ""),
    ("command: [a]\nenv: [A]\n", "env: expected names and values", ""),
    ("command: [a]\nworkdir: ../../nowhere-at-all\n", "does not exist", ""),
    ("command: [a]\nworkdir: [x]\n", "is not a path", ""),
    ("command: !!python/object/apply:os.system [id]\n", "line 1", ""),
    ("command: [a]\nname: \xff\n", "is not a name", ""),
    ("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
     "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\ncommand: [*e,*e,*e,*e,*e,*e,*e,*e]\n",
     "more than 100,000 values", "aliases"),
    ("x: " + "[" * 5000 + "]" * 5000, "job.yaml", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), YAMLS, ids=[text[:30] for text, _, _ in YAMLS])
def test_a_bad_file_is_refused(headway: Callable, place: Path, text: str, message: str, hint: str) -> None:
    (place / "job.yaml").write_text(text)
    said = headway("run", "-f", "job.yaml")
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert hint in said.err
    assert len(said.err) < 800


def test_errors_are_json_for_programs_even_those_in_the_flags(headway: Callable, place: Path) -> None:
    for words in (["ps", "--json", "--nonsense"], ["run", "-o", "json", "no.py"], ["logs", "--json"]):
        said = headway(*words)
        assert (said.code, said.out) == (2, "")
        error = json.loads(said.err)["error"]
        assert (error["kind"], error["exit_code"]) == ("bad-input", 2)
        assert error["message"]


def test_a_script_that_is_not_utf8_is_refused(headway: Callable, place: Path) -> None:
    assert headway("run", "--", "echo", b"\xff".decode("utf-8", "surrogateescape")).code == 2


def test_a_home_that_cannot_be_written_is_an_error_with_a_way_out(
    headway: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_HOME", "/proc/no-such-home")
    said = headway("ps")
    assert said.code == 1
    assert "hint: set HEADWAY_HOME" in said.err


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HEADWAY_PORT", "x", 'port (HEADWAY_PORT): "x" is not a whole number'),
        ("HEADWAY_LOOK_EVERY_S", "1q", "look_every_s (HEADWAY_LOOK_EVERY_S)"),
        ("HEADWAY_SERVER_URL", "nonsense", 'server_url: "nonsense" is not an address'),
    ],
)
def test_a_bad_setting_names_its_source(
    headway: Callable, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    said = headway("ps")
    assert said.code == 2
    assert message in said.err
