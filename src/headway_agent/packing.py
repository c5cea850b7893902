"""Packs the agent into one zipapp, the same bytes for the same sources, and names it by its content.

`python -m headway_agent.packing TARGET` writes it. Bytecode for the packing Python is put in beside the sources, so
that a node with the same version starts faster; any other compiles the sources.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAIN = b"import sys\nfrom headway_agent.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(target: str) -> str:
    """Write the zipapp and return its version, the sha256 of its content."""
    here = os.path.dirname(os.path.abspath(__file__))
    fresh = f"{target}.new-{os.getpid()}"
    with open(fresh, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, "__main__.py", MAIN)
            for name in sorted(os.listdir(here)):
                if name.endswith(".py") and name != "packing.py":
                    with open(os.path.join(here, name), "rb") as source:
                        content = source.read()
                    _add(archive, f"headway_agent/{name}", content)
                    _add(archive, f"headway_agent/{name}c", _bytecode(content, f"headway_agent/{name}"))
    os.replace(fresh, target)
    return version_of(target)


def version_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _bytecode(source: bytes, name: str) -> bytes:
    import importlib._bootstrap_external as external  # The only maker of hash-checked bytecode in memory.

    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    to_bytes: Any = external._code_to_hash_pyc  # type: ignore[attr-defined]
    return bytes(to_bytes(code, importlib.util.source_hash(source), False))


if __name__ == "__main__":
    sys.stdout.write(pack(sys.argv[1]) + "\n")
