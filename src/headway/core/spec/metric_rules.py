"""Metrics that a job names itself: a name, and a regular expression that finds its values in the output.

In the form that SageMaker knows (`Name`, `Regex`), or in ours (`name`, `regex`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headway.core.errors import BadInput
from headway.core.spec.words import TEXT

RULES_MAX = 100
NAME_MAX, REGEX_MAX = 200, 1000
RULE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {**TEXT, "description": "what the metric is called"},
        "regex": {**TEXT, "description": "a regular expression, looked for in each line; its first group is the value"},
    },
    "required": ["name", "regex"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class MetricRule:
    name: str
    regex: str


def read_rules(raw: Any, what: str) -> tuple[MetricRule, ...]:
    if not isinstance(raw, list | tuple) or len(raw) > RULES_MAX:
        raise BadInput(
            f"{what}: expected a list of at most {RULES_MAX} rules, such as {{name: loss, regex: 'loss (.+)'}}"
        )
    return tuple(_read_rule(each, f"{what}[{number}]") for number, each in enumerate(raw))


def _read_rule(raw: Any, what: str) -> MetricRule:
    if not isinstance(raw, dict) or {str(key).lower() for key in raw} != {"name", "regex"}:
        raise BadInput(f"{what}: expected name and regex, and nothing else")
    said = {str(key).lower(): value for key, value in raw.items()}
    for key, most in (("name", NAME_MAX), ("regex", REGEX_MAX)):
        if not isinstance(said[key], str) or not 0 < len(said[key]) <= most:
            raise BadInput(f"{what}.{key}: expected a text of 1 to {most} characters")
    try:
        re.compile(said["regex"])
    except (re.error, RecursionError, OverflowError) as error:
        raise BadInput(f'{what}.regex: "{said["regex"][:80]}" is not a regular expression: {error}') from None
    return MetricRule(said["name"], said["regex"])


def show_rules(rules: tuple[MetricRule, ...], spec: Any) -> list[dict[str, str]]:
    return [{"name": each.name, "regex": each.regex} for each in rules]
