"""Checks a value against a JSON Schema of the few keywords that we write; any other keyword is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
SILENT = {"$schema", "title", "description", "default"}


def problems(value: Any, schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for keyword, said in schema.items():
        if keyword not in SILENT:
            yield from CHECKS[keyword](value, said, schema, at)


def _kind(value: Any, kinds: Any, schema: Any, at: str) -> Iterator[str]:
    if not any(_is(value, kind) for kind in (kinds if isinstance(kinds, list) else [kinds])):
        yield f"{at}: {value!r} is not {kinds}"


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def _any_of(value: Any, forms: Any, schema: Any, at: str) -> Iterator[str]:
    if all(any(True for _ in problems(value, form, at)) for form in forms):
        yield f"{at}: {value!r} has none of the forms"


def _enum(value: Any, known: Any, schema: Any, at: str) -> Iterator[str]:
    if value not in known:
        yield f"{at}: {value!r} is none of {known}"


def _properties(value: Any, known: Any, schema: Any, at: str) -> Iterator[str]:
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name in known:
            yield from problems(each, known[name], f"{at}.{name}")


def _additional(value: Any, said: Any, schema: Any, at: str) -> Iterator[str]:
    for name, each in value.items() if isinstance(value, Mapping) else ():
        if name not in schema.get("properties", {}):
            yield from [f"{at}.{name}: unknown"] if said is False else problems(each, said, f"{at}.{name}")


def _required(value: Any, names: Any, schema: Any, at: str) -> Iterator[str]:
    yield from [f"{at}.{name}: left out" for name in names if isinstance(value, Mapping) and name not in value]


def _items(value: Any, said: Any, schema: Any, at: str) -> Iterator[str]:
    for number, each in enumerate(value if isinstance(value, list) else ()):
        yield from problems(each, said, f"{at}.{number}")


def _min_items(value: Any, least: int, schema: Any, at: str) -> Iterator[str]:
    if isinstance(value, list) and len(value) < least:
        yield f"{at}: fewer than {least}"


def _minimum(value: Any, least: float, schema: Any, at: str) -> Iterator[str]:
    if isinstance(value, int | float) and value < least:
        yield f"{at}: less than {least}"


CHECKS = {
    "type": _kind,
    "anyOf": _any_of,
    "enum": _enum,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "minItems": _min_items,
    "minimum": _minimum,
}
