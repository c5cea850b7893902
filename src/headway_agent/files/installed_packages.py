"""Which packages a task's Python has: read beside the task, and stored for whoever compares two jobs (`headway diff`).

It costs little: no interpreter is started and no package is read, the names of what lies in its site-packages
say it all. It is the Python that really runs that counts, whichever launcher, script or shim has started it.
"""

from __future__ import annotations

import json
import os
import re

from headway_agent.node import processes
from headway_agent.prepare.python_names import names_python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

OURS = "headway-shim"  # The copy of the SDK that every job finds: no package of its own.
PACKAGES_MAX = 5000
NAMED = re.compile(r"(?P<name>.+?)(-(?P<version>[^-]*))?(-py[\d.]+)?\.(dist|egg)-info")


def note(task: str, store: Callable[[str, bytes], Any]) -> bool:
    """Store what the task's first Python has; False where it has none by now, or storage is away."""
    seen = sorted(processes.scan(), key=lambda each: each.start)
    for pid in [each.pid for each in seen if processes.tags(each.pid).get("HEADWAY_TASK") == task]:
        found = of_process(pid)
        if found:
            job, attempt, index = task.split("/")
            try:
                store(f"jobs/{job}/{attempt}/packages/{index}.json", json.dumps(found, sort_keys=True).encode())
            except Exception:  # Nothing hangs on it: storage may be away or full, the attempt over.
                return False
            return True
    return False


def of_process(pid: int) -> dict[str, Any]:
    """The version of the Python that this process is, and its packages; nothing where it is no Python."""
    try:
        exe = os.readlink(f"/proc/{pid}/exe")
        cwd = os.readlink(f"/proc/{pid}/cwd")
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")]
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0")]
    except OSError:
        return {}  # It has ended, or is another user's.
    if not names_python(exe) or not words[0]:  # Without words it is only just beginning.
        return {}
    env = {name: value for name, _, value in pairs}
    version = version_of(exe)
    if not version:
        return {}
    places = places_of(called(exe, words[0], cwd, env.get("PATH", "")), exe, version, env, cwd)
    return {"python": version, "packages": listed(places)}


def version_of(exe: str) -> str:
    """Such as 3.11, by its name or else by its one library; empty when neither says it."""
    version = os.path.basename(exe)[len("python") :]
    if "." in version:
        return version
    try:
        names = os.listdir(f"{os.path.dirname(os.path.dirname(exe))}/lib")
    except OSError:
        return ""
    found = [match[1] for match in map(re.compile(r"python(\d+\.\d+)").fullmatch, names) if match]
    return found[0] if len(found) == 1 and found[0].startswith(version) else ""


def called(exe: str, word: str, cwd: str, path: str) -> str:
    """By which path this program was called: of a virtual environment, only that tells."""
    folders = [cwd] if "/" in word else [os.path.join(cwd, folder) for folder in path.split(":")]
    for folder in folders:
        place = os.path.join(folder, word)
        if word and os.path.realpath(place) == exe:
            return os.path.normpath(place)
    return exe


def places_of(program: str, exe: str, version: str, env: Mapping[str, str], cwd: str) -> list[str]:
    """Where this Python looks for packages, first what it finds first."""
    places = [os.path.join(cwd, folder) for folder in env.get("PYTHONPATH", "").split(":") if folder]
    base = os.path.dirname(os.path.dirname(exe))
    above = os.path.dirname(os.path.dirname(program))
    virtual = next((each for each in (os.path.dirname(program), above) if os.path.exists(f"{each}/pyvenv.cfg")), "")
    if virtual:
        places += _below(virtual, version)
    if not virtual or _sees_the_system(f"{virtual}/pyvenv.cfg"):
        if env.get("HOME") and not env.get("PYTHONNOUSERSITE"):
            places += _below(f"{env['HOME']}/.local", version)
        if base == "/usr":
            places += [f"/usr/local/lib/python{version}/dist-packages", "/usr/lib/python3/dist-packages"]
        places += _below(base, version)
    return places


def _below(prefix: str, version: str) -> list[str]:
    return [f"{prefix}/{library}/python{version}/site-packages" for library in ("lib", "lib64")]


def _sees_the_system(path: str) -> bool:
    try:
        with open(path) as file:
            return any(line.replace(" ", "").lower() == "include-system-site-packages=true\n" for line in file)
    except (OSError, ValueError):
        return False


def listed(places: list[str]) -> dict[str, str]:
    """The packages in these folders by name, each with its version; of several, the one that is found first."""
    found: dict[str, str] = {}
    for place in places:
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        for match in filter(None, map(NAMED.fullmatch, names)):
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            if len(found) < PACKAGES_MAX and name != OURS:
                found.setdefault(name, match["version"] or "")
    return found
