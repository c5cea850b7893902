# /// script
# requires-python = ">=3.11"
# dependencies = ["py-rattler>=0.28,<0.29", "pyyaml>=6,<7"]
# ///
"""Makes the environment of a conda file where there is no conda: rattler solves and installs, uv adds the pip section.

A program of its own: the agent lets uv run it, with the packages named above. It imports nothing of the agent, nor is
it imported. What goes wrong is said in the words of whoever found it, from a line with "error:" on.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

import rattler
import yaml
from rattler import exceptions

DEFAULTS = ("main", "r")  # What conda calls `defaults`, as they are named beside the other channels.
# A job may change what is in its environment, and rattler's cache serves others: nothing is shared with it.
LINKS = "allow-hard-links = false\nallow-symbolic-links = false\n"
WRONG = (
    exceptions.SolverError, exceptions.GatewayError, exceptions.InstallerError, exceptions.InvalidMatchSpecError,
    exceptions.InvalidChannelError, exceptions.InvalidUrlError, exceptions.FetchRepoDataError, exceptions.LinkError,
    exceptions.ConfigError, exceptions.DetectVirtualPackageError, exceptions.VirtualPackageOverrideError,
    exceptions.CacheDirError, exceptions.IoError, exceptions.TransactionError,
)  # fmt: skip


class EnvironmentRefused(Exception):
    """The file asks for something that cannot be made."""


@dataclass
class Wish:
    """What a conda file asks for."""

    channels: list[str] = field(default_factory=list)
    specs: list[str] = field(default_factory=list)
    pip: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def main(file: str, prefix: str) -> int:
    os.chdir(os.path.dirname(os.path.abspath(file)))  # Paths in the file are meant from where it lies.
    try:
        wish = read(os.path.basename(file))
        asyncio.run(make(wish, prefix))
        added = add_pip_section(wish.pip, prefix)
        keep_variables(wish.variables, prefix)
    except (EnvironmentRefused, *WRONG) as error:
        sys.stderr.write(f"error: {str(error).strip()}\n")
        return 1
    return added


# --- the file -------------------------------------------------------------------------------------------------------


def read(name: str) -> Wish:
    with open(name, encoding="utf-8") as file:
        try:
            said = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise EnvironmentRefused(f"{name} is not valid YAML: {error}") from None
    if isinstance(said, dict) and "package" in said:
        raise EnvironmentRefused(f"{name} is a lock file: name the environment.yml that it was made from")
    if not isinstance(said, dict) or not said.get("dependencies"):
        raise EnvironmentRefused(f"{name} names no dependencies")
    wish = Wish(channels=_strings(said.get("channels") or [], f"{name}: channels"))
    for each in _items(said["dependencies"], f"{name}: dependencies"):
        if isinstance(each, dict) and set(each) == {"pip"}:
            wish.pip += _strings(each["pip"] or [], f"{name}: pip")
        else:
            wish.specs += _strings([each], f"{name}: dependencies")
    variables = said.get("variables") or {}
    if not isinstance(variables, dict):
        raise EnvironmentRefused(f"{name}: variables is not a mapping of names to values")
    wish.variables = {str(key): str(value) for key, value in variables.items()}
    return wish


def _items(said: object, where: str) -> list[object]:
    if not isinstance(said, list):
        raise EnvironmentRefused(f"{where} is not a list")
    return said


def _strings(said: object, where: str) -> list[str]:
    found = _items(said, where)
    for each in found:
        if not isinstance(each, str):
            raise EnvironmentRefused(f"{where}: {each!r} is not a string")
    return [str(each).strip() for each in found]


# --- conda packages -------------------------------------------------------------------------------------------------


async def make(wish: Wish, prefix: str) -> None:
    """Choose the packages, fetch them, and put them into the prefix."""
    settings = rattler.Config.load_from_default_locations("rattler").merge(rattler.Config.from_toml(LINKS))
    client = rattler.Client.from_config(settings, user_agent="headway-agent")
    alias = os.environ.get("CONDA_CHANNEL_ALIAS")  # Else rattler knows where channels usually lie.
    places = rattler.ChannelConfig(root_dir=os.getcwd(), **({"channel_alias": alias} if alias else {}))
    channels = [rattler.Channel(name, places) for name in channel_names(wish.channels)]
    specs = []
    for said in wish.specs:
        spec, own = _with_channel(said, places)
        specs.append(_spec(spec, said))
        if own and own.base_url not in [each.base_url for each in channels]:
            channels.append(own)
    anywhere = os.environ.get("CONDA_CHANNEL_PRIORITY") == "disabled"
    records = await rattler.solve(
        channels,
        specs,
        gateway=rattler.Gateway(cached("repodata"), client=client),
        virtual_packages=rattler.VirtualPackage.detect(rattler.VirtualPackageOverrides.from_env()),
        channel_priority=rattler.ChannelPriority.Disabled if anywhere else rattler.ChannelPriority.Strict,
        add_pip_as_python_dependency=False,
    )
    check_local(records)
    try:
        await install(records, prefix, settings, client, cached("pkgs"))
    except WRONG:
        # Whoever else builds just now may replace a package of the same name in the cache that all share, and what was
        # broken off may have left it damaged. With a cache of its own it succeeds, or is really at fault.
        shutil.rmtree(prefix, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="headway-conda-", ignore_cleanup_errors=True) as own:
            # When one package is at fault, rattler says so while others are still being unpacked: these go at the end.
            atexit.register(shutil.rmtree, own, ignore_errors=True)
            await install(records, prefix, settings, client, own)


def cached(part: str) -> str | None:
    """Where this part of rattler's cache is to lie; of itself rattler heeds the variable for some parts only."""
    root = os.environ.get("RATTLER_CACHE_DIR")
    return os.path.join(root, part) if root else None


async def install(
    records: list[rattler.RepoDataRecord],
    prefix: str,
    settings: rattler.Config,
    client: rattler.Client,
    cache: str | None,
) -> None:
    # Scripts of packages are run, as conda does: they may do what the job itself may.
    await rattler.install(
        records, prefix, cache_dir=cache, config=settings, client=client, execute_link_scripts=True, show_progress=False
    )


def check_local(records: list[rattler.RepoDataRecord]) -> None:
    """Compare packages in folders with their index: rattler does that only with those that it downloads."""
    for record in records:
        if record.url.startswith("file:") and record.sha256:
            path = urllib.request.url2pathname(urllib.parse.urlsplit(record.url).path)
            with open(path, "rb") as file:
                found = hashlib.file_digest(file, "sha256").digest()
            if found != record.sha256:
                raise EnvironmentRefused(f"hash mismatch of {path}: expected {record.sha256.hex()}, got {found.hex()}")


def channel_names(listed: list[str]) -> list[str]:
    """The channels to look in, in their order; `nodefaults` only says that there are no others, as is so anyway."""
    named = [name for name in listed if name != "nodefaults"]
    if not named:
        named = [name.strip() for name in os.environ.get("CONDA_CHANNELS", "").split(",") if name.strip()]
    found: list[str] = []
    for name in named or ["conda-forge"]:
        found += DEFAULTS if name == "defaults" else [name]
    return found


def _spec(spec: str, said: str) -> rattler.MatchSpec:
    try:
        return rattler.MatchSpec(spec)
    except WRONG as error:
        raise EnvironmentRefused(f'dependency "{said}": {error}') from None


def _with_channel(spec: str, places: rattler.ChannelConfig) -> tuple[str, rattler.Channel | None]:
    """A dependency such as `pytorch::torchvision`, with the channel as the address that its name stands for."""
    name, found, rest = spec.partition("::")
    if not found:
        return spec, None
    channel = rattler.Channel(name.strip(), places)
    return f"{channel.base_url}::{rest}", channel


# --- what conda leaves to others ------------------------------------------------------------------------------------


def add_pip_section(lines: list[str], prefix: str) -> int:
    """Let uv install these lines; what it ended with."""
    if not lines:
        return 0
    python = os.path.join(prefix, "bin/python")
    if not os.path.exists(python):
        raise EnvironmentRefused("the pip section needs a Python: add `python` to the dependencies")
    # "UV" is how uv tells those that it runs where it is.
    words = [os.environ.get("UV") or "uv", "pip", "install", "--quiet", "--python", python, "--break-system-packages"]
    return subprocess.run([*words, "-r", "-"], input="".join(f"{line}\n" for line in lines), text=True).returncode


def keep_variables(variables: dict[str, str], prefix: str) -> None:
    """Where conda keeps them too: environments.py hands them to the ranks."""
    if variables:
        with open(os.path.join(prefix, "conda-meta/state"), "w", encoding="utf-8") as file:
            json.dump({"version": 1, "env_vars": variables}, file)


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2])
    sys.stderr.flush()
    # Not by way of Python's own end: rattler's threads may still be let in while it tears down, and crash it.
    os._exit(code)
