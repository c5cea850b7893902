"""Examples at the end of a command's help, which a test types into the real parser."""

from __future__ import annotations

HEAD = "Examples:"


def examples(*lines: str) -> str:
    """For `epilog=`. What follows two spaces and # in a line says what it does."""
    width = max(len(line.partition("  # ")[0]) for line in lines)
    shown = []
    for line in lines:
        typed, mark, says = line.partition("  # ")
        shown.append(f"  {typed:<{width}}  # {says}" if mark else f"  {typed}")
    return "\n".join(["\b", HEAD, *shown])


def typed(epilog: str | None) -> list[str]:
    """The commands that an epilog shows."""
    lines = (epilog or "").partition(HEAD)[2].splitlines()
    return [line.partition("  # ")[0].strip() for line in lines if line.strip()]
