"""What `doctor` says of something that was looked at: each engine says it of its own hosts and platform."""

from __future__ import annotations

DISK_WARN_BYTES = 5 * 2**30
DISK_FAIL_BYTES = 200 * 2**20

Check = dict[str, str]


def check(what: str, verdict: str, found: str, remedy: str = "") -> Check:
    """One thing that was looked at; the verdict is ok, warn or fail."""
    return {"what": what, "verdict": verdict, "found": found, "remedy": remedy}
