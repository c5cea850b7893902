"""A description with changes: what `rerun`, `fork` and `set` mean by other values.

Groups such as `resources`, `env` and `params` are changed key by key, all else is replaced; null takes a word, or a key
of a group, away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.core.spec.job import JobSpec, check_words, read_spec, show_spec

# Words that are said in two ways, alone and inside a group: the one that is changed wins over the other.
TWINS = (("retries", "retry", "max"), ("grace", "notice", "grace"))


def changed(spec: JobSpec, changes: Mapping[str, Any]) -> JobSpec:
    """The checked description with these changes."""
    if not changes:
        return spec
    check_words(changes)
    return read_spec(one_of_twins(merged(show_spec(spec), changes), changes))


def one_of_twins(words: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The words without the other way of saying what was changed."""
    for alone, group, key in TWINS:
        inner, asked = words.get(group), changes.get(group)
        in_group = isinstance(asked, Mapping) and key in asked
        if in_group and alone not in changes:
            words.pop(alone, None)
        elif alone in changes and not in_group and isinstance(inner, Mapping):
            words[group] = {name: value for name, value in inner.items() if name != key}
    return words


def merged(known: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(known)
    for key, value in changes.items():
        old = found.get(key)
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            found[key] = merged(old, value)
        else:
            found[key] = value
    return found
