"""The guest's whole file system as one archive that a kernel unpacks into memory: this machine's Python, and us."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parents[2]
NOT_NEEDED = re.compile(
    r"test|tests|idlelib|tkinter|turtledemo|lib2to3|ensurepip|site-packages|config-.*|.*\.a|.*\.opt-\d\.pyc"
)
NEWC = "070701"  # The only kind of cpio archive that Linux unpacks.


def python() -> str:
    """The interpreter that the checks run on: the one of these tests, without its environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def write(path: Path, programs: Sequence[str], extra: dict[str, Path]) -> None:
    """Make the archive: Python with its library and these programs at their own places, us in /headway, `extra`."""
    found = {name: Path(name) for name in (python(), *programs)} | extra
    found["/init"] = ROOT / "tests/guest/init.sh"
    found["/etc/systemd/system/lab.service"] = ROOT / "tests/guest/lab.service"
    library = sysconfig.get_paths(vars={"base": sys.base_prefix})["stdlib"]
    found |= {str(file): file for file in _below(Path(library))}
    for program in [python(), *programs, *(name for name in found if name.endswith(".so"))]:
        found |= {name: Path(name) for name in _libraries(program)}
    for place in ("src/headway_agent", "src/headway_wire", "tests/guest"):
        found |= {f"/headway/{file.relative_to(ROOT)}": file for file in _below(ROOT / place)}
    names = ["tests/__init__.py", "tests/waiting.py"]
    names += [f"tests/agent/{name}" for name in ("__init__.py", "home.py", "sealed_home.py")]
    for name in names:
        found[f"/headway/{name}"] = ROOT / name
    with open(path, "wb") as file:
        _write_all(file, found)


def _below(top: Path) -> Iterator[Path]:
    for entry in sorted(top.iterdir()):
        if NOT_NEEDED.fullmatch(entry.name):
            continue
        if entry.is_dir():
            yield from _below(entry)
        elif entry.is_file():
            yield entry


def _libraries(program: str) -> list[str]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


def _write_all(file: BinaryIO, found: dict[str, Path]) -> None:
    folders = {"/proc", "/sys", "/dev", "/tmp", "/etc"}
    folders |= {str(folder) for name in found for folder in Path(name).parents if str(folder) != "/"}
    for folder in sorted(folders):  # Parents sort before what is in them.
        _entry(file, folder, stat.S_IFDIR | 0o755, 0, b"")
    for name, source in found.items():
        # The time of a source is what its compiled form is known by: without it, Python would compile all anew.
        found_stat = source.stat()
        executable = name == "/init" or found_stat.st_mode & 0o100
        _entry(
            file, name, stat.S_IFREG | (0o755 if executable else 0o644), int(found_stat.st_mtime), source.read_bytes()
        )
    _entry(file, "/dev/console", stat.S_IFCHR | 0o600, 0, b"", device=(5, 1))
    _entry(file, "TRAILER!!!", 0, 0, b"")


def _entry(file: BinaryIO, name: str, mode: int, time_s: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
    label = name.lstrip("/").encode() + b"\0"
    fields = (file.tell() + 1, mode, 0, 0, 1, time_s, len(data), 0, 0, *device, len(label), 0)
    file.write(NEWC.encode() + b"".join(b"%08X" % field for field in fields) + label)
    for part in (b"", data):  # Header with name, and content, each end at a multiple of four.
        file.write(part)
        file.write(b"\0" * (-file.tell() % 4))
