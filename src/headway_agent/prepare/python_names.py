"""Which words of a command name a Python. It imports nothing: agents load it that prepare nothing."""

from __future__ import annotations


def names_python(word: str) -> bool:
    """Whether this is any Python: `python`, `python3`, `/usr/bin/python3.11`."""
    name = word.rpartition("/")[2]
    version = name[6:]
    return name.startswith("python") and (not version or version.replace(".", "").isdigit())
