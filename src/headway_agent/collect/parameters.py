"""Parameters that nobody has to log: from the words of the command, from Hydra's and Lightning's files, from printing.

Pure. Values stay text, number or truth value as they were written; what is not plain is left out.
"""

from __future__ import annotations

import ast
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Sequence, Union

    Params = Dict[str, Union[str, float, int, bool, None]]

PARAMS_MAX = 500
VALUE_CHARS_MAX = 500
FILE_BYTES_MAX = 256 << 10
WORDS = {"true": True, "false": False, "null": None, "none": None, "~": None}

_FLAG = re.compile(r"--(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_OVERRIDE = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w./@-]*)=(?P<value>.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_YAML = re.compile(r"(?P<indent> *)(?P<name>[^\s:#'\"-][^:#]*?|'[^']+'|\"[^\"]+\"):(?:\s+(?P<value>.*))?")
_SECRET = re.compile(r"(?:.*[_.-])?(?:password|passwd|secret|token|api[_-]?key|credentials?)", re.IGNORECASE)
_NAMESPACE = re.compile(rb"(?:^|\s)Namespace\((?P<inner>.*)\)\s*$")


def of_command(argv: Sequence[str]) -> Params:
    """`--lr 0.1 --amp` and `model.width=3`, behind the program that they are given to."""
    params: Params = {}
    words = list(argv)
    for at, word in enumerate(words[1:], 1):
        flag = _FLAG.fullmatch(word)
        if flag is not None and flag.group("value") is not None:
            _put(params, flag.group("name"), flag.group("value"))
        elif flag is not None:
            following = words[at + 1] if at + 1 < len(words) else "--"
            is_value = not following.startswith("-") or _NUMBER.fullmatch(following) is not None
            _put(params, flag.group("name"), following if is_value else "true")
        elif not (words[at - 1].startswith("--") and "=" not in words[at - 1]):
            override = _OVERRIDE.fullmatch(word)
            if override is not None and not word.startswith(("/", ".")):
                _put(params, override.group("name"), override.group("value"))
    return params


def of_yaml(content: bytes) -> Params:
    """The plain values of a file of settings, by the way to each: `model.width`; no lists, no texts of many lines."""
    params: Params = {}
    above: list[tuple[int, str]] = []
    text_below = -1  # A text of many lines is indented further than its name.
    for line in content[:FILE_BYTES_MAX].decode("utf-8", "replace").splitlines():
        found = _YAML.fullmatch(line.rstrip())
        if found is None:
            continue
        indent, name = len(found.group("indent")), found.group("name").strip("'\"")
        if 0 <= text_below < indent:
            continue
        text_below = -1
        while above and above[-1][0] >= indent:
            above.pop()
        value = (found.group("value") or "").split(" #")[0].strip()
        if value.startswith(("|", ">")):
            text_below = indent
        elif value and not value.startswith(("!", "&", "*", "[", "{")):
            _put(params, ".".join([*(each for _, each in above), name]), value)
        elif not value or value.startswith(("!", "&")):
            above.append((indent, name))
    return params


def of_line(line: bytes) -> Params:
    """The arguments that a script prints when it begins: `Namespace(lr=0.1, optimizer='adam')`."""
    found = _NAMESPACE.search(line)
    if found is None or len(line) > FILE_BYTES_MAX:
        return {}
    params: Params = {}
    try:
        call = ast.parse(f"f({found.group('inner').decode('utf-8', 'replace')})", mode="eval").body
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            value = ast.literal_eval(keyword.value)
            is_plain = value is None or isinstance(value, (str, int, float, bool))
            if keyword.arg and is_plain and len(params) < PARAMS_MAX and not _SECRET.fullmatch(keyword.arg):
                params[keyword.arg] = value
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return params


def _put(params: Params, name: str, text: str) -> None:
    if len(params) < PARAMS_MAX and len(text) <= VALUE_CHARS_MAX and not _SECRET.fullmatch(name):
        params[name] = plain(text)


def plain(text: str) -> str | float | int | bool | None:
    text = text.strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if _NUMBER.fullmatch(text):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
