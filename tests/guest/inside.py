"""What runs in the guest: every check of limits.py in turn, one line of JSON for each."""

from __future__ import annotations

import json
import sys
import time
import traceback

from tests.guest import limits


def main() -> None:
    for name, check in limits.CHECKS.items():
        began_at = time.monotonic()
        try:
            check()
            wrong = ""
        except BaseException:  # Whatever it is, the host is to read it.
            wrong = traceback.format_exc()
        took_s = round(time.monotonic() - began_at, 1)
        sys.stdout.write(json.dumps({"check": name, "wrong": wrong, "took_s": took_s}) + "\n")
        sys.stdout.flush()


main()
