"""A task's packages: an environment made by uv from what the bundle says, once per machine and definition.

Only what defines it enters its key. The project's own code is never installed into it: it is found by PYTHONPATH, so
that one environment serves every version of the code. What makes one from a conda file is in conda.py.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time

from headway_agent.prepare import conda, network_errors
from headway_agent.prepare.cache import Cache, bytes_max
from headway_agent.prepare.python_names import names_python
from headway_agent.prepare.steps import NotHere, StepFailed
from headway_wire import causes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping, Sequence

    from headway_agent.prepare.steps import Work

ENVIRONMENTS_BYTES_MAX = 60 << 30
PART_OF_DISK = 0.25
BUILD_S_MAX = 3600.0
LOOK_S = 0.3  # How often a running build looks whether it is still wanted.
SHOWN_LINES = 12
SHOWN_CHARS = 1500
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
FILES = {"uv-lock": "uv.lock", "pyproject": "pyproject.toml", "requirements": "requirements.txt", "pep723": "",
         "conda": "environment.yml"}  # fmt: skip
# Passed on to uv: where it finds packages and keeps its own cache, and how it reaches the network.
PASSED = ("UV_", "PIP_", "CONDA_", "MAMBA_", "RATTLER_", "SSL_", "HTTP_", "HTTPS_", "ALL_PROXY", "NO_PROXY",
          "http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUESTS_CA", "HOME", "PATH", "LANG", "LC_", "TMPDIR",
          "USER", "XDG_", "NETRC", "LD_LIBRARY_PATH", "CC", "CXX", "CFLAGS", "CUDA_HOME")  # fmt: skip
HEADER = re.compile(r"(?m)^# /// script\s*$\n((?:^#(?: .*)?$\n)+?)^# ///\s*$")
INCLUDED = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]?\s*(\S+)", re.MULTILINE)
# Packages of the tree itself. In a lock: other than the project, which is not installed.
OWN_LOCKED = re.compile(r"source = \{ (?:directory|editable|path) = \"(?!\.\")")
OWN_SOURCES = re.compile(r"tool\.uv\.sources[\s\S]*?\b(?:path|workspace)\s*=")
OWN_LINES = re.compile(r"""(?m)^\s*(?:-\s+["']?)?(?:-e\s|--editable|\.|[^#\n]*?@\s*(?:file:)?\.)""")
OWN = {"uv-lock": OWN_LOCKED, "pyproject": OWN_SOURCES, "pep723": OWN_SOURCES, "requirements": OWN_LINES,
       "conda": OWN_LINES}  # fmt: skip
REQUIRES_PYTHON = re.compile(r"""(?m)^#\s*requires-python\s*=\s*["']([^"']+)["']""")


def provide(work: Work) -> None:
    """Make or find the environment, and let the ranks run in it."""
    asked = work.asked.environment
    kind, root = asked.kind if asked else "", work.place
    path = (asked.path if asked else "") or FILES.get(kind, "")
    file = os.path.join(root, path)
    if kind not in FILES or not root or not path or not os.path.isfile(file):
        raise _failed(f'the environment is to be made from "{path}" ({kind}), which is not there')
    try:
        key = key_of(kind, file, work.asked.bundle, work.site.environ)
    except OSError as error:
        missing = os.path.relpath(error.filename or file, root)
        raise _failed(f"{missing}, which the environment is made from, cannot be read: {error.strerror}") from None
    cache = _cache(work)
    try:
        home, noted = cache.get(
            key,
            work.directory,
            lambda draft: _make(work, kind, file, draft, cache.held[key]),
            in_place=kind == "conda",
            check=work.check,
        )
    except OSError as error:
        raise NotHere(f"the environment could not be stored: {error}") from None
    _enter(work, home, kind, os.path.dirname(file), noted.get("env") or {})
    argv = work.claim.argv or ("",)
    if names_python(argv[0]) and not os.path.exists(work.prepared.python):
        raise _failed(f'"{argv[0]}" is to run, and {path} has no Python: add `python` to its dependencies')


def _failed(sentence: str) -> StepFailed:
    return StepFailed(causes.ENVIRONMENT_FAILED, sentence)


def _cache(work: Work) -> Cache:
    root = os.path.join(work.site.cache_dir, "envs")
    return Cache(root, bytes_max(work.site.environ, "ENVS", ENVIRONMENTS_BYTES_MAX, PART_OF_DISK, root))


def _enter(work: Work, home: str, kind: str, project: str, wanted: Mapping[str, str]) -> None:
    env, asked = work.prepared.env, dict(work.claim.env)
    path = asked.get("PATH") or work.site.environ.get("PATH") or DEFAULT_PATH
    env["PATH"] = f"{home}/bin:{path}"
    env["CONDA_PREFIX" if kind == "conda" else "VIRTUAL_ENV"] = home
    work.prepared.python = f"{home}/bin/python"
    env.update({name: value for name, value in wanted.items() if name not in asked})
    if kind in ("uv-lock", "pyproject"):
        source = os.path.join(project, "src")
        own = [source] if os.path.isdir(source) else []
        own += [project, *([asked["PYTHONPATH"]] if asked.get("PYTHONPATH") else [])]
        env["PYTHONPATH"] = ":".join(own)


# --- what defines it ------------------------------------------------------------------------------------------------


def key_of(kind: str, file: str, bundle: str, environ: Mapping[str, str]) -> str:
    """The hash of all that decides what will be in the environment."""
    parts = [
        kind,
        environ.get("UV_PYTHON", ""),
        ".".join(map(str, sys.version_info[:2])),
        sys.platform,
        platform.machine(),
    ]
    folder = os.path.dirname(file)
    texts = _texts(kind, file)
    parts += texts
    if any(OWN[kind].search(text) for text in texts):
        parts.append(bundle or folder)  # Their code is part of the environment.
    version = os.path.join(folder, ".python-version")
    parts.append(_read(version) if os.path.isfile(version) else "")
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:40]


def _texts(kind: str, file: str) -> list[str]:
    """What says which packages are wanted: the file, and all that it takes in."""
    if kind == "requirements":
        return _with_included(file, set())
    content = _read(file)
    if kind == "pep723":
        return [header(content) or ""]
    texts, folder = [content], os.path.dirname(file)
    if kind == "conda":
        for name in conda.included(content):
            texts += _with_included(os.path.join(folder, name), set())
    if kind == "uv-lock":
        texts.append(_read(os.path.join(folder, "pyproject.toml")))
    return texts


def header(script: str) -> str | None:
    """The PEP 723 header of a script, as it stands there."""
    found = HEADER.search(script)
    return found.group(1) if found else None


def _with_included(file: str, seen: set[str]) -> list[str]:
    if file in seen:
        return []
    seen.add(file)
    content = _read(file)
    texts = [content]
    for name in INCLUDED.findall(content):
        if "://" not in name:
            texts += _with_included(os.path.join(os.path.dirname(file), name), seen)
    return texts


def _read(file: str) -> str:
    with open(file, encoding="utf-8", errors="surrogateescape") as opened:
        return opened.read()


# --- how it is made -------------------------------------------------------------------------------------------------


def _make(work: Work, kind: str, file: str, home: str, lock: int) -> dict[str, Any]:
    work.say("builds the environment")
    environ = work.site.environ
    if kind == "conda":
        steps = [conda.command(file, home, environ, work.site.cache_dir, lambda: _uv(environ, conda.ANY))]
    else:
        wished = REQUIRES_PYTHON.search(header(_read(file)) or "") if kind == "pep723" else None
        steps = commands(kind, file, home, _uv(environ), wished.group(1) if wished else "")

    def run(words: Sequence[str]) -> str:
        work.check()
        return _run(words, work, home, os.path.dirname(file), lock)

    for words in steps:
        run(words)
    return {"kind": kind, "env": conda.activated(home, run) if kind == "conda" else {}}


def commands(kind: str, file: str, home: str, uv: Sequence[str], python: str = "") -> list[list[str]]:
    """What makes an environment of this kind with uv, command after command; `python` is what a script asks for."""
    # It is made elsewhere and moved to its place when it is whole: nothing in it may say where it was made.
    made = [*uv, "venv", "--quiet", "--relocatable", *(["--python", python] if python else []), home]
    if kind == "uv-lock":
        return [made, [*uv, "sync", "--frozen", "--no-install-project", "--no-editable", "--inexact"]]
    return [made, [*uv, "pip", "install", "--python", f"{home}/bin/python", "-r", file]]


def _uv(environ: Mapping[str, str], needed: str = "uv") -> list[str]:
    path, home = environ.get("PATH") or DEFAULT_PATH, environ.get("HOME") or "/"
    found = environ.get("HEADWAY_AGENT_UV") or shutil.which("uv", path=f"{path}:{home}/.local/bin:{home}/.cargo/bin")
    if found:
        return [found]
    for python in (sys.executable, shutil.which("python3", path=path)):
        tried = [python, "-m", "uv", "--version"] if python else ["false"]
        if subprocess.run(tried, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return [str(python), "-m", "uv"]
    raise _failed(f"the environment needs {needed}: not found on this node's PATH, nor uv as `python -m uv`")


def _run(words: Sequence[str], work: Work, home: str, cwd: str, lock: int) -> str:
    """What one command says until its end. It holds the lock too: if we die, nobody builds there before it is done."""
    env = {name: value for name, value in work.site.environ.items() if name.startswith(PASSED)}
    env.update(UV_PROJECT_ENVIRONMENT=home, UV_NO_PROGRESS="1", UV_LINK_MODE=env.get("UV_LINK_MODE", "copy"))
    if work.asked.bundle:
        env["UV_NO_EDITABLE"] = "1"  # The code lies there for this attempt only; the environment outlives it.
    env.update(CONDA_ALWAYS_YES="true", MAMBA_ALWAYS_YES="true")  # Each of them knows another flag for it.
    # By these tags it is found and ended when the node is given back.
    env.update(HEADWAY_TASK=work.key, HEADWAY_NODE_DIR=os.path.dirname(os.path.dirname(work.directory)))
    child = subprocess.Popen(
        list(words), env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        pass_fds=(lock,), start_new_session=True,
    )  # fmt: skip
    output = _output_of(child, work, _name(words))
    # What uv runs may be ended instead of it; it then ends itself as a shell would.
    ended_by = -child.returncode if child.returncode < 0 else child.returncode - 128
    if ended_by > 0:
        raise NotHere(f"{_name(words)} was ended by signal {ended_by}")
    if child.returncode:
        sentence = f"{_name(words)} failed: {last_lines(output.replace(home, '<environment>'))}"
        raise StepFailed(causes.UNREACHABLE, sentence) if network_errors.said_by(output) else _failed(sentence)
    return output


def _output_of(child: subprocess.Popen[bytes], work: Work, name: str) -> str:
    give_up_at = time.monotonic() + BUILD_S_MAX
    try:
        while True:
            try:
                return child.communicate(timeout=LOOK_S)[0].decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                work.check()
                if time.monotonic() > give_up_at:
                    raise _failed(f"{name} took longer than {BUILD_S_MAX / 60:.0f} minutes") from None
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


def _name(words: Sequence[str]) -> str:
    if "--script" in words:
        return f"building {os.path.basename(words[-2])}"
    rest = [word for word in words[1:4] if word not in ("-m", "uv") and not word.startswith("-")]
    tool = os.path.basename(words[0]) if words[1] != "-m" else "uv"
    return " ".join([tool, *rest[: 2 if "pip" in rest else 1]])


def last_lines(output: str) -> str:
    """The end of what the tool said, from its error on where it names one."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in output.splitlines() if line.strip()]
    errors = [index for index, line in enumerate(lines) if line.startswith(("error", "  × ", "×"))]
    lines = lines[errors[-1] :] if errors else lines[-SHOWN_LINES:]
    text = "\n".join(lines[:SHOWN_LINES]).strip()
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
