"""Finds what defines a job's packages: uv.lock, pyproject.toml, requirements.txt, a PEP 723 header, a conda file.

Only named here, by its kind and a hash of all that enters it; the node builds it. Without a wish a job has none, and
runs with the caller's interpreter.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from headway.core.errors import BadInput

AUTO = "auto"
FILE_BYTES_MAX = 64 * 2**20
HEADER_BYTES_MAX = 256 * 2**10
HEADER = re.compile(r"(?m)^# /// script[ \t]*\r?\n(?P<content>(?:^#(?:| .*)\r?\n)+?)^# ///[ \t]*$")
INCLUDE = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)(?:\s+|=)(\S+)")
CONDA_INCLUDE = re.compile(r"""^\s*-\s+["']?(?:-r|-c|--requirement|--constraint)[ =]\s*([^\s"'#]+)""")
INCLUDES_MAX = 100
DISTRIBUTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
CONDA = ("environment.yml", "environment.yaml", "conda.yml", "conda.yaml")


def resolve(wish: object, base: str, workdir: str, script: str | None) -> dict[str, str]:
    """The environment that a wish stands for: `auto`, a file, or its parts; paths are made relative to `base`."""
    if isinstance(wish, Mapping):
        return _completed(dict(wish), base)
    if not isinstance(wish, str) or not wish:
        raise BadInput(f'environment: "{str(wish)[:80]}" is neither auto nor a file')
    found = _detect(base, workdir, script) if wish == AUTO else _named(wish, workdir)
    kind, path = found
    inner = os.path.relpath(path, base)
    if inner.startswith(".."):
        raise BadInput(f"environment: {path} is outside {base}", "bundle the project (--bundle), or move the file")
    if kind in ("uv-lock", "pyproject"):
        _check_project(kind, path)
    return {"kind": kind, "path": inner, "digest": digest(kind, path)}


def digest(kind: str, path: str) -> str:
    """A hash of everything that defines the environment; the same content gives the same, wherever it lies."""
    total = hashlib.sha256(kind.encode() + b"\0")
    for name, content in _parts(kind, path):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _completed(wish: dict[str, Any], base: str) -> dict[str, Any]:
    kind, path = wish.get("kind"), wish.get("path")
    if wish.get("digest") or not isinstance(kind, str) or not isinstance(path, str) or not path:
        return wish  # Complete already, or not to be understood: core/spec/job.py says what is wrong.
    return {**wish, "digest": digest(kind, os.path.join(base, path))}


def _detect(base: str, workdir: str, script: str | None) -> tuple[str, str]:
    """The most particular wins: the script's own header, then a lock file, the project, a list, a conda file."""
    if script is not None:
        path = os.path.join(workdir, script)
        if script.endswith(".py") and _header(path):
            return "pep723", path
    for folder in _upwards(workdir, base):
        for name in ("uv.lock", "pyproject.toml", "requirements.txt", *CONDA):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (name != "pyproject.toml" or _has_project(path)):
                return _kind_of(path), path
    raise BadInput(
        f"environment: nothing in {workdir} says which packages are needed",
        "auto looks for a PEP 723 header, uv.lock, pyproject.toml, requirements.txt and environment.yml",
    )


def _named(wish: str, workdir: str) -> tuple[str, str]:
    path = os.path.normpath(os.path.join(workdir, os.path.expanduser(wish)))
    if not os.path.isfile(path):
        raise BadInput(f'environment: no file "{wish[:200]}" in {workdir}', 'use "auto" to look for one')
    kind = _kind_of(path)
    if kind == "pep723" and not _header(path):
        raise BadInput(f'environment: "{wish[:200]}" has no "# /// script" header')
    return kind, path


def _kind_of(path: str) -> str:
    name = os.path.basename(path)
    if name == "uv.lock":
        return "uv-lock"
    if name == "pyproject.toml":
        return "pyproject"
    for ending, kind in ((".py", "pep723"), ((".yml", ".yaml"), "conda"), ((".txt", ".in"), "requirements")):
        if name.endswith(ending):
            return str(kind)
    raise BadInput(
        f'environment: what "{name[:200]}" is cannot be told from its name',
        "uv.lock, pyproject.toml, requirements.txt, a .py with a PEP 723 header, or environment.yml",
    )


def _upwards(workdir: str, base: str) -> Iterator[str]:
    place = os.path.abspath(workdir)
    while True:
        yield place
        if place == os.path.abspath(base) or place == os.path.dirname(place):
            return
        place = os.path.dirname(place)


def _parts(kind: str, path: str) -> Iterator[tuple[str, bytes]]:
    folder = os.path.dirname(path)
    if kind == "pep723":
        yield "script", _header(path).encode()
        if os.path.isfile(path + ".lock"):
            yield "script.lock", _read(path + ".lock")
        return
    if kind == "requirements":
        yield from _requirements(path, folder, set())
        return
    yield os.path.basename(path), _read(path)
    if kind == "conda":
        for name in _included(_read(path), CONDA_INCLUDE):
            yield from _requirements(os.path.normpath(os.path.join(folder, name)), folder, set())
    if kind in ("uv-lock", "pyproject"):
        for name in ("pyproject.toml", ".python-version"):
            beside = os.path.join(folder, name)
            if name != os.path.basename(path) and os.path.isfile(beside):
                yield name, _read(beside)


def _requirements(path: str, base: str, seen: set[str]) -> Iterator[tuple[str, bytes]]:
    """A list of requirements, and those that it takes in."""
    if path in seen:
        return
    seen.add(path)
    if len(seen) > INCLUDES_MAX:
        raise BadInput(f"environment: {base} takes in more than {INCLUDES_MAX} lists")
    content = _read(path)
    yield os.path.relpath(path, base), content
    for name in _included(content, INCLUDE):
        yield from _requirements(os.path.normpath(os.path.join(os.path.dirname(path), name)), base, seen)


def _included(content: bytes, line_of: re.Pattern[str]) -> list[str]:
    """The lists that are taken in by this one, as it names them."""
    found = [line_of.match(line) for line in content.decode("utf-8", "replace").splitlines()]
    return [match.group(1) for match in found if match and "://" not in match.group(1)]


def _check_project(kind: str, path: str) -> None:
    """Refuse what would make an environment without the project's packages, before a job runs in one."""
    beside = os.path.join(os.path.dirname(path), "pyproject.toml")
    if not os.path.isfile(beside):
        raise BadInput(f"environment: {path} needs the pyproject.toml that it was made from", "put it beside uv.lock")
    project = _toml(beside).get("project")
    if kind == "pyproject":
        if project is None:
            raise BadInput(f"environment: {path} has no [project], and so names no packages")
        return
    locked = {_plain(str(package.get("name"))) for package in _toml(path).get("package") or ()}
    for needed in (project or {}).get("dependencies") or ():
        name = DISTRIBUTION.match(str(needed))
        # With a marker it may be left out of the lock for a reason.
        if name and ";" not in needed and _plain(name[0]) not in locked:
            raise BadInput(f'environment: {path} is older than its project: it lacks "{name[0]}"', "run `uv lock`")


def _plain(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _header(path: str) -> str:
    """The PEP 723 block of a script, or nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = HEADER.search(file.read(HEADER_BYTES_MAX))
    except OSError:
        return ""
    return match.group("content") if match else ""


def _has_project(path: str) -> bool:
    """Whether it describes a project, and not only the settings of some tools."""
    return "project" in _toml(path)


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_read(path).decode("utf-8", "replace"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not valid TOML: {error}") from None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(f'environment: "{path}" cannot be read: {(error.strerror or str(error)).lower()}') from None
    if len(content) > FILE_BYTES_MAX:
        raise BadInput(f"environment: {path} is larger than {FILE_BYTES_MAX:,} bytes")
    return content
