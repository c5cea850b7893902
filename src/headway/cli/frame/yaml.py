"""Reads and writes job files in YAML 1.2's idea of true and of numbers; no doubled keys, errors that name the line.

core/spec/job.py decides which keys and values a job may have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from headway.core.errors import BadInput

AS_WRITTEN = ("env", "tags", "labels")  # Groups whose values are text: `1.10` is not 1.1.
FILE_BYTES_MAX = 16 * 2**20
VALUES_MAX = 100_000


class Loader(yaml.SafeLoader):
    """`on`, `no`, dates and `1:30` stay text; `1e-5` is a number."""


class Dumper(yaml.SafeDumper):
    """Quotes what this reader or an older one would not take for text."""


_TAG = "tag:yaml.org,2002:"
Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+0123456789.",
    ),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("merge", r"^(?:<<)$", "<"),
):
    Loader.add_implicit_resolver(_TAG + _name, re.compile(_pattern), list(_first))
    Dumper.add_implicit_resolver(_TAG + _name, re.compile(_pattern), list(_first))


def _int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _TAG + "merge":
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'the key "{key.value}" is there twice', key.start_mark
                )
            seen.add(key.value)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


def _text_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Several lines, such as a script, as they are read: after a |."""
    return dumper.represent_scalar(_TAG + "str", text, style="|" if "\n" in text.rstrip("\n") else None)


Dumper.add_representer(str, _text_block)
Loader.add_constructor(_TAG + "int", _int)
Loader.add_constructor(_TAG + "map", _mapping)


@dataclass(frozen=True, slots=True)
class Document:
    """One description of a file, with the line of each of its keys: `resources.gpus`, `after.0`."""

    path: str
    line: int
    raw: dict[str, Any]
    lines: dict[str, int]

    def where(self, key: str = "") -> str:
        """The file, and the line of a key; of what holds it, where it is not written there."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return f"{self.path}, line {self.lines.get(key, self.line)}"


def read_documents(path: str) -> list[Document]:
    """The descriptions in a file (`-` is stdin), or on which line it is wrong. `---` begins the next."""
    text = _text(path)
    path = "stdin" if path == "-" else path
    found = [each for each in _nodes(text, path) if each[1] is not None]
    if not found:
        raise BadInput(f"{path} is empty", "a job needs at least a command")
    documents = []
    for node, value in found:
        line = node.start_mark.line + 1
        if not isinstance(value, Mapping):
            where = path if len(found) == 1 else f"{path}, line {line}"
            raise BadInput(
                f"{where}: expected keys and values, as in `command: [python, train.py]`",
                "several jobs of a file are parted by lines of ---" if isinstance(value, list) else "",
            )
        documents.append(Document(path, line, dict(value), dict(_lines(node, "", set()))))
    return documents


def _nodes(text: str, path: str) -> list[tuple[yaml.Node, Any]]:
    with _refusals(path):
        loader = Loader(text)
        found = []
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            _keep_as_written(node)
            found.append((node, loader.construct_document(node)))
    _refuse_too_many([value for _, value in found], path)
    return found


def _keep_as_written(node: yaml.Node) -> None:
    """Numbers that become words of a command, or values of the environment, are the text that stands there: `1.10`."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        inner: Sequence[yaml.Node] = ()
        if key.value == "command" and isinstance(value, yaml.SequenceNode):
            inner = value.value
        elif key.value in AS_WRITTEN and isinstance(value, yaml.MappingNode):
            inner = [each for _, each in value.value]
        for each in inner:
            # `true` is a word of a command; in the environment it is more often a mistake than the text.
            if each.tag in (_TAG + "int", _TAG + "float") or (each.tag == _TAG + "bool" and key.value == "command"):
                each.tag = _TAG + "str"


def _lines(node: yaml.Node, prefix: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Where each key, and each entry of a list, stands. What an alias repeats is told once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    inner: list[tuple[str, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        inner = [(str(key.value), key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
    elif isinstance(node, yaml.SequenceNode):
        inner = [(str(number), value, value) for number, value in enumerate(node.value)]
    for name, at, value in inner:
        yield f"{prefix}{name}", at.start_mark.line + 1
        yield from _lines(value, f"{prefix}{name}.", seen)


def parse(text: str, what: str) -> Any:
    with _refusals(what):
        value = yaml.load(text, Loader)
    _refuse_too_many(value, what)
    return value


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{what}, line {mark.line + 1}" if mark else what
        raise BadInput(f"{where}: {error.problem or error.context or 'is not YAML'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"{what} is not YAML: {str(error).splitlines()[0]}") from None


def _refuse_too_many(value: Any, what: str) -> None:
    if _size(value, VALUES_MAX) <= 0:
        raise BadInput(f"{what}: more than {VALUES_MAX:,} values", "aliases multiply what they stand for")


def dump(value: Any, short: bool = False) -> str:
    """YAML that reads back as the same value; if `short`, with lists and groups of plain values on one line."""
    flow = None if short else False
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=flow))


def set_value(raw: dict[str, Any], path: str, text: str) -> None:
    """Put a value given as `resources.gpus=2` at its place."""
    *parents, last = path.split(".")
    place = raw
    for parent in parents:
        inner = place.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise BadInput(f'--set {path}: "{parent}" is not a group of keys')
        place = inner
    place[last] = _said(path, text, f"--set {path}")


def _said(path: str, text: str, what: str) -> Any:
    """The value as a file would have it: numbers of commands and variables stay as they are written."""
    if path == "command":
        return _nodes(f"command: {text}", what)[0][1]["command"]
    value = parse(text, what)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return text.strip() if number and path.partition(".")[0] in AS_WRITTEN else value


def _text(path: str) -> str:
    import sys

    try:
        if path == "-":
            content = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        from headway.client.code.script import nearest

        raise BadInput(f'no file "{path}"', nearest(path)) from None
    except (OSError, ValueError) as error:
        raise BadInput(f'"{path}" cannot be read: {getattr(error, "strerror", None) or error}') from None
    if len(content) > FILE_BYTES_MAX:
        raise BadInput(f"{path} is larger than {FILE_BYTES_MAX:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text") from None


def _size(value: Any, left: int) -> int:
    """How much of a budget is left after counting all values; stops counting when it is used up."""
    left -= 1
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        if left <= 0:
            break
        left = _size(each, left)
    return left
