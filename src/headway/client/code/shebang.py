"""The first line of a script, `#!`: which program runs it, and with which words.

Read as the kernel and `env` read it. A script that has such a line says by it how it wants to be run; script.py asks.
"""

from __future__ import annotations

import os
import shlex

from headway.core.errors import BadInput

LINE_BYTES_MAX = 4096
# An interpreter of these places is the machine's, by any name: it says "some Python", not which.
OF_THE_MACHINE = ("/bin", "/usr/bin", "/usr/local/bin")


def of_file(path: str) -> list[str]:
    """The words that stand before a script when it is run; none where it has no such line."""
    try:
        with open(path, "rb") as file:
            line = file.read(LINE_BYTES_MAX).split(b"\n", 1)[0]
    except OSError:
        return []
    return words_of(line.decode("utf-8", "replace"), os.path.basename(path))


def words_of(line: str, name: str) -> list[str]:
    """The words of one first line. After the program the kernel takes the rest as one word; `env -S` splits it."""
    if not line.startswith("#!"):
        return []
    said = line[2:].strip(" \t")
    if said.endswith("\r"):
        if not names_python(said.rstrip("\r").split()[:2]):
            raise BadInput(
                f'"{name[:80]}" has the line ends of Windows, which its interpreter does not take',
                f"convert it: sed -i 's/\\r$//' {name[:80]}",
            )
        said = said.rstrip("\r")
    program, _, rest = said.partition(" ") if " " in said else said.partition("\t")
    rest = rest.strip(" \t")
    if not program:
        return []
    if os.path.basename(program) == "env" and rest:
        return _of_env(program, rest, name)
    return [program, rest] if rest else [program]


def _of_env(program: str, rest: str, name: str) -> list[str]:
    splits = rest.startswith(("-S", "--split-string"))
    if not splits:
        # One word for the kernel: `env "python3 -u"` finds no program of that name. What was meant is plain.
        words = rest.split()
    else:
        text = rest.removeprefix("--split-string").removeprefix("-S").lstrip("= \t")
        try:
            words = shlex.split(text)
        except ValueError:
            raise BadInput(f'"{name[:80]}": its first line has a quotation mark without its other half') from None
    plain = bool(words) and not words[0].startswith("-") and "=" not in words[0]
    return words if plain else [program, *words]


def names_python(words: list[str]) -> bool:
    """Whether they ask for the machine's Python, whichever it is, rather than for one of its own place."""
    wanted = words[1:] if words and os.path.basename(words[0]) == "env" else words
    if not wanted:
        return False
    place, name = os.path.split(wanted[0])
    return name.rstrip("0123456789.") == "python" and place in ("", *OF_THE_MACHINE)
