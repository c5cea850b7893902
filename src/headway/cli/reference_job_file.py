"""The reference page of job files: one complete file with every key, and a table of the keys, the nested ones too.

Written from the words of core/spec and their samples; reference.py writes it with the other pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from headway.cli.job_flags.commented_file import SAMPLES, commented
from headway.core.spec.job_schema import job_schema

INTRODUCTION = (
    "A job file says what `headway run` would be told by flags: `headway run -f job.yaml`. Every key but `command` may "
    "be left out. `headway init` writes such a file, `headway validate` checks one, `headway schema` prints its JSON "
    "Schema: see [Write a job file](../how-to/job-files.md). The SDK takes the same keys: `headway.submit({…})`."
)
PATH = "job.yaml"


def parts() -> list[list[str]]:
    return [["## A file with every key", "", "```yaml", complete().rstrip("\n"), "```"], ["## The keys", "", *table()]]


def complete() -> str:
    """A file that says all there is to say. A sample, not advice: most jobs need three of these."""
    return commented(SAMPLES, PATH, every=True, schema=False)


def table() -> list[str]:
    rows = [
        (f"`{key}`", kind_of(schema), default_of(schema), schema.get("description", "").replace("|", "\\|"))
        for key, schema in keys(job_schema())
    ]
    return ["| key | kind | left out | meaning |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]


def keys(schema: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every key with its schema, those inside another after it: `checkpoint.keep_best.metric`, `after[].job`."""
    for name, each in schema.get("properties", {}).items():
        path = f"{before}{name}"
        yield path, each
        yield from inside(each, path)


def inside(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    met: set[str] = set()
    for form in forms(schema):
        found = [*keys(form, f"{path}.")]
        if isinstance(form.get("items"), dict):
            found += [*inside(form["items"], f"{path}[]"), *keys(form["items"], f"{path}[].")]
        if isinstance(form.get("additionalProperties"), dict):
            held = form["additionalProperties"]
            found += [*inside(held, f"{path}.NAME"), *keys(held, f"{path}.NAME.")]
        for key, each in found:
            if key not in met:
                met.add(key)
                yield key, each


def forms(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [schema, *(inner for each in schema.get("anyOf", ()) for inner in forms(each))]


def kind_of(schema: Mapping[str, Any]) -> str:
    """What may stand there, in a reader's words."""
    if "anyOf" in schema:
        found = [kind_of(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(found))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"] if each not in (None, ""))
    kinds = schema.get("type", "anything")
    named = [KINDS[each] for each in ([kinds] if isinstance(kinds, str) else kinds) if each != "null"]
    if schema.get("items"):
        return f"list of {kind_of(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"names, each with {kind_of(schema['additionalProperties'])}"
    return " or ".join(dict.fromkeys(named))


KINDS = {
    "anything": "anything", "array": "list", "boolean": "true or false", "integer": "whole number", "number": "number",
    "object": "keys", "string": "text",
}  # fmt: skip


def default_of(schema: Mapping[str, Any]) -> str:
    plain = "default" in schema and not any("properties" in form for form in forms(schema))
    return f"`{json.dumps(schema['default'])}`" if plain else ""
