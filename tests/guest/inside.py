"""What runs in the guest: every check of one part in turn, one line of JSON for each."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable

from tests import waiting
from tests.guest import groups, services

# Beside other work of a busy machine, the longest wait takes some ten seconds. Where one was in vain, something is
# broken that others wait for in vain too.
PATIENCE_S, PATIENCE_LEFT_S = 120.0, 40.0
PARTS = {"groups": groups, "services": services}


def checks(part: str) -> dict[str, Callable[[], None]]:
    return {name: found for name, found in vars(PARTS[part]).items() if name.startswith("check_")}


def main(part: str) -> None:
    waiting.PATIENCE_S = PATIENCE_S
    for name, check in checks(part).items():
        began_at = time.monotonic()
        try:
            check()
            wrong = ""
        except BaseException:  # Whatever it is, the host is to read it.
            wrong = traceback.format_exc()
            waiting.PATIENCE_S = PATIENCE_LEFT_S
        took_s = round(time.monotonic() - began_at, 1)
        sys.stdout.write(json.dumps({"check": name, "wrong": wrong, "took_s": took_s}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
