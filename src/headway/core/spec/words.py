"""The words of a description, each said once: where the record that holds it has its field.

A word's entry says how it is read, shown and described, whether a waiting job may change it, how the command line says
it and what nodes are told of it. `Words` gathers the entries of a record and its groups; whoever reads, shows, draws a
schema, offers flags or writes claims goes through it and names no word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Generic, TypeVar

from headway.core.records import replace

Schema = dict[str, Any]
Read = Callable[[Any, str], Any]  # The value as it was given, and what to call it in a refusal.
Show = Callable[[Any, Any], Any]  # The value as it is held, and the whole record.

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
MAYBE_WHOLE: Schema = {"type": ["integer", "null"]}
AMOUNT: Schema = {"type": ["number", "string"]}
MAYBE_AMOUNT: Schema = {"type": ["number", "string", "null"]}
PAIRS: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}


def obj(required: tuple[str, ...] = (), **properties: Schema) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def array(of: Schema) -> dict[str, Any]:
    return {"type": "array", "items": of}


def saying(schema: Schema, says: str) -> dict[str, Any]:
    """The same, with a sentence for whoever writes it."""
    return {**schema, "description": says}


def inner_keys(schema: Schema) -> dict[str, str]:
    """The words inside a word, for refusals."""
    return dict.fromkeys(schema["properties"], "")


@dataclass(frozen=True, slots=True)
class Flag:
    """How the command line says a word, or a part of it."""

    name: str
    says: str
    short: str = ""
    metavar: str | None = None
    type: str = "text"  # text, int, float; pairs: K=V, put beside those of the file.
    inner: str = ""  # The part of the word that it says, such as `memory` of `resources`.
    many: bool = False
    adds: bool = False  # What it says comes behind what the file says; else instead of it.
    choices: tuple[str, ...] = ()
    value: Any = None  # What it says by standing there: a flag without a value.
    changing: str | None = ""  # What it says in `headway set`: empty, the same; None, it is not there.


@dataclass(frozen=True, slots=True)
class Travel:
    """What nodes are told of a word: under which name, and what. Unless `always`, nothing where it was left out."""

    name: str
    show: Show | None = None
    always: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    key: str  # What it is called in a description.
    says: str
    read: Read | None = None  # None: as it stands; or read with its neighbours, by whoever reads the whole.
    show: Show | None = None
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False
    always: bool = False  # Shown though it was left out.
    null: bool = True  # Whether null leaves it out.
    empty: bool = False  # Whether an empty text leaves it out.
    changeable: bool = False  # While the job waits.
    flags: tuple[Flag, ...] = ()
    travels: Travel | None = None
    # Where it is held:
    group: str = ""
    name: str = ""
    default: Any = None


def word(default: Any = MISSING, **said: Any) -> Any:
    """The field of a record that holds a word."""
    entry = Word(**said)
    if default is MISSING:
        return field(metadata={"word": entry})
    return field(default=default, metadata={"word": entry})


Record = TypeVar("Record")


class Words(Generic[Record]):
    """All words of a record, and of the records that it holds as groups, in the order of their fields."""

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        # By the field that holds it: the group as it is when none of its words is said.
        self.groups: dict[str, Any] = {}
        found: list[Word] = []
        for each in fields(record):  # type: ignore[arg-type]
            if "word" in each.metadata:
                found.append(replace(each.metadata["word"], name=each.name, default=each.default))
                continue
            group: Any = each.default
            self.groups[each.name] = group
            found += [
                replace(inner.metadata["word"], group=each.name, name=inner.name, default=inner.default)
                for inner in fields(group)
            ]
        self.all: dict[str, Word] = {entry.key: entry for entry in found}
        self.says: dict[str, str] = {entry.key: entry.says for entry in found}
        self.changeable: dict[str, str] = {entry.key: entry.says for entry in found if entry.changeable}
        self._in = {group: [entry for entry in found if entry.group == group] for group in ("", *self.groups)}
        self._travelling = {
            group: [(entry, entry.travels) for entry in entries if entry.travels] for group, entries in self._in.items()
        }

    def read(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a record from a description whose keys are checked. Words that were left out are not there."""
        found: dict[str, Any] = {}
        groups: dict[str, dict[str, Any]] = {}
        for key, value in raw.items():
            entry = self.all[key]
            if value is None and entry.null:
                continue
            if entry.read is not None:
                value = entry.default if entry.empty and value == "" else entry.read(value, key)
            if entry.group:
                groups.setdefault(entry.group, {})[entry.name] = value
            else:
                found[entry.name] = value
        for group, values in groups.items():
            found[group] = type(self.groups[group])(**values)
        return found

    def show(self, record: Record) -> dict[str, Any]:
        """The description that reads back into this record."""
        shown: dict[str, Any] = {}
        for group, entries in self._in.items():
            holder = getattr(record, group) if group else record
            if group and holder is self.groups[group]:
                continue
            for entry in entries:
                value = getattr(holder, entry.name)
                if entry.always or value != entry.default:
                    shown[entry.key] = entry.show(value, record) if entry.show else value
        return shown

    def told(self, record: Record, group: str = "") -> dict[str, Any]:
        """What nodes are told of the words that a record, or a group of it, holds."""
        holder = getattr(record, group) if group else record
        if group and holder is self.groups[group]:
            return {}
        said: dict[str, Any] = {}
        for entry, travels in self._travelling[group]:
            value = getattr(holder, entry.name)
            if travels.always or value != entry.default:
                value = travels.show(value, record) if travels.show else value
                if value or travels.always:
                    said[travels.name] = value
        return said

    def schema(self) -> dict[str, Any]:
        """What a description may be, as OpenAPI says it."""
        required = tuple(key for key, entry in self.all.items() if entry.required)
        properties = {key: {**entry.schema, "description": entry.says} for key, entry in self.all.items()}
        return {**obj(required, **properties), "additionalProperties": False}
