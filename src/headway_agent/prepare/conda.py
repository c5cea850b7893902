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

from headway_agent.node.directory import write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping, Sequence

NAMES = ("micromamba", "mamba", "conda")
ANY = "micromamba, mamba, conda or uv"
RATTLER = "rattler"  # As HEADWAY_AGENT_CONDA: use it even where there is a conda.
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
INCLUDED = re.compile(r"""(?m)^\s*-\s+["']?(?:-r|-c|--requirement|--constraint)[ =]\s*([^\s"'#]+)""")
# However a script ends, what it has set until then is told.
ACTIVATE = """tell=$(command -v env)
export CONDA_PREFIX="$1" PATH="$1/bin:$PATH"
"$tell" -0
printf 'then\\0'
trap '"$tell" -0; exit 0' EXIT
for script in "$1"/etc/conda/activate.d/*.sh; do . "$script" >/dev/null 2>&1; done
"""
OF_THE_SHELL = ("PATH", "PWD", "OLDPWD", "SHLVL", "_")
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
    content = pkgutil.get_data("headway_agent.prepare", "conda_script.py") or b""
    path = os.path.join(cache_dir, "tools", f"conda-{hashlib.sha256(content).hexdigest()[:12]}.py")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_durably(path, content)
    return path


def included(content: str) -> list[str]:
    """The lists of requirements that the pip section takes in."""
    return [name for name in INCLUDED.findall(content) if "://" not in name]


def activated(home: str, run: Callable[[Sequence[str]], str]) -> dict[str, str]:
    """What activating the environment would set: its variables, and whatever its packages' scripts set. PATH aside."""
    wanted = _variables(home)
    scripts = os.path.join(home, "etc/conda/activate.d")
    if not os.path.isdir(scripts):
        return wanted
    given = [f"{name}={value}" for name, value in wanted.items()]
    shell = "bash" if shutil.which("bash", path=DEFAULT_PATH) else "sh"
    before, _, after = run(["env", *given, shell, "-c", ACTIVATE, "activate", home]).partition("then\0")
    known = before.split("\0")
    for entry in after.split("\0"):
        name, _, value = entry.partition("=")
        if name.isidentifier() and entry not in known and name not in OF_THE_SHELL:
            wanted[name] = value
    return wanted


def _variables(home: str) -> dict[str, str]:
    """Those of packages, then those of the file's `variables`; the latter lie where conda keeps them too."""
    packages = os.path.join(home, "etc/conda/env_vars.d")
    names = sorted(os.listdir(packages)) if os.path.isdir(packages) else []
    found: dict[str, str] = {}
    for name in names:
        found.update(_strings(os.path.join(packages, name)))
    found.update(_strings(os.path.join(home, "conda-meta/state"), "env_vars"))
    return {name: value for name, value in found.items() if value != UNSET}


def _strings(path: str, part: str = "") -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        return {str(name): str(value) for name, value in dict(said[part] if part else said).items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # There is none, or it is none that conda would understand.
