"""Kinds of words on the wire: how each is read from JSON and shown in it, within which bounds, and what a schema says.

A word of a wrong type or out of its bounds raises `Wrong`, which gathers the way to it: "reports[3].outcome.rank".
A message is a frozen dataclass whose fields are made by `word`. Words that it does not know are passed over.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import namedtuple

from headway_wire.tasks import PATTERN as TASK_PATTERN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Collection, TypeVar

    M = TypeVar("M", bound="Message")

MISSING: Any = object()
COUNT_MAX = 2**62  # Below what the databases hold in eight bytes, with room for sums.
PIECES_MAX = 200_000
_HALF_OR_NUL = re.compile("[\0\ud800-\udfff]")
_TASK = re.compile(TASK_PATTERN)


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
    """One kind of word. `schema` is JSON Schema; `read` returns the value as it is kept, `show` as it travels."""

    schema: dict[str, Any] = {}
    show: Callable[[Any], Any] | None = None  # None: it travels as it is kept.

    def read(self, value: Any) -> Any:
        raise NotImplementedError

    def reader(self) -> Callable[[Any], Any]:
        """What reads one, for who reads many."""
        return self.read


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
            raise Wrong(f"{quoted(value)} contains NUL or an unpaired surrogate")
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


class Text(WordKind):
    """Any text, as it is: what a server says to its nodes was checked when it was given."""

    schema = {"type": "string"}

    def read(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        raise Wrong(f"expected a text, not {quoted(value)}")


class Anything(WordKind):
    """Any JSON, passed on as it is."""

    def read(self, value: Any) -> Any:
        return value


class OneOf(WordKind):
    """One of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.schema = {"enum": list(words)}

    def read(self, value: Any) -> str:
        if isinstance(value, str) and value in self.words:
            return value
        raise Wrong(f"expected one of {', '.join(self.words)}, not {quoted(value)}")


class TaskWord(WordKind):
    """A task as it is named on the wire: see tasks.py."""

    schema = {"type": "string", "pattern": f"^{TASK_PATTERN}$"}

    def read(self, value: Any) -> str:
        if isinstance(value, str) and _TASK.fullmatch(value) is not None:
            return value
        raise Wrong(f'expected a task as "job/attempt/index", not {quoted(value)}')


class Maybe(WordKind):
    """Something, or null, which is read as `empty`."""

    def __init__(self, kind: WordKind, empty: Any = None) -> None:
        self.kind, self.empty = kind, empty
        self.schema = {"anyOf": [kind.schema, {"type": "null"}]}
        within = kind.show
        if within is not None:
            self.show = lambda value: None if value is None else within(value)

    def read(self, value: Any) -> Any:
        return self.empty if value is None else self.kind.read(value)

    def reader(self) -> Callable[[Any], Any]:
        empty, read = self.empty, self.kind.reader()
        return lambda value: empty if value is None else read(value)


class Figures(WordKind):
    """Names with numbers. What is not a finite number is left out: a loss of NaN says nothing."""

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

    def show(self, value: Any) -> dict[str, Any]:
        return dict(value)


class Pair(WordKind):
    """A list of two, which becomes a pair."""

    def __init__(self, first: WordKind, second: WordKind) -> None:
        self.first, self.second = first, second
        self.schema = {"type": "array", "prefixItems": [first.schema, second.schema], "minItems": 2, "maxItems": 2}

    def read(self, value: Any) -> tuple[Any, Any]:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise Wrong(f"expected a list of two, not {quoted(value)}")
        return self.first.read(value[0]), self.second.read(value[1])

    def show(self, value: Any) -> list[Any]:
        return list(value)


class Record(WordKind):
    """An object that becomes a dataclass of this type. Words that it does not know are passed over."""

    def __init__(self, type_: type[Any]) -> None:
        self.type = type_
        words = [(each.name, each.metadata) for each in dataclasses.fields(type_) if "kind" in each.metadata]
        own = [
            (said["named"] or name, name, said) for name, said in words if type(said["kind"]) not in (Beside, Others)
        ]
        self.fields: list[tuple[str, WordKind, Any]] = [(name, said["kind"], said["missing"]) for name, _, said in own]
        self._beside = [(name, said["kind"]) for name, said in words if isinstance(said["kind"], Beside)]
        self._renamed = [(name, held) for name, held, _ in own if name != held]
        self._reads = {name: kind.reader() for name, kind, _ in self.fields}
        self._holds = {name: kind.reader() for name, kind, _ in self.fields if kind.show is not None}
        self.names = frozenset(self._reads)
        self._missing = {name: missing for name, _, missing in self.fields if missing is not MISSING}
        self._missing.update({name: None for name, _ in self._beside})
        self._others = next((name for name, said in words if isinstance(said["kind"], Others)), "")
        if self._others:
            self._missing[self._others] = {}
        self._shows = [
            (name, held, said["kind"].show, MISSING if said["always"] else said["missing"]) for name, held, said in own
        ]
        self._count = len(words)

    @property
    def schema(self) -> dict[str, Any]:  # type: ignore[override]
        properties = {name: kind.schema for name, kind, _ in self.fields}
        required = [name for name, _, missing in self.fields if missing is MISSING]
        return {"type": "object", "properties": properties, "required": required}

    def read(self, value: Any, around: Collection[str] = ()) -> Any:
        """The record that this object says; `around` are words of the message that it stands in."""
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, not {quoted(value)}")
        found, reads = self._missing.copy(), self._reads
        name, others = "", {}
        try:
            for name, given in value.items():
                read = reads.get(name)
                if read is not None:
                    found[name] = read(given)
                elif name not in around:
                    others[name] = given
        except Wrong as wrong:
            wrong.way.insert(0, f".{name}")
            raise
        for name, beside in self._beside:
            if beside.when(value):
                found[name] = beside.record.read(value, self.names)
        if self._others:
            found[self._others] = others
        if len(found) != self._count:
            raise Wrong(f'"{next(name for name, _, _ in self.fields if name not in found)}" is missing')
        for name, held in self._renamed:
            found[held] = found.pop(name)
        made = object.__new__(self.type)
        made.__dict__.update(found)  # Frozen, and read a thousand times a second: not through __init__.
        return made

    def made_of(self, words: dict[str, Any]) -> Any:
        """The record of words that this side has made and checked itself: only what holds more is read."""
        found, others = self._missing.copy(), {}
        for name, given in words.items():
            if name not in self._reads:
                others[name] = given
            elif given is not None:
                found[name] = self._holds[name](given) if name in self._holds else given
        if self._others:
            found[self._others] = others
        made = object.__new__(self.type)
        made.__dict__.update(found)
        return made

    def show(self, made: Any) -> dict[str, Any]:
        """As it travels: a word that says what its absence says is left out, unless it is one that is always said."""
        held, said = made.__dict__, {}
        for name, beside in self._beside:
            if held[name] is not None:
                said.update(beside.record.show(held[name]))
        for name, attribute, show, missing in self._shows:
            value = held[attribute]
            if missing is not MISSING and (value is missing or value == missing):
                continue
            said[name] = value if show is None else show(value)
        if self._others:
            said.update(held[self._others])
        return said


class Beside(WordKind):
    """A record whose words stand among those of the message around it, where `when` that one says so; else None."""

    def __init__(self, record: Record, when: Callable[[dict[str, Any]], bool]) -> None:
        self.record, self.when, self.show = record, when, record.show


class Others(WordKind):
    """All words that a message has no field for, as they are: so that a new one travels before all sides name it."""


class Many(WordKind):
    """A list; one entry that is wrong makes all of it wrong."""

    def __init__(self, kind: WordKind, most: int = PIECES_MAX) -> None:
        self.kind, self.most = kind, most

    @property
    def schema(self) -> dict[str, Any]:  # type: ignore[override]
        return {"type": "array", "items": self.kind.schema, "maxItems": self.most}

    def read(self, value: Any) -> tuple[Any, ...]:
        self._check(value)
        read, found = self.kind.read, []
        try:
            for each in value:
                found.append(read(each))
        except Wrong as wrong:
            wrong.way.insert(0, f"[{len(found)}]")
            raise
        return tuple(found)

    def show(self, value: Any) -> list[Any]:
        within = self.kind.show
        return list(value) if within is None else [within(each) for each in value]

    def _check(self, value: Any) -> None:
        if not isinstance(value, (list, tuple)):
            raise Wrong(f"expected a list, not {quoted(value)}")
        if len(value) > self.most:
            raise Wrong(f"expected at most {self.most} entries, not {len(value)}")


class Table(WordKind):
    """An object with a value of this kind under each name."""

    def __init__(self, kind: WordKind) -> None:
        self.kind = kind

    @property
    def schema(self) -> dict[str, Any]:  # type: ignore[override]
        return {"type": "object", "additionalProperties": self.kind.schema}

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, not {quoted(value)}")
        read, name = self.kind.read, ""
        found = {}
        try:
            for name, each in value.items():
                found[name] = read(each)
        except Wrong as wrong:
            wrong.way.insert(0, f".{name}")
            raise
        return found

    def show(self, value: Any) -> dict[str, Any]:
        within = self.kind.show
        return dict(value) if within is None else {name: within(each) for name, each in value.items()}


if TYPE_CHECKING:
    from typing import NamedTuple

    class WordRefused(NamedTuple):
        """An entry that was not taken, and why."""

        entry: Any
        why: str

else:
    WordRefused = namedtuple("WordRefused", ("entry", "why"))


class Each(Many):
    """A list whose entries stand for themselves: one that is wrong becomes a `WordRefused`, and the rest is taken."""

    def read(self, value: Any) -> tuple[Any, ...]:
        self._check(value or [])
        return tuple(self._one(number, each) for number, each in enumerate(value or ()))

    def _one(self, number: int, each: Any) -> Any:
        try:
            return self.kind.read(each)
        except Wrong as wrong:
            wrong.way.insert(0, f"[{number}]")
            return WordRefused(each, str(wrong))


class EachTask(WordKind):
    """An object with a value for each task; what is wrong becomes a `WordRefused` under its own name."""

    def __init__(self, kind: WordKind) -> None:
        self.kind, self._task = kind, TaskWord()
        self.schema = {"type": "object", "additionalProperties": kind.schema}

    def read(self, value: Any) -> tuple[tuple[str, Any] | WordRefused, ...]:
        if value is None:
            return ()
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, not {quoted(value)}")
        if len(value) > PIECES_MAX:
            raise Wrong(f"expected at most {PIECES_MAX} entries, not {len(value)}")
        return tuple(self._one(*pair) for pair in value.items())

    def show(self, value: Any) -> dict[str, Any]:
        return dict(value)

    def _one(self, name: str, value: Any) -> tuple[str, Any] | WordRefused:
        try:
            return self._task.read(name), self.kind.read(value)
        except Wrong as wrong:
            return WordRefused({"task": name}, f"[{quoted(name)}]: {wrong.why}")


def word(kind: WordKind, missing: Any = MISSING, about: str = "", always: bool = False, named: str = "") -> Any:
    """A field of a message: its kind, what it is where the word is missing, and what it says.

    Without `missing` it must be there. With `always` it is said even where its absence would say the same. `named` is
    its name on the wire, where Python has another use for that.
    """
    said = {"kind": kind, "missing": missing, "about": about, "always": always, "named": named}
    if isinstance(missing, dict):
        return dataclasses.field(default_factory=dict, metadata=said)
    if missing is MISSING:
        return dataclasses.field(metadata=said)
    return dataclasses.field(default=missing, metadata=said)


class Message:
    """What can be read from JSON, and shown as such."""

    @classmethod
    def read(cls: type[M], value: Any) -> M:
        """The message that this JSON says. Raises Wrong, naming the word, what was expected, and what was found."""
        made: M = record_of(cls).read(value)
        return made

    def show(self) -> dict[str, Any]:
        return record_of(type(self)).show(self)


_RECORDS: dict[type[Any], Record] = {}


def record_of(type_: type[Any]) -> Record:
    found = _RECORDS.get(type_)
    if found is None:
        found = _RECORDS[type_] = Record(type_)
    return found


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(message, /, **words):
        """A copy of a message with other words in it: as in dataclasses, but not through __init__."""
        made = object.__new__(message.__class__)
        made.__dict__.update(message.__dict__)
        made.__dict__.update(words)
        return made
