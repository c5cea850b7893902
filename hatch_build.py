"""The version of a build, from git: two builds of different code have different versions.

`0.1.0` where the tag v0.1.0 is built as it stands, else `0.1.0.dev812+g1a2b3c4d5`, with a mark of what was changed.
Without git (an sdist, a copied folder) the version is the one that the sdist bears, or the plain number. What
BUILD_VERSION says goes before all.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
NUMBER = re.compile(r'^_NUMBER = "([^"]+)"', re.MULTILINE)
NAMED = re.compile(r"^Version: (\S+)$", re.MULTILINE)


def version(root: Path = ROOT) -> str:
    found = NUMBER.search((root / "src/headway/__init__.py").read_text())
    assert found, "src/headway/__init__.py has no _NUMBER"
    number = found.group(1)
    if os.environ.get("BUILD_VERSION"):
        return os.environ["BUILD_VERSION"]
    if (root / "PKG-INFO").exists():
        named = NAMED.search((root / "PKG-INFO").read_text())
        return named.group(1) if named else number
    top = _git(root, "rev-parse", "--show-toplevel")
    if not top or not os.path.samefile(top, root):
        return number  # No git, or somebody else's repository around a copy of this.
    changed = _git(root, "diff", "HEAD", "--binary")
    if not changed and f"v{number}" in _git(root, "tag", "--points-at", "HEAD").split():
        return number
    mark = f".d{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else ""
    return (
        f"{number}.dev{_git(root, 'rev-list', '--count', 'HEAD')}+g{_git(root, 'rev-parse', '--short=9', 'HEAD')}{mark}"
    )


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the version into the wheel, where the program reads it. A checkout that is installed as it lies has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or self.target_name != "wheel":
            return
        handle, self._file = tempfile.mkstemp(suffix=".py")
        with open(handle, "w") as file:
            file.write(f'VERSION = "{self.metadata.version}"\n')
        os.chmod(self._file, 0o644)
        build_data["force_include"][self._file] = "headway/_version.py"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_file"):
            os.unlink(self._file)
