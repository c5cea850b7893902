"""The JSON Schema of a job file, for editors: made from the words themselves, so that it says what is read.

Beside what the API takes, a file may leave a word empty, and say how code and packages are found.
"""

from __future__ import annotations

from typing import Any

from headway.core.spec.job import WORDS, JobSpec
from headway.core.spec.words import FLAG, TEXT, Schema, Word, Words

DRAFT = "http://json-schema.org/draft-07/schema#"
# What the command line makes of these before it sends them: client/code/prepared_job.py.
IN_A_FILE: dict[str, tuple[Schema, str]] = {
    "bundle": (FLAG, "true: send the project along; false: run in place; or the digest of uploaded code"),
    "environment": (TEXT, "auto, or the file that names its packages: uv.lock, requirements.txt, environment.yml, …"),
}


def job_schema(words: Words[JobSpec] = WORDS) -> dict[str, Any]:
    """What a document of a job file may be."""
    known = words.schema()
    properties = {key: _of(entry, known["properties"][key]) for key, entry in words.all.items()}
    return {"$schema": DRAFT, "title": "A job of Headway", **known, "properties": properties}


def _of(entry: Word, schema: Schema) -> Schema:
    schema = _closed(schema)
    if entry.key in IN_A_FILE:
        also, says = IN_A_FILE[entry.key]
        schema = {"anyOf": [also, {name: part for name, part in schema.items() if name != "description"}]}
        schema["description"] = says
    if isinstance(entry.default, bool | int | float | str) and entry.default != "":
        schema["default"] = entry.default
    return _or_empty(schema) if entry.null else schema


def _closed(schema: Any) -> Any:
    """Without keys that nobody reads, all the way down."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _closed(part) for name, part in schema.items()}
    if isinstance(found.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found


def _or_empty(schema: Schema) -> Schema:
    """The same, or null, which leaves a word out."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*kinds, *(["null"] if "null" not in kinds else [])]}
