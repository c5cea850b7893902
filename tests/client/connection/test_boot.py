"""The unit that starts a server with the machine: what it is given, and that systemd reads it as it was meant."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headway import settings
from headway.client.connection import boot
from headway.core.errors import Conflict


def test_the_server_is_given_the_settings_of_whoever_enables_it_and_no_token() -> None:
    env = {
        "HEADWAY_PORT": "8400",
        "HEADWAY_TOKEN": "x",
        "HEADWAY_SERVER_URL": "http://x",
        "PATH": "/bin",
        "SECRET": "x",
    }
    assert boot.environment(env) == {"HEADWAY_PORT": "8400", "PATH": "/bin", "HEADWAY_CONTEXT": "local"}


def test_each_home_has_a_unit_of_its_own() -> None:
    names = {boot.name_of({}), boot.name_of({"HEADWAY_HOME": "/a"}), boot.name_of({"HEADWAY_HOME": "/b"})}
    assert len(names) == 3
    assert "headway" in names


def test_systemd_reads_the_unit_as_it_was_meant(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TESTED: no systemd-analyze here")
    env = {"HEADWAY_HOME": f'{tmp_path}/100% "of" $HOME \\n', "PATH": "/bin"}
    file = tmp_path / "headway.service"
    file.write_text(boot.unit(env, settings.home_from(env), "default.target"))
    command = ["systemd-analyze", "--user", "verify", str(file)]
    done = subprocess.run(command, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_unit_whose_interpreter_is_gone_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "headway.service"
    file.write_text(boot.unit({}, settings.home_from({}), "default.target"))
    assert boot.missing_program(boot.Boot(boot.USER, str(file))) == ""
    monkeypatch.setattr("sys.executable", "/nowhere/100% $x/python")
    file.write_text(boot.unit({}, settings.home_from({}), "default.target"))
    assert boot.missing_program(boot.Boot(boot.USER, str(file))) == "/nowhere/100% $x/python"


def test_what_no_unit_can_hold_is_refused(tmp_path: Path) -> None:
    env = {"HEADWAY_HOME": str(tmp_path), "HEADWAY_AGENT_ENV": "a\nExecStartPre=b"}
    with pytest.raises(Conflict, match="HEADWAY_AGENT_ENV: its value has a line break"):
        boot.unit(env, settings.home_from(env), "default.target")
