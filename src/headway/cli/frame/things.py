"""What `show`, `create` and `rm` of every noun have in common: finding one by name, and telling it."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.cli.frame import exits
from headway.cli.frame.output import Output, as_yaml
from headway.core.errors import Conflict, NotFound

Thing = Mapping[str, Any]


def named(found: Sequence[Thing], name: str, noun: str, key: str = "name") -> Thing:
    """The one of that name, or what was nearly meant."""
    names = [str(each[key]) for each in found]
    if name in names:
        return found[names.index(name)]
    near = difflib.get_close_matches(name, names, n=1)
    raise NotFound(f'no {noun} "{name[:80]}"', f'did you mean "{near[0]}"?' if near else f"headway {noun} ls")


def refuse_second(found: Sequence[Thing], name: str, noun: str) -> None:
    """`create` makes a new one; `set` is what changes one."""
    if any(each["name"] == name for each in found):
        raise Conflict(f'there is a {noun} "{name[:80]}" already', f"to change it: headway {noun} set {name}")


def show(output: Output, thing: Thing, name: str) -> int:
    """All that is known of it, as keys and values."""
    output.show(thing, lambda: as_yaml(with_dates(thing)).rstrip("\n"), lambda: [name])
    return exits.OK


def with_dates(value: Any, key: str = "") -> Any:
    """The same for people: moments, whose names end in `_at`, as dates of this machine."""
    if isinstance(value, Mapping):
        return {name: with_dates(inner, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_dates(inner) for inner in value]
    if key.endswith("_at") and isinstance(value, int | float):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    return value


def listed(output: Output, what: str, found: Sequence[Thing], page: Callable[[], str], empty: str) -> int:
    """A list of things by name; where there is none, what to do about it."""
    output.show({what: found}, page, lambda: [str(each["name"]) for each in found])
    if not found:
        output.say(empty)
    return exits.OK


def done(output: Output, answer: Any, said: str, name: str) -> int:
    """What came of a change, in a sentence."""
    output.show(answer, lambda: said, lambda: [name])
    return exits.OK
