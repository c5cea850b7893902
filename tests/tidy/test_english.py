"""What people read is plain English, as docker, kubectl or uv would say it: a few habits that read as foreign stay out.

Looked at are the pages, docstrings and every text in the code. Decisions and the changelog tell of their time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.test_house_rules import ROOT, none_of

HABITS = {
    r"(?<!here )\b(is|are) no (?!longer|more\b|good|such|different|use\b|need|less|better|news|proof)[a-z]+": (
        "say what it is not: is not a …"
    ),
    r"\b(he|him|his|himself)\b": "say who it is, or they",
    r"\bmend(s|ed|ing)?\b": "fix or repair",
    r"\bgo(es)? (his|their|its) way\b": "release, continue",
    r"\bwhich one\?": "say that several are possible, and how one is chosen",
    r"\bthat cannot be[.,;:]": "impossible",
    r"\bhalf of a character\b": "an unpaired surrogate",
    r"\bnot? name for an?\b": "is not a valid name",
    r"\bcomputed something\b": "say what: NaN, Inf",
}
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts)
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a file that a person may read, with its line."""
    if path.suffix == ".md":
        yield from enumerate(path.read_text().split("\n"), start=1)
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def test_texts_are_free_of_foreign_habits() -> None:
    rules = [(re.compile(habit), better) for habit, better in HABITS.items()]
    found = [
        f'{path.relative_to(ROOT)}:{line}: "{met.group(0)}"; {better}'
        for path in (*PAGES, *SOURCES, ROOT / "README.md")
        for line, text in texts(path)
        for rule, better in rules
        if (met := rule.search(text))
    ]
    none_of(found, "English that reads as foreign")
