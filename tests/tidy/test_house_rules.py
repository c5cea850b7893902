"""The house rules that no linter knows: sizes, names, leftovers, and what the agent may lean on.

Every test lists all offenders as `file:line`, so one failure shows the whole work. The few exceptions have names:
SLEEPERS, PRINTERS and NOT_OF_ENGINES.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.engines.table import KINDS
from tests.pythons import find_python

ROOT = Path(__file__).resolve().parents[2]

LINE_LENGTH_MAX = 120
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
HEADER_LINES_MAX = 8
FOLDER_MODULES_MAX = 20

# tests/waiting.py polls for everybody; tests/scripts/ holds what the tests submit as users' code.
SLEEPERS = ("tests/waiting.py", "tests/scripts/")
PRINTERS = ("src/headway/cli/", "src/headway/sim/")
NAMELESS = {"utils", "util", "common", "helpers", "helper", "misc"}

# What asks the table of engines instead of knowing one. The same words have other meanings: the owner of a home, who is
# called "local", and the command `headway ssh`.
NAMELESS_OF_ENGINES = tuple(f"src/headway/{part}" for part in ("api", "control", "core", "sim", "wiring.py"))
NOT_OF_ENGINES = {
    ("src/headway/core/access/accounts.py", "local"),
    ("src/headway/core/access/actor.py", "local"),
    ("src/headway/core/explain.py", ": headway ssh "),
}

# Written so that a pattern does not find itself in this file.
LEFTOVERS = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b")
FOREIGN = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.|debian\.org|anaconda\.|(?<![\w.~}$-])/(?:[w]ork|[r]oot)/")
# What runs on nodes, with any Python from 3.8 on: the agent, and the SDK that it puts in the way of jobs.
ON_NODES = ("src/headway_agent/", "src/headway_wire/", "src/headway/training/", "src/headway/__init__.py")
# Libraries of users, loaded only by those who use them.
OF_USERS = {"cloudpickle", "torch"}
# A program that says itself what it needs is run by uv, which sees to that: no other file of the agent imports it.
WITH_HEADER = re.compile(r"\A# /// script\n")
# Where messages between a node and its server are made, read and acted upon: see headway_wire. In brackets, what else
# is spoken there: to the keeper, and what limits and files were noted on the node's own disk.
NODE_PROTOCOL = (
    "src/headway_agent/decide/", "src/headway_agent/launch/", "src/headway_agent/prepare/steps.py",
    "src/headway_agent/visits/", "src/headway_agent/loop/pace.py", "src/headway/control/nodes/duties.py",
    "src/headway/control/nodes/sync.py", "src/headway/control/nodes/file_reports.py",
    "src/headway/control/nodes/sessions.py", "src/headway/control/nodes/saver_questions.py",
    "src/headway/sim/node/agent.py", "src/headway/sim/server/",
)  # fmt: skip
OPEN = re.compile(r"(?:Mapping|[Dd]ict)\[str, Any\]")
NOT_OF_THE_WIRE = {"marks", "launch_of", "limits_of", "go_env", "hear", "_kept"}
CLOCKS = {"now", "utcnow", "today"}
NEWER_THAN_38 = {"annotationlib", "compression", "graphlib", "tomllib", "zoneinfo"}


@functools.cache
def files() -> list[str]:
    """Every file that is tracked or about to be, as a path from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(name for name in set(listed.stdout.split("\0")) if name and (ROOT / name).is_file())


def python_files(*folders: str) -> list[str]:
    return [name for name in files() if name.endswith(".py") and name.startswith(folders)]


@functools.cache
def text(name: str) -> str:
    """The file's text; empty for what is not text, such as an image."""
    content = (ROOT / name).read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="replace")


@functools.cache
def tree(name: str) -> ast.Module:
    return ast.parse(text(name), filename=name)


def lines_with(pattern: re.Pattern[str], names: list[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in names
        for number, line in enumerate(text(name).splitlines(), start=1)
        if pattern.search(line)
    ]


def calls(name: str) -> Iterator[tuple[ast.Call, str]]:
    """Each call in the file with the called name as written: `print`, `time.sleep`."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def imports(name: str) -> Iterator[tuple[int, str]]:
    """The line and full name of each absolute import in the file."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


def none_of(offenders: list[str], rule: str) -> None:
    assert not offenders, f"{rule}:\n  " + "\n  ".join(offenders)


def test_a_file_is_named_after_what_it_knows() -> None:
    none_of([name for name in files() if Path(name).stem.lower() in NAMELESS], "names that say nothing")


def test_every_module_begins_with_a_short_header() -> None:
    offenders = []
    for name in python_files("src/"):
        body = tree(name).body
        if not body or ast.get_docstring(tree(name)) is None:
            offenders.append(f"{name}:1: no docstring")
            continue
        lines = (body[0].end_lineno or 0) - body[0].lineno + 1
        if lines > HEADER_LINES_MAX:
            offenders.append(f"{name}:1: {lines} lines")
    none_of(offenders, f"each module under src begins with a docstring of at most {HEADER_LINES_MAX} lines")


def test_lines_are_short_enough_to_read_side_by_side() -> None:
    code = [name for name in files() if name.endswith((".py", ".sh", ".toml", "Makefile")) or name.startswith(".ci/")]
    none_of(lines_with(re.compile(f".{{{LINE_LENGTH_MAX + 1}}}"), code), f"lines over {LINE_LENGTH_MAX} characters")


def test_folders_are_small() -> None:
    modules = Counter(str(Path(name).parent) for name in python_files("src/") if not name.endswith("__init__.py"))
    offenders = [f"{folder}: {count}" for folder, count in modules.items() if count > FOLDER_MODULES_MAX]
    none_of(offenders, f"folders with more than {FOLDER_MODULES_MAX} modules: give them rooms")


def test_files_are_small() -> None:
    sizes = {name: len(text(name).splitlines()) for name in python_files("src/", "tests/", "bench/")}
    offenders = [f"{name}: {lines}" for name, lines in sizes.items() if lines > FILE_LINES_MAX]
    none_of(offenders, f"files over {FILE_LINES_MAX} lines")


def test_functions_are_small() -> None:
    offenders = []
    for name in python_files("src/"):
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    offenders.append(f"{name}:{node.lineno}: {node.name} has {lines}")
    none_of(offenders, f"functions over {FUNCTION_LINES_MAX} lines")


def test_nothing_is_left_for_later_in_the_sources() -> None:
    none_of(lines_with(LEFTOVERS, files()), "leftover markers")


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    none_of(lines_with(FOREIGN, files()), "a registry's host or a machine's path")


def test_tests_wait_for_a_condition_and_never_sleep() -> None:
    offenders = []
    for name in python_files("tests/"):
        if name.startswith(SLEEPERS):
            continue
        offenders += [f"{name}:{call.lineno}" for call, called in calls(name) if called in ("time.sleep", "sleep")]
    none_of(offenders, "sleeps in tests (use tests.waiting.wait_until)")


def test_only_the_command_line_and_the_simulator_print() -> None:
    offenders = []
    for name in python_files("src/"):
        if not name.startswith(PRINTERS):
            offenders += [f"{name}:{call.lineno}" for call, called in calls(name) if called == "print"]
    none_of(offenders, "print() in the sources")


def test_the_core_asks_no_clock_and_opens_no_file() -> None:
    offenders = []
    for name in python_files("src/headway/core/"):
        for call, called in calls(name):
            if called == "open" or ("." in called and called.rpartition(".")[2] in CLOCKS):
                offenders.append(f"{name}:{call.lineno}: {called}()")
    none_of(offenders, "time and files come into the core as arguments")


def test_what_runs_on_nodes_is_written_in_python_3_8() -> None:
    offenders = []
    for name in python_files(*ON_NODES):
        try:
            ast.parse(text(name), filename=name, feature_version=(3, 8))
        except SyntaxError as error:
            offenders.append(f"{name}:{error.lineno}: {error.msg}")
        annotated = any(isinstance(node, ast.AnnAssign | ast.arg) and node.annotation for node in ast.walk(tree(name)))
        if annotated and "__future__" not in {module for _, module in imports(name)}:
            offenders.append(f"{name}:1: needs `from __future__ import annotations`, or 3.8 evaluates them")
    none_of(offenders, "newer than Python 3.8")


def test_what_runs_on_nodes_needs_nothing_but_the_standard_library() -> None:
    known = (set(sys.stdlib_module_names) - NEWER_THAN_38) | {"headway_agent", "headway_wire", "headway"} | OF_USERS
    offenders = [
        f"{name}:{line}: {module}"
        for name in python_files(*ON_NODES)
        if not WITH_HEADER.match(text(name))
        for line, module in imports(name)
        if module.partition(".")[0] not in known
    ]
    none_of(offenders, "imports that a bare Python 3.8 does not have")


def test_the_agent_imports_on_a_real_python_3_8() -> None:
    python = find_python("3.8")
    if python is None:
        pytest.skip("no python3.8 on this machine")
    modules = sorted(
        name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in python_files("src/headway_agent/", "src/headway_wire/")
        if not name.endswith("__main__.py") and not WITH_HEADER.match(text(name))
    )
    program = f"import importlib, sys; sys.path.insert(0, 'src'); [importlib.import_module(m) for m in {modules}]"
    done = subprocess.run([python, "-I", "-B", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_the_engines_know_their_names() -> None:
    """Whatever must be known of one stands beside it, in its row of engines/table.py."""
    names = {kind.name for kind in KINDS}
    word = re.compile(rf"(?<![A-Za-z])({'|'.join(names)})(?![A-Za-z])")
    offenders = []
    for name in python_files("src/headway/"):
        if not name.startswith(NAMELESS_OF_ENGINES):
            continue
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree(name))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree(name)):
            said = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else ""
            said = node.module or "" if isinstance(node, ast.ImportFrom) else said
            if isinstance(said, str) and word.search(said) and (name, said) not in NOT_OF_ENGINES:
                offenders.append(f"{name}:{node.lineno}: {said[:80]}")
    none_of(offenders, "an engine's name outside src/headway/engines")


def test_the_node_protocol_has_typed_words_in_all_signatures() -> None:
    offenders = []
    for name in python_files(*NODE_PROTOCOL):
        for node in ast.walk(tree(name)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name in NOT_OF_THE_WIRE:
                continue
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            said = [each.annotation for each in every if each.arg not in NOT_OF_THE_WIRE] + [node.returns]
            if any(each is not None and OPEN.search(ast.unparse(each)) for each in said):
                offenders.append(f"{name}:{node.lineno}: {node.name}")
    none_of(offenders, "signatures of the node protocol that take or give any mapping (headway_wire has the messages)")
