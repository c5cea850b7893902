"""Which variables of the caller go along with a job: those of a list, or all; and which of them look like secrets.

Pure. What a program needs to find its parts is passed on by script.py; what is given by name (`--env`) is the caller's
own word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

# What belongs to the caller's terminal, login or allocation, or is the node's to say. Not even --env-all passes it.
NEVER = (
    "HEADWAY_*", "_", "PWD", "OLDPWD", "SHLVL", "TERM*", "COLUMNS", "LINES", "PS?", "SSH_*", "DISPLAY", "WAYLAND_*",
    "XDG_*", "DBUS_*", "LS_COLORS", "COMP_*", "PROMPT*", "STY", "TMUX*", "WINDOWID",
    "SLURM_*", "SBATCH_*", "PMI_*", "PMIX_*", "OMPI_*", "PBS_*", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK",
    "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
# Who and where the caller is, on the caller's own machine.
OF_THE_CALLER = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "HOSTNAME", "MAIL")
NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")
SECRET = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIALS?|AUTH)(?:_|$)", re.I
)
NO_SECRET = re.compile(r"_(?:FILE|PATH|DIR|URL|NAME)$", re.I)
USERINFO = re.compile(r"://[^/@\s:]*:[^/@\s]+@")  # http://user:password@proxy
SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class PassedEnv:
    """What goes along, and what is worth a word: what looks like a secret, passed or not."""

    env: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable is of the kind that should not lie readable in a job's description."""
    if not value:
        return False
    return bool(SECRET.search(name) and not NO_SECRET.search(name)) or bool(USERINFO.search(value))


def passed(
    env: Mapping[str, str], patterns: str, taken: frozenset[str], *, everything: bool, shared: bool
) -> PassedEnv:
    """What of the environment goes along. `taken`: names that the job has already, as a value or as a secret.

    With a shared server, paths of this machine stay here, and so does what merely fits a pattern and looks like a
    secret: others may read the description. A name that the list has in full was meant.
    """
    wanted = [word.strip() for word in patterns.split(",") if word.strip()]
    found, secrets, left_out = {}, [], []
    for name, value in sorted(env.items()):
        exact = name in wanted
        if name in taken or not (everything or exact or _fits(name, wanted)) or not _can_pass(name, value, exact):
            continue
        if shared and not exact and (name in OF_THE_CALLER or value.startswith(("/", "~"))):
            continue
        secret = looks_secret(name, value)
        if secret and shared and not exact and not everything:
            left_out.append(name)
            continue
        if secret and (shared or not exact):
            secrets.append(name)
        found[name] = value
    return PassedEnv(found, tuple(secrets), tuple(left_out))


def _fits(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _can_pass(name: str, value: str, exact: bool) -> bool:
    if not NAME.match(name) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return exact or not _fits(name, list(NEVER))


def notes(passed: PassedEnv) -> list[str]:
    """What to tell the caller."""
    said = []
    if passed.secrets:
        name = passed.secrets[0]
        said.append(
            f"warning: {_listed(passed.secrets)} kept readable with the job, and a secret by the look of it; "
            f"sealed instead: headway secret set {_kept_as(name)}, then --secret {name}={_kept_as(name)}"
        )
    if passed.left_out:
        name = passed.left_out[0]
        said.append(
            f"warning: {_listed(passed.left_out)} not passed on, being a secret by the look of it; "
            f"seal it: headway secret set {_kept_as(name)}, then --secret {name}={_kept_as(name)} (or --env {name})"
        )
    return said


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN_MAX
    shown = ", ".join(names[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def _kept_as(name: str) -> str:
    return name.lower().replace("_", "-").strip("-")
