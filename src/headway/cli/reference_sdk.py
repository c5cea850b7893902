"""The reference page of the SDK, written from its signatures and docstrings; what editors show is the same.

reference.py has the other pages, and writes this one with them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import headway
from headway.client import calls
from headway.client.job_handle import SeenJob
from headway.core.errors import HeadwayError

ERRORS = (
    headway.HeadwayError, headway.UserError, headway.BadInput, headway.NotFound, headway.NotAllowed, headway.Conflict,
    headway.OperatorError, headway.Unavailable, headway.CallFailed,
)  # fmt: skip
INSIDE = ("resume", "checkpoint", "log", "params", "stop_requested", "Checkpointable", "Resume", "Notice")
PARTS = ("house", "accounts", "secrets", "schedules")  # What a client has besides, by the property that leads there.
NOT_FOR_PROGRAMS = {"prepare", "on_trouble"}  # The command line's own.
INTRODUCTION = (
    "`import headway` costs nothing: a name is loaded when it is first used. Everything is typed, and a type checker "
    "reads it (`py.typed`). How to use it is told in [Use Headway from Python](../how-to/python.md). Answers of the "
    "server are handed on as they are: their shapes are in `GET /api/v1/openapi.json`."
)


def parts() -> list[list[str]]:
    """The page, section by section."""
    return [
        ["## Jobs", "", *function_lines(headway.submit, "headway.submit")],
        *class_parts(headway.Client),
        *map(part_of_client, PARTS),
        *class_parts(headway.JobHandle, SeenJob),
        ["## Functions as jobs", "", *function_lines(headway.job, "@headway.job", "**wishes: Any")],
        *class_parts(calls.RemoteFunction, named="the decorated function"),
        *class_parts(headway.Executor),
        *class_parts(headway.FunctionCall),
        function_lines(headway.as_completed, "headway.as_completed"),
        ["## The same for asyncio", "", *asyncio_lines()],
        ["## Errors", "", *error_lines()],
        ["## Inside a job", "", "They need no package: every node brings them. Outside a job they do nothing.", ""],
        *(inside_lines(name) for name in INSIDE),
    ]


def signature(function: Callable[..., Any]) -> str:
    """The parameters as they were written, without `self`."""
    shown: list[str] = []
    star = False
    for name, each in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if each.kind is each.VAR_POSITIONAL or each.kind is each.KEYWORD_ONLY:
            if each.kind is each.KEYWORD_ONLY and not star:
                shown.append("*")
            star = True
        prefix = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(each.kind.name, "")
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        default = "" if each.default is each.empty else f" = {'…' if callable(each.default) else repr(each.default)}"
        shown.append(f"{prefix}{name}{kind}{default}")
    return ", ".join(shown)


def returned(function: Callable[..., Any]) -> str:
    found = inspect.signature(function).return_annotation
    return "" if found in (inspect.Signature.empty, "None") else f" -> {found}"


def document(thing: Any) -> list[str]:
    return (inspect.getdoc(thing) or "").splitlines()


def function_lines(function: Callable[..., Any], named: str, parameters: str | None = None) -> list[str]:
    given = signature(function) if parameters is None else parameters
    gives = returned(function) if parameters is None else ""
    return ["```python", f"{named}({given}){gives}", "```", "", *document(function)]


def class_parts(kind: type, base: type | None = None, named: str = "") -> Iterator[list[str]]:
    """A class with what it holds and what it does, in the order of its source."""
    title = named or f"headway.{kind.__name__}"
    made = [] if named else ["```python", f"{title}({signature(kind.__init__)})", "```", ""]  # type: ignore[misc]
    yield [f"### {title}", "", *made, *document(kind)]
    for holder in filter(None, (base, kind)):
        for name, member in vars(holder).items():
            if not name.startswith("_") and name not in NOT_FOR_PROGRAMS:
                yield member_lines(name, member)


def member_lines(name: str, member: Any) -> list[str]:
    if isinstance(member, property):
        assert member.fget is not None
        return [f"`.{name}`{f' ({kind})' if (kind := returned(member.fget).removeprefix(' -> ')) else ''}: "
                + " ".join(document(member))]  # fmt: skip
    return [f"`.{name}({signature(member)}){returned(member)}`", "", *document(member)]


def part_of_client(name: str) -> list[str]:
    """What lies behind a property of the client, as a list."""
    found = getattr(headway.Client, name)
    lines = [f"### Client().{name}", "", *document(found), ""]
    for each, member in vars(type(found.fget(SimpleNamespace(link=None)))).items():
        if not each.startswith("_") and callable(member):
            says = " ".join(document(member))
            lines.append(f"- `{each}({signature(member)}){returned(member)}`{': ' + says if says else ''}")
    return lines


def asyncio_lines() -> list[str]:
    twins = {"Client": "AsyncClient", "JobHandle": "AsyncJobHandle", "Executor": "AsyncExecutor"}
    twins["FunctionCall"] = "AsyncFunctionCall"
    rows = [f"| `headway.{one}` | `headway.{other}` |" for one, other in twins.items()]
    return [
        "The twins have the same methods with the same parameters. They are awaited; what yields (`logs`, `events`, "
        "`artifact_pieces`) is read with `async for`. `close` is `aclose`, and `async with` calls it.",
        "",
        "| blocking | for asyncio |",
        "|---|---|",
        *rows,
        "| `fit.remote(4)`, `fit.spawn(4)` | `await fit.remote.aio(4)`, `await fit.spawn.aio(4)` |",
        "| `for value in fit.map([2, 3])` | `async for value in fit.map.aio([2, 3])` |",
        "| `for job in headway.as_completed(jobs)` | `async for job in client.as_completed(jobs)` |",
        "",
        *document(headway.AsyncClient),
    ]


def error_lines() -> list[str]:
    rows = [
        f"| `headway.{each.__name__}` | {parent(each)} | {' '.join(document(each)).replace('|', chr(92) + '|')} |"
        for each in ERRORS
    ]
    return [
        "Every error has a `message` for people and a `hint` that says what to do (empty where there is none).",
        "",
        "| error | is a | what is wrong |",
        "|---|---|---|",
        *rows,
    ]


def parent(kind: type[HeadwayError]) -> str:
    return f"`{kind.__mro__[1].__name__}`"


def inside_lines(name: str) -> list[str]:
    thing = getattr(headway, name)
    if isinstance(thing, type):
        return [f"### headway.{name}", "", *document(thing)]
    return [f"### headway.{name}", "", *function_lines(thing, f"headway.{name}")]
