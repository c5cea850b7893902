"""Which command makes an environment from a conda file, what the file takes in, and what a made one wants to be set.

The node's own micromamba, mamba or conda comes first: whoever installed it has told it of mirrors, keys and licences.
Where there is none, uv runs conda_script.py, which brings rattler as its solver.
"""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import re
import shutil

from headway_agent.nodedir import write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping, Sequence

NAMES = ("micromamba", "mamba", "conda")
ANY = "micromamba, mamba, conda or uv"
RATTLER = "rattler"  # As HEADWAY_AGENT_CONDA: use it even where there is a conda.
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
INCLUDED = re.compile(r"""(?m)^\s*-\s+["']?(?:-r|-c|--requirement|--constraint)[ =]\s*([^\s"'#]+)""")
UNSET = "***unset***"  # How conda notes that a variable is to be taken away.


def command(
    file: str, home: str, environ: Mapping[str, str], cache_dir: str, uv: Callable[[], Sequence[str]]
) -> list[str]:
    """What makes the environment; `uv` finds uv, and is asked only where it is needed."""
    tool = _tool(environ)
    if not tool:
        script = _script(cache_dir)
        # Neither the project's settings nor the Python that is wished for the job are meant for the solver.
        words = ["run", "--quiet", "--directory", os.path.dirname(script), "--python", ">=3.11", "--script", script]
        return [*uv(), *words, file, home]
    words = ["create", "-y"] if os.path.basename(tool) == "micromamba" else ["env", "create", "-q"]
    return [tool, *words, "-p", home, "-f", file]


def _tool(environ: Mapping[str, str]) -> str:
    said = environ.get("HEADWAY_AGENT_CONDA", "")
    if said:
        return "" if said == RATTLER else said
    path = environ.get("PATH") or DEFAULT_PATH
    return next(filter(None, (shutil.which(name, path=path) for name in NAMES)), "")


def _script(cache_dir: str) -> str:
    """The script as a file of its own, for the agent may be a zip. Agents of two versions do not share one."""
    content = pkgutil.get_data("headway_agent", "conda_script.py") or b""
    path = os.path.join(cache_dir, "tools", f"conda-{hashlib.sha256(content).hexdigest()[:12]}.py")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_durably(path, content)
    return path


def included(content: str) -> list[str]:
    """The lists of requirements that the pip section takes in."""
    return [name for name in INCLUDED.findall(content) if "://" not in name]


def variables(home: str) -> dict[str, str]:
    """What the file's `variables` asks to be set; it is kept in the environment, where conda keeps it."""
    try:
        with open(os.path.join(home, "conda-meta/state"), encoding="utf-8") as file:
            found = json.load(file).get("env_vars") or {}
    except (OSError, ValueError, AttributeError):
        return {}
    return {str(name): str(value) for name, value in dict(found).items() if value != UNSET}
