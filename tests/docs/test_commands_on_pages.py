"""Every command that a page shows is one that the command line understands today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.cli.frame.test_help import parse

DOCS = Path(__file__).resolve().parents[2] / "docs"
# Decisions tell of their time; the reference is written by the program itself.
PAGES = [page for room in ("tutorial", "how-to", "explanation") for page in sorted((DOCS / room).glob("*.md"))]
TYPED = re.compile(r"^\$ (.*)$", re.MULTILINE)
IN_A_TABLE = re.compile(r"`(headway [^`]*)`")
SHELL = {">", "<", "|", "||", "&&", ";", "&"}


def commands(page: Path) -> list[str]:
    text = re.sub(r"\\\n *", " ", page.read_text())  # A line that goes on.
    found = TYPED.findall(text)
    # A note after some spaces is not typed.
    lines = [re.split(r" {3,}", line)[0] for line in found]
    return lines + (IN_A_TABLE.findall(text) if page.name == "coming-from-elsewhere.md" else [])


def words_of(line: str) -> list[list[str]]:
    """The commands of Headway on a line, as a shell would part them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
    lexer.whitespace_split = True
    parted: list[list[str]] = [[]]
    for word in lexer:
        if word in SHELL:
            parted.append([])
        else:
            parted[-1].append(word)
    return [words[1:] for words in parted if words[:1] == ["headway"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_parser_takes_every_command_of_the_page(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for line in commands(page):
        for words in words_of(line):
            try:
                parse(words)
            except click.BadParameter as error:
                if "does not exist" not in error.message:  # A file of the reader's.
                    wrong.append(f"{line}: {error.message}")
            except click.ClickException as error:
                wrong.append(f"{line}: {error.message}")
            except click.exceptions.Exit:
                pass  # --help
    assert wrong == []
