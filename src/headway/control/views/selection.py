"""A selection of jobs by what they are: its words, read once for lists, previews and whatever is done to many.

What it finds is asked of the store, which has an index for each word: nothing is fetched only to be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.core.errors import BadInput
from headway.core.fields import check_keys
from headway.core.model import ENDS, State
from headway.core.units import duration_s
from headway.store.protocol import JobFilter

WORDS: dict[str, str] = {
    "state": "its state, or several with commas",
    "name": "its name; * stands for anything",
    "tag": "a tag, as KEY or KEY=VALUE; several must all be there",
    "queue": "its queue",
    "user": "who submitted it",
    "project": "its project",
    "older_than": "ended so long ago, or unfinished and submitted so long ago, such as 7d",
    "id": "its id",
    "array": "the array that it belongs to",
    "retried": "whether jobs are in it that others are retries of",
}
TAGS_MOST = 20
OPEN = frozenset(state.value for state in State if state not in ENDS)
ENDED = frozenset(state.value for state in ENDS)
BADLY = frozenset({State.FAILED.value, State.CANCELLED.value})


def read(words: Mapping[str, Any], now: float, projects: frozenset[str] | None = None) -> JobFilter:
    """The filter that these words say; words that are empty say nothing."""
    check_keys(words, WORDS, "selection")
    age = words.get("older_than")
    return JobFilter(
        states=states_of(_text(words, "state")),
        project=_text(words, "project"),
        user=_text(words, "user"),
        queue=_text(words, "queue"),
        name=_text(words, "name"),
        ids=tuple(filter(None, [_text(words, "id")])),
        array=_text(words, "array"),
        projects=projects,
        tags=tags_of(words.get("tag") or ()),
        before=None if age in (None, "") else now - duration_s(age, "older_than"),
        unretried=words.get("retried") is False,
    )


def states_of(raw: str) -> frozenset[str]:
    asked = frozenset(part for part in raw.split(",") if part)
    unknown = asked - {state.value for state in State}
    if unknown:
        raise BadInput(
            f'state: "{sorted(unknown)[0]}" is not a state', "one of " + ", ".join(state.value for state in State)
        )
    return asked


def tags_of(raw: str | Sequence[Any]) -> tuple[tuple[str, str | None], ...]:
    said = [raw] if isinstance(raw, str) else list(raw)
    if len(said) > TAGS_MOST or not all(isinstance(each, str) for each in said):
        raise BadInput(f"tag: expected at most {TAGS_MOST} texts such as KEY=VALUE")
    pairs = [each.partition("=") for each in said if each]
    if any(not key for key, _, _ in pairs):
        raise BadInput('tag: a name is missing before the "="')
    return tuple((key, value if equals else None) for key, equals, value in pairs)


def _text(words: Mapping[str, Any], key: str) -> str:
    value = words.get(key) or ""
    if not isinstance(value, str):
        raise BadInput(f'{key}: "{str(value)[:80]}" is not a text')
    return value
