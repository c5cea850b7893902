"""`headway config set` and `rm`: one line of the user's file, the rest as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

FILE = "# mine\nlocal_cpus = 2\n\n[queue.night]\npriority = 3\n"


def test_a_setting_is_written_before_the_first_section(headway: Callable, headway_home: Path) -> None:
    path = headway_home / "config" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FILE)
    assert headway("config", "set", "local_cpus=4", "server_wait_s=5m").code == 0
    assert path.read_text() == FILE.replace("local_cpus = 2\n\n", 'local_cpus = 4\n\nserver_wait_s = "5m"\n')
    assert headway("config", "show", "-q", "server_wait_s").out == "300.0\n"
    assert headway("config", "rm", "server_wait_s").code == 0
    assert path.read_text() == FILE.replace("= 2", "= 4")


def test_a_wrong_value_is_not_written(headway: Callable, headway_home: Path) -> None:
    said = headway("config", "set", "local_cpus=many")
    assert said.code == 2
    assert said.err == 'error: local_cpus (flag): "many" is not a number\n'
    assert headway("config", "set", "local_cpu=2").err.endswith('hint: did you mean "local_cpus"?\n')
    assert not (headway_home / "config" / "config.toml").exists()


def test_what_is_not_there_cannot_be_removed(headway: Callable) -> None:
    assert headway("config", "rm", "local_cpus").code == 5
