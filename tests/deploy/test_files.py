"""The files of deploy/ say only what there is: settings, extras, commands, and each other's names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from headway import settings
from headway.cli.main import headway
from headway.client.connection import embedded
from headway.core.errors import Unavailable
from headway.core.spec.pool import read_pool
from headway.engines.kinds import kinds_for
from headway.engines.table import KINDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()]
# Variables that are not settings, each read by the program itself.
OTHERS = {"HEADWAY_HOME", "HEADWAY_TOKEN", "HEADWAY_SYSTEM_CONFIG"}
PROGRAM = "/opt/headway/bin/headway"


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return read


def servers() -> dict[str, Any]:
    return {name: each for name, each in compose()["services"].items() if name.startswith("server-")}


def instruction(name: str) -> list[str]:
    """What follows this word in the Containerfile, each time; continued lines are joined."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in text.splitlines() if line.startswith(f"{name} ")]


def check_command(words: list[str]) -> None:
    """The words after `headway` name a command, and every option is one of its own."""
    command: click.Command = headway
    context = click.Context(command)
    while words and isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]!r} in {command.name}"
        command, words = found, words[1:]
    known = {option for each in command.params for option in each.opts}
    assert not isinstance(command, click.Group)
    assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    known = {f"HEADWAY_{each.name.upper()}" for each in fields(settings.Settings)} | OTHERS
    assert set(re.findall(r"\bHEADWAY_[A-Z_]+", path.read_text())) <= known


@pytest.mark.parametrize("uncommented", [False, True])
def test_the_example_of_settings_is_read(tmp_path: Path, uncommented: bool) -> None:
    text = (DEPLOY / "config.toml").read_text()
    if uncommented:  # What is proposed in comments must be right as well.
        text = re.sub(r"^# (?=\[pool|[a-z_]+ = )", "", text, flags=re.MULTILINE)
    file = tmp_path / "config.toml"
    file.write_text(text)
    resolved = settings.load({"HEADWAY_SYSTEM_CONFIG": str(file), "HEADWAY_HOME": str(tmp_path)})
    engines = kinds_for(resolved.settings, KINDS)
    pools = {name: read_pool(name, raw, engines) for name, raw in resolved.sections["pool"].items()}
    assert {pool.engine for pool in pools.values()} == ({"ssh", "slurm"} if uncommented else {"ssh"})
    assert bool(resolved.settings.ca_file) is uncommented
    assert resolved.settings.accounts == "on"


def test_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = dict(each.partition("=")[::2] for each in instruction("ARG"))["EXTRAS"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert "postgres" in extras.split(",")
    for words in map(shlex.split, instruction("COPY")):
        if not words[0].startswith("--from"):
            assert all((ROOT / each).exists() for each in words[:-1]), words
    (user,) = instruction("USER")
    assert user not in ("root", "0")
    (home,) = instruction("VOLUME")
    assert f"HEADWAY_HOME={home}" in instruction("ENV")[0].split()
    (start,), (program,), (health,) = instruction("CMD"), instruction("ENTRYPOINT"), instruction("HEALTHCHECK")
    assert yaml.safe_load(program) == ["headway"]
    check_command(yaml.safe_load(start))
    check_command(yaml.safe_load(health.partition("CMD ")[2])[1:])


def test_services_name_what_there_is() -> None:
    whole = compose()
    services, used, opened = whole["services"], set(), set()
    for name, each in services.items():
        for other, how in each.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[other], f"{name} on {other}"
        used |= {volume.partition(":")[0] for volume in each.get("volumes", ())}
        given = set(each.get("secrets", ()))
        opened |= given
        assert set(re.findall(r"/run/secrets/(\w+)", yaml.safe_dump(each))) <= given, name
    assert used == set(whole["volumes"])
    assert opened == set(whole["secrets"])


def test_servers_of_compose_have_settings_that_are_read(tmp_path: Path) -> None:
    assert len(servers()) == 2
    seen = set()
    for name, each in servers().items():
        env = {variable: str(value).replace("${TEAM_HOST}", "train") for variable, value in each["environment"].items()}
        env |= {"HEADWAY_SYSTEM_CONFIG": str(tmp_path / "none"), "HEADWAY_HOME": str(tmp_path)}
        got = settings.load(env).settings
        assert got.advertise_url == f"https://train:{got.port}", name
        assert each["ports"] == [f"{got.port}:{got.port}"]
        bucket = got.storage_url.removeprefix("s3://").partition("/")[0]
        assert f"-name {bucket}" in yaml.safe_dump(compose()["services"]["bucket"])
        database = compose()["services"]["database"]["environment"]
        assert got.store_url.startswith(f"postgresql://{database['POSTGRES_USER']}@database:5432/")
        seen.add((got.port, got.store_url, got.storage_url))
        check_command(each["healthcheck"]["test"][2:])
        check_command(each["entrypoint"][-1].partition("exec headway ")[2].split())
    assert len(seen) == 2
    assert len({rest[1:] for rest in seen}) == 1


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_start_what_there_is(path: Path) -> None:
    lines = [line.partition("=")[2] for line in path.read_text().splitlines() if line.startswith("ExecStart=")]
    commands = [found.group(1) for line in lines if (found := re.search(rf"{PROGRAM} ([^$\"']+)", line))]
    assert bool(commands) == (path.suffix == ".service")
    for command in commands:
        check_command(command.split())


def test_units_are_understood_by_systemd(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed: the unit files were not verified")
    for path in UNITS:
        text = path.read_text().replace(PROGRAM, f"{Path(sys.executable).parent}/headway")
        (tmp_path / path.name).write_text(text)
    names = [str(tmp_path / path.name) for path in UNITS]
    done = subprocess.run([program, "verify", "--man=no", *names], capture_output=True, text=True, timeout=600)
    said = [line for line in done.stderr.splitlines() if "headway" in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_commands_of_this_machine_find_a_server_by_the_name_of_its_certificate() -> None:
    plain = settings.Settings(advertise_url="https://train.example.org:8400/")
    secure = settings.Settings(advertise_url="https://train.example.org:8400/", tls_cert_file="cert.pem")
    assert settings.url_at_home(plain, "http://0.0.0.0:8400") == "http://0.0.0.0:8400"
    assert settings.url_at_home(secure, "https://0.0.0.0:8400") == "https://train.example.org:8400"
    assert settings.url_at_home(settings.Settings(tls_cert_file="cert.pem"), "https://h:1") == "https://h:1"


def test_commands_do_not_start_a_shared_server(tmp_path: Path) -> None:
    env = {"HEADWAY_HOME": str(tmp_path), "HEADWAY_SYSTEM_CONFIG": str(tmp_path / "none"), "HEADWAY_ACCOUNTS": "on"}
    with pytest.raises(Unavailable, match="does not run"):
        embedded.locate(settings.load(env), settings.home_from(env), env)
    assert not list(tmp_path.iterdir())


def test_a_server_tells_its_service_manager_when_it_answers(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        env = {**os.environ, "HEADWAY_HOME": str(tmp_path / "home"), "NOTIFY_SOCKET": str(tmp_path / "notify")}
        env |= {"HEADWAY_LOCAL_NODES": "0"}
        words = [sys.executable, "-m", "headway.cli.main", "server", "start", "--foreground"]
        server = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert manager.recv(4096).decode().splitlines() == ["READY=1", f"MAINPID={server.pid}"]
            asked = subprocess.run([*words[:3], "ps", "--json"], env=env, capture_output=True, text=True, timeout=60)
            assert (asked.returncode, asked.stderr) == (0, "")
        finally:
            server.terminate()
            assert server.wait(60) == 0
