"""The agent as one file that any Python 3.8 can run: what the server hands out at /agent.pyz.

With it travels a light copy of the SDK, which the agent puts in the way of every job. The same sources give the same
bytes, and so the same version, wherever and whenever it is packed.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGE, WIRE = "headway_agent", "headway_wire"
SHIM = "headway_shim"
MAIN = f"import sys\n\nfrom {PACKAGE}.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"
# By these, libraries that ask installed packages for their part find ours in the copy of the SDK.
ENTRY_POINTS = """\
[lightning.pytorch.callbacks_factory]
headway = headway_lightning_steps:for_lightning

[pytorch_lightning.callbacks_factory]
headway = headway_lightning_steps:for_pytorch_lightning
"""
METADATA = "Metadata-Version: 2.1\nName: headway-shim\nVersion: 0\n"
# The earliest time that a zip file can hold: no clock may enter the bytes.
STAMP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class AgentZip:
    data: bytes
    version: str  # The SHA-256 of the data.


def build() -> AgentZip:
    """Pack the installed agent."""
    sources = {f"{name}/": files(name) for name in (PACKAGE, WIRE)}
    found = {path: content for prefix, folder in sources.items() for path, content in _sources(folder, prefix).items()}
    return pack({"__main__.py": MAIN.encode(), **found, **shim()})


def shim() -> dict[str, bytes]:
    """What `import headway` finds in a job whose interpreter has none: the names, and headway.training."""
    ours = files("headway")
    found = {"headway/__init__.py": (ours / "__init__.py").read_bytes()}
    found |= _sources(ours / "training", "headway/training/")
    found["headway_lightning_steps.py"] = (ours / "training/lightning_steps.py").read_bytes()
    for name, text in (("METADATA", METADATA), ("entry_points.txt", ENTRY_POINTS)):
        found[f"{SHIM}-0.dist-info/{name}"] = text.encode()
    index = "".join(f"{name}\n" for name in sorted(found))
    return {f"{SHIM}/{name}": content for name, content in found.items()} | {f"{SHIM}/INDEX": index.encode()}


def pack(sources: dict[str, bytes]) -> AgentZip:
    packed = io.BytesIO()
    packed.write(b"#!/usr/bin/env python3\n")
    # Stored, not deflated: compressors differ from machine to machine, and the agent starts a little sooner.
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(name, STAMP)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, sources[name])
    data = packed.getvalue()
    return AgentZip(data, hashlib.sha256(data).hexdigest())


def _sources(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found |= _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            found[prefix + entry.name] = entry.read_bytes()
    return found
