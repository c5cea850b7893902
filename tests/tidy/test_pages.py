"""The pages that people read first: short, whole, and with links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.test_house_rules import ROOT, files, none_of, text

README_WORDS_MAX = 350
README_FIGURES_MAX = 5
CHANGE_LENGTH_MAX = 320
SECTIONS = ["Context", "Decision", "Consequences"]
NAMED = re.compile(r"`(src/[\w/.]+)`")
STATION = re.compile(r"`(src/[\w/]+\.py)` \| `(\w+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")

PAGES = [name for name in files() if name.endswith(".md")]
DECISIONS = [name for name in PAGES if re.fullmatch(r"docs/decisions/\d{4}-.*\.md", name)]


def test_the_first_page_is_read_in_two_minutes() -> None:
    page = text("README.md")
    figures = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| ---")][1:]
    assert len(page.split()) <= README_WORDS_MAX
    assert len(figures) <= README_FIGURES_MAX, "the others belong into bench/results.md"


def test_every_link_between_pages_leads_to_a_file() -> None:
    offenders = [
        f"{name}: {target}"
        for name in PAGES
        for target in LINK.findall(text(name))
        if "://" not in target and not (ROOT / Path(name).parent / target).exists()
    ]
    none_of(offenders, "links that lead nowhere")


def test_the_changelog_says_what_was_added_changed_and_fixed_in_short_lines() -> None:
    page = text("CHANGELOG.md")
    assert re.findall(r"^### (.*)$", page, re.MULTILINE)[:3] == ["Added", "Changed", "Fixed"]
    long = [line[:80] for line in page.splitlines() if len(line) > CHANGE_LENGTH_MAX]
    none_of(long, f"changes that take more than {CHANGE_LENGTH_MAX} characters to tell")


def test_decisions_have_one_template() -> None:
    offenders = []
    for name in DECISIONS:
        number = int(Path(name).name[:4])
        if not text(name).startswith(f"# {number}. "):
            offenders.append(f"{name}: its title begins with `# {number}. `")
        if [each for each in re.findall(r"^## (.*)$", text(name), re.MULTILINE) if each in SECTIONS] != SECTIONS:
            offenders.append(f"{name}: has the sections {', '.join(SECTIONS)}, in this order")
    none_of(offenders, "decision records that differ from the template in docs/decisions/README.md")


def test_every_decision_is_in_the_index_by_its_title() -> None:
    index = text("docs/decisions/README.md")
    titles = {name: text(name).splitlines()[0].partition(". ")[2] for name in DECISIONS}
    none_of(
        [name for name, title in titles.items() if f"[{title}]({Path(name).name})" not in index],
        "decisions that docs/decisions/README.md does not name",
    )
    numbers = [Path(name).name[:4] for name in DECISIONS]
    assert len(set(numbers)) == len(numbers), "two decisions with one number"


def test_every_file_that_a_page_names_is_there_and_has_the_function() -> None:
    offenders = []
    for name in PAGES:
        if name == "CHANGELOG.md" or name in DECISIONS:  # These tell of their time.
            continue
        offenders += [f"{name}: {path}" for path in NAMED.findall(text(name)) if not (ROOT / path).exists()]
        for path, function in STATION.findall(text(name)):
            if (ROOT / path).exists() and not re.search(rf"^ *def {function}\b", text(path), re.MULTILINE):
                offenders.append(f"{name}: {path} has no {function}")
    none_of(offenders, "files and functions that are not there")
