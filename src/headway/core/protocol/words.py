"""Kinds of words on the wire: how each is read from JSON, within which bounds, and how it is described in a schema.

A word of a wrong type or out of its bounds raises `Wrong`, which gathers the way to it: "reports[3].outcome.rank".
Nothing of the server is imported here: agents may read with the same words one day.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, NamedTuple

MISSING: Any = object()
COUNT_MAX = 2**62  # Below what the databases hold in eight bytes, with room for sums.
PIECES_MAX = 200_000
_HALF_OR_NUL = re.compile("[\0\ud800-\udfff]")
_TASK = re.compile(r"([!-.0-~]{1,100})/(0|[1-9][0-9]{0,8})/(0|[1-9][0-9]{0,5})")


class Wrong(ValueError):
    """A word that cannot be taken; `way` leads to it, outermost first."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.way: list[str] = []

    def __str__(self) -> str:
        return "".join(self.way).lstrip(".") + ": " + self.why if self.way else self.why


def quoted(value: object) -> str:
    """A value as it is shown to whoever sent it: short, and in plain characters."""
    try:
        shown = ascii(value[:60] if isinstance(value, str) else value)
    except (ValueError, RecursionError):  # A number of thousands of digits is not written out.
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 64 else shown[:60] + "…"


class WordKind:
    """One kind of word. `schema` is JSON Schema; `read` returns the value as the server keeps it."""

    schema: dict[str, Any] = {}

    def read(self, value: Any) -> Any:
        raise NotImplementedError


class Flag(WordKind):
    schema = {"type": "boolean"}

    def read(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise Wrong(f"expected true or false, not {quoted(value)}")


class WholeNumber(WordKind):
    """A whole number within bounds."""

    def __init__(self, least: int = 0, most: int = COUNT_MAX) -> None:
        self.least, self.most = least, most
        self.schema = {"type": "integer", "minimum": least, "maximum": most}

    def read(self, value: Any) -> int:
        if type(value) is int and self.least <= value <= self.most:
            return value
        raise Wrong(f"expected a whole number from {self.least} to {self.most}, not {quoted(value)}")


class Number(WordKind):
    """A finite number within bounds."""

    def __init__(self, least: float = 0.0, most: float = 1e12) -> None:
        self.least, self.most = least, most
        self.schema = {"type": "number", "minimum": least, "maximum": most}

    def read(self, value: Any) -> float:
        # Compared before it is turned into a float: a whole number may be too large for one.
        if isinstance(value, (int, float)) and type(value) is not bool and self.least <= value <= self.most:
            return float(value)
        raise Wrong(f"expected a number from {self.least:g} to {self.most:g}, not {quoted(value)}")


class Name(WordKind):
    """A text that names something: refused where a database, a path or a log could not hold it as it is."""

    def __init__(self, most: int, least: int = 0) -> None:
        self.least, self.most = least, most
        self.schema = {"type": "string", "minLength": least, "maxLength": most}

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Wrong(f"expected a text, not {quoted(value)}")
        if not self.least <= len(value) <= self.most:
            raise Wrong(f"expected {self.least} to {self.most} characters, not {len(value)}")
        if (not value.isascii() or "\0" in value) and _HALF_OR_NUL.search(value):
            raise Wrong(f"{quoted(value)} holds NUL or half of a character")
        return value


class Shown(WordKind):
    """A text for people: made clean and cut, never refused. It may quote a file's name or a program as it was."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.schema = {"type": ["string", "null"]}

    def read(self, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise Wrong(f"expected a text, not {quoted(value)}")
        return _HALF_OR_NUL.sub("\ufffd", value[: self.most])


class Word(WordKind):
    """One of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.schema = {"enum": list(words)}

    def read(self, value: Any) -> str:
        if isinstance(value, str) and value in self.words:
            return value
        raise Wrong(f"expected one of {', '.join(self.words)}, not {quoted(value)}")


class TaskKey(NamedTuple):
    job: str
    attempt: int
    index: int  # type: ignore[assignment]  # A tuple's own `index` is of no use here.

    def __str__(self) -> str:
        return f"{self.job}/{self.attempt}/{self.index}"


class TaskWord(WordKind):
    """A task as it is named on the wire: job, attempt, index."""

    schema = {"type": "string", "pattern": f"^{_TASK.pattern}$"}

    def read(self, value: Any) -> TaskKey:
        found = _TASK.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise Wrong(f'expected a task as "job/attempt/index", not {quoted(value)}')
        return TaskKey(found[1], int(found[2]), int(found[3]))


class Maybe(WordKind):
    """Something, or null, which is read as `empty`."""

    def __init__(self, kind: WordKind, empty: Any = None) -> None:
        self.kind, self.empty = kind, empty
        self.schema = {"anyOf": [kind.schema, {"type": "null"}]}

    def read(self, value: Any) -> Any:
        return self.empty if value is None else self.kind.read(value)


class Figures(WordKind):
    """Names with numbers. What is no finite number is left out: a loss of NaN says nothing."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.schema = {"type": ["object", "null"]}

    def read(self, value: Any) -> dict[str, float]:
        if not isinstance(value, dict):
            return {}
        found = {
            _HALF_OR_NUL.sub("\ufffd", name[:100]): float(number)
            for name, number in value.items()
            if isinstance(number, (int, float)) and type(number) is not bool and abs(number) < 1e300
        }
        return {name: number for name, number in list(found.items())[: self.most] if math.isfinite(number)}


class Record(WordKind):
    """An object that becomes a dataclass of this type. Words that it does not know are passed over."""

    def __init__(self, type_: type[Any]) -> None:
        self.type = type_
        self.fields: list[tuple[str, WordKind, Any]] = [
            (each.name, each.metadata["kind"], each.metadata["missing"])
            for each in dataclasses.fields(type_)
            if "kind" in each.metadata
        ]
        self.schema = {
            "type": "object",
            "properties": {name: kind.schema for name, kind, _ in self.fields},
            "required": [name for name, _, missing in self.fields if missing is MISSING],
        }

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, not {quoted(value)}")
        found = {}
        for name, kind, missing in self.fields:
            given = value.get(name, MISSING)
            if given is MISSING:
                if missing is MISSING:
                    raise Wrong(f'"{name}" is missing')
                found[name] = missing
                continue
            try:
                found[name] = kind.read(given)
            except Wrong as wrong:
                wrong.way.insert(0, f".{name}")
                raise
        made = object.__new__(self.type)
        made.__dict__.update(found)  # Frozen, and read a thousand times a second: not through __init__.
        return made


class Many(WordKind):
    """A list of records; one that is wrong makes all of it wrong."""

    def __init__(self, record: WordKind, most: int = PIECES_MAX) -> None:
        self.record, self.most = record, most
        self.schema = {"type": "array", "items": record.schema, "maxItems": most}

    def read(self, value: Any) -> tuple[Any, ...]:
        self._check(value)
        return tuple(self._one(number, each) for number, each in enumerate(value))

    def _check(self, value: Any) -> None:
        if not isinstance(value, list):
            raise Wrong(f"expected a list, not {quoted(value)}")
        if len(value) > self.most:
            raise Wrong(f"expected at most {self.most} entries, not {len(value)}")

    def _one(self, number: int, each: Any) -> Any:
        try:
            return self.record.read(each)
        except Wrong as wrong:
            wrong.way.insert(0, f"[{number}]")
            raise


class WordRefused(NamedTuple):
    """An entry that was not taken, and why."""

    entry: Any
    why: str


class Each(Many):
    """A list whose entries stand for themselves: one that is wrong comes out as `Refused`, and the rest is taken."""

    def read(self, value: Any) -> tuple[Any, ...]:
        self._check(value or [])
        return tuple(self._one(number, each) for number, each in enumerate(value or ()))

    def _one(self, number: int, each: Any) -> Any:
        try:
            return super()._one(number, each)
        except Wrong as wrong:
            return WordRefused(each, str(wrong))


class EachTask(WordKind):
    """An object with a value for each task; what is wrong comes out as `Refused` under its own name."""

    def __init__(self, kind: WordKind) -> None:
        self.kind, self._task = kind, TaskWord()
        self.schema = {"type": "object", "additionalProperties": kind.schema}

    def read(self, value: Any) -> tuple[tuple[TaskKey, Any] | WordRefused, ...]:
        if value is None:
            return ()
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, not {quoted(value)}")
        if len(value) > PIECES_MAX:
            raise Wrong(f"expected at most {PIECES_MAX} entries, not {len(value)}")
        return tuple(self._one(*pair) for pair in value.items())

    def _one(self, name: str, value: Any) -> tuple[TaskKey, Any] | WordRefused:
        try:
            return self._task.read(name), self.kind.read(value)
        except Wrong as wrong:
            return WordRefused({"task": name}, f"[{quoted(name)}]: {wrong.why}")


def said(kind: WordKind, missing: Any = MISSING) -> Any:
    """A field of a record: its kind, and what it is where the word is missing; without that, it must be there."""
    default = None if missing is MISSING or isinstance(missing, dict) else missing
    return dataclasses.field(default=default, metadata={"kind": kind, "missing": missing})
