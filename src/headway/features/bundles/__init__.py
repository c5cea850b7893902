"""Bundles: code that was uploaded, named by its content, for jobs that do not run where it lies."""

AFTER = ""
COMMANDS: dict[str, tuple[str, str, str]] = {}
