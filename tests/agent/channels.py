"""Conda channels as folders: real packages in both formats, made here, with the index that a channel has."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUBDIR = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}.get(platform.machine(), "linux-64")
# What stands in a package where the environment's own path will stand; longer than any path that tests make.
PLACEHOLDER = "/placeholder" * 20
BLOCK_BYTES_MAX = 128 * 2**10
PYTHON = ".".join(map(str, sys.version_info[:3]))
SHORT = ".".join(map(str, sys.version_info[:2]))


@dataclass(frozen=True)
class Link:
    to: str


@dataclass
class Package:
    """One package: `files` by their path in the environment; a text that has the placeholder gets the real path."""

    name: str
    version: str
    files: Mapping[str, str | Link] = field(default_factory=dict)
    depends: tuple[str, ...] = ()
    noarch: str = ""  # "python": its files lie where the environment's Python looks for packages.
    entry_points: tuple[str, ...] = ()
    build: str = "0"

    @property
    def subdir(self) -> str:
        return "noarch" if self.noarch else SUBDIR

    def index(self) -> dict[str, Any]:
        said = {"name": self.name, "version": self.version, "build": self.build, "build_number": 0,
                "depends": list(self.depends), "subdir": self.subdir}  # fmt: skip
        return {**said, "noarch": self.noarch} if self.noarch else said

    def info(self) -> dict[str, str | Link]:
        found: dict[str, str | Link] = {
            "info/index.json": json.dumps(self.index()),
            "info/paths.json": json.dumps({"paths_version": 1, "paths": [self._path(name) for name in self.files]}),
            "info/files": "".join(f"{name}\n" for name in self.files),
        }
        if self.noarch:
            said = {"type": self.noarch, "entry_points": list(self.entry_points)}
            found["info/link.json"] = json.dumps({"noarch": said, "package_metadata_version": 1})
        return found

    def _path(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        if isinstance(content, Link):
            return {"_path": name, "path_type": "softlink"}
        data = content.encode()
        said = {"_path": name, "path_type": "hardlink", "sha256": hashlib.sha256(data).hexdigest()}
        said |= {"size_in_bytes": len(data)}
        return {**said, "file_mode": "text", "prefix_placeholder": PLACEHOLDER} if PLACEHOLDER in content else said


class Channel:
    """A folder that is a channel: the packages of each platform, and an index of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listed: dict[str, dict[str, dict[str, Any]]] = {"noarch": {}, SUBDIR: {}}
        self._write_index()

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def add(self, package: Package, ending: str = ".conda") -> Path:
        """Put a package into the channel, as `.conda` or `.tar.bz2`, and return its file."""
        stem = f"{package.name}-{package.version}-{package.build}"
        if ending == ".conda":
            data = _conda(stem, package)
        else:
            data = bz2.compress(_tar({**package.info(), **package.files}))
        file = self.folder / package.subdir / (stem + ending)
        file.write_bytes(data)
        noted = {"sha256": hashlib.sha256(data).hexdigest(), "md5": hashlib.md5(data).hexdigest(), "size": len(data)}
        self.listed[package.subdir][file.name] = {**package.index(), **noted}
        self._write_index()
        return file

    def _write_index(self) -> None:
        for subdir, packages in self.listed.items():
            (self.folder / subdir).mkdir(parents=True, exist_ok=True)
            old = {name: said for name, said in packages.items() if name.endswith(".tar.bz2")}
            new = {name: said for name, said in packages.items() if name.endswith(".conda")}
            index = {"info": {"subdir": subdir}, "packages": old, "packages.conda": new, "repodata_version": 1}
            (self.folder / subdir / "repodata.json").write_text(json.dumps(index))


def a_python() -> Package:
    """This Python as a package: the environment becomes a virtual environment of the interpreter that runs us."""
    base = os.path.realpath(sys.executable)
    files: dict[str, str | Link] = {
        "pyvenv.cfg": f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\nversion = {PYTHON}\n",
        f"bin/python{SHORT}": Link(base),
        "bin/python3": Link(f"python{SHORT}"),
        "bin/python": Link(f"python{SHORT}"),
    }
    return Package("python", PYTHON, files)


def a_module(name: str, version: str, depends: tuple[str, ...] = ("python",)) -> Package:
    """A package of one module that knows its version, for any platform, with a command."""
    text = f'VERSION = "{version}"\n\n\ndef main():\n    print("{name}", VERSION)\n'
    files = {f"site-packages/{name}.py": text}
    return Package(name, version, files, depends, noarch="python", entry_points=(f"{name}-tool = {name}:main",))


def _tar(files: Mapping[str, str | Link]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if name.startswith("bin/") else 0o644
            if isinstance(content, Link):
                entry.type, entry.linkname = tarfile.SYMTYPE, content.to
                archive.addfile(entry)
            else:
                entry.size = len(content.encode())
                archive.addfile(entry, io.BytesIO(content.encode()))
    return packed.getvalue()


def _conda(stem: str, package: Package) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        archive.writestr(f"pkg-{stem}.tar.zst", _zst(_tar(package.files)))
        archive.writestr(f"info-{stem}.tar.zst", _zst(_tar(package.info())))
    return packed.getvalue()


def _zst(data: bytes) -> bytes:
    """The data in Zstandard's format, stored and not compressed: Python's library cannot write it before 3.14."""
    frame = bytearray(b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little"))
    parts = [data[at : at + BLOCK_BYTES_MAX] for at in range(0, len(data), BLOCK_BYTES_MAX)] or [b""]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        frame += (len(part) << 3 | last).to_bytes(3, "little") + part
    return bytes(frame)
