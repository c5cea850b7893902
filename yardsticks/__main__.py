"""`python -m yardsticks`: replay the public logs and write docs/reference/yardsticks.md, published figures beside ours.

`--quick` takes a slice of each log and writes nothing. Logs that are not there are named and left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from yardsticks import logs, measure
from yardsticks.page import Table, page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "yardsticks.md"


def say(words: str) -> None:
    sys.stderr.write(f"yardsticks: {words}\n")
    sys.stderr.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m yardsticks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a slice of each log; print, write nothing")
    parser.add_argument("only", nargs="*", metavar="LOG", help="only these: kth, lublin, tiresias")
    asked = parser.parse_args()
    yardsticks: dict[str, tuple[Path, Callable[[bool], Table]]] = {
        "kth": (logs.KTH, measure.kth),
        "lublin": (logs.LUBLIN, measure.lublin),
        "tiresias": (logs.TIRESIAS, measure.tiresias),
    }
    tables: list[Table] = []
    skipped: list[str] = []
    for name, (log, run) in yardsticks.items():
        if asked.only and name not in asked.only:
            continue
        if not log.exists():
            skipped.append(f"{name}: there is no {log.name} in {log.parent.name}/")
            say(f"left out: {skipped[-1]}")
            continue
        began = time.monotonic()
        tables.append(run(asked.quick))
        say(f"{name} took {time.monotonic() - began:.0f} s")
    text = page(tables, skipped)
    sys.stdout.write(text)
    if not asked.quick and not asked.only and tables and not skipped:
        PAGE.write_text(text, encoding="utf-8")
        say(f"wrote {PAGE.name}")
    return 0 if all(table.met for table in tables) or asked.quick else 1


if __name__ == "__main__":
    sys.exit(main())
