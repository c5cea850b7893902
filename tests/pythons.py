"""Other Pythons on this machine: on PATH, or kept by pyenv."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def find_python(version: str) -> str | None:
    """An interpreter of this version, such as "3.8", that really starts."""
    candidates = [shutil.which(f"python{version}") or ""]
    pyenv = shutil.which("pyenv")
    if pyenv:
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True).stdout.strip()
        candidates += [str(path) for path in sorted(Path(root, "versions").glob(f"{version}.*/bin/python{version}"))]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    return None
