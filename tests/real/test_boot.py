"""A server that starts with the machine: by the real systemd of a user, and by cron's line; a home that is moved."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.living import Living
from tests.waiting import wait_until

pytestmark = pytest.mark.real

SYSTEMD = "/usr/lib/systemd/systemd"
# A place of its own for what says that systemd runs: nobody else on this machine shall believe so.
BOOT = f"""
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec {SYSTEMD} --user --log-target=console
"""
COUNTS = """
import os, time
with open("began", "a") as file:
    file.write(os.environ["HEADWAY_ATTEMPT"] + "\\n")
while not os.path.exists("enough"):
    time.sleep(0.05)
"""


class Machine:
    """The systemd of a user, which is started and ended as with a machine."""

    def __init__(self, living: Living) -> None:
        self.living = living
        place = living.place
        self.env = {"XDG_RUNTIME_DIR": str(place / "run"), "HOME": str(place), "XDG_CONFIG_HOME": str(place / "config")}
        living.env.update(self.env)
        (place / "run").mkdir(mode=0o700)
        self.child: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        log = open(self.living.place / "systemd.log", "ab")  # noqa: SIM115 (it is the child's)
        self.child = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", BOOT],
            env={**os.environ, **self.env},
            stdout=log,
            stderr=log,
        )
        log.close()

    def answers(self) -> bool:
        return self.systemctl("show", "--property=Version").returncode == 0

    def systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["systemctl", "--user", *words]
        return subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, text=True)

    def end(self) -> None:
        """As when the power goes: nobody is asked, and nothing is left."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()
        self.living.kill(*self.living.processes())
        wait_until(lambda: not self.living.processes(), what="the end of everything")


@pytest.fixture
def machine(living: Living) -> Iterator[Machine]:
    if os.geteuid() != 0 or not os.path.exists(SYSTEMD) or not shutil.which("unshare"):
        pytest.skip("NOT TESTED: a user's systemd needs root here, systemd and unshare")
    made = Machine(living)
    made.begin()
    assert made.child is not None
    try:
        wait_until(lambda: made.answers() or made.child.poll() is not None, what="systemd")  # type: ignore[union-attr]
        if made.child.poll() is not None:
            pytest.skip(f"NOT TESTED: systemd did not start: {(living.place / 'systemd.log').read_text()[-300:]}")
        yield made
    finally:
        made.end()


def test_after_a_reboot_jobs_go_on_without_a_command_typed(machine: Machine) -> None:
    living = machine.living
    said = living.ok("server", "enable")
    assert said.startswith("the server starts with the machine (systemctl --user: ")
    (unit,) = (living.place / "config/systemd/user").glob("headway-*.service")
    living.script("counts.py", COUNTS)
    job = living.submit("counts.py")
    began = living.place / "began"
    wait_until(lambda: began.exists() and began.read_text() == "1\n", what="the first attempt")
    first = living.server

    machine.end()
    machine.begin()
    wait_until(lambda: began.read_text() == "1\n2\n", what="an attempt that nobody asked for")
    assert living.server not in (0, first)

    (living.place / "enough").touch()
    assert living.wait(job)["state"] == "succeeded"
    assert living.ok("server", "disable").startswith("it starts with the machine no more")
    assert not unit.exists()


def test_its_service_is_stopped_started_anew_and_brought_back(machine: Machine) -> None:
    living = machine.living
    living.ok("server", "enable")
    (unit,) = (living.place / "config/systemd/user").glob("headway-*.service")

    def main_pid() -> int:
        return int(machine.systemctl("show", "--value", "--property=MainPID", unit.name).stdout or 0)

    first = living.server
    assert main_pid() == first
    living.kill(first, sign=signal.SIGKILL)
    wait_until(lambda: living.server not in (0, first) and main_pid() == living.server, what="the next server")
    second = living.server
    living.ok("server", "restart")
    assert living.server not in (0, first, second)
    assert main_pid() == living.server
    living.ok("server", "stop")
    wait_until(lambda: main_pid() == 0, what="the end of the service")
    assert machine.systemctl("show", "--value", "--property=ActiveState", unit.name).stdout == "inactive\n"


def test_without_systemd_cron_starts_it(living: Living) -> None:
    programs = living.place / "programs"
    programs.mkdir()
    table = living.place / "crontab"
    table.write_text("0 3 * * * something else\n")
    (programs / "crontab").write_text(f'#!/bin/sh\n[ "$1" = -l ] && exec cat {table}\nexec cat > {table}\n')
    (programs / "systemctl").write_text("#!/bin/sh\necho no systemd here >&2; exit 1\n")
    for each in programs.iterdir():
        each.chmod(0o755)
    living.env["PATH"] = f"{programs}:{os.environ['PATH']}"
    assert living.ok("server", "enable") == "the server starts with the machine (cron: crontab)\n"
    living.ok("server", "enable")
    other, line = table.read_text().splitlines()
    assert other == "0 3 * * * something else"
    assert line.startswith("@reboot ")
    typed = line.removeprefix("@reboot ").replace(r"\%", "%")
    # As cron runs it: with next to nothing in the environment.
    subprocess.run(["sh", "-c", typed], env={"HOME": str(living.place), "PATH": "/usr/bin:/bin"}, cwd="/", check=True)
    assert living.server
    living.ok("server", "disable")
    assert table.read_text() == "0 3 * * * something else\n"


def test_a_home_can_be_moved_and_jobs_begin_again_there(
    living: Living, headway_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    living.script("counts.py", COUNTS)
    before = living.submit("--", "echo", "before")
    living.wait(before)
    job = living.submit("counts.py")
    began = living.place / "began"
    wait_until(lambda: began.exists() and began.read_text() == "1\n", what="the first attempt")
    living.ok("server", "stop")
    there = living.place / "there"
    headway_home.rename(there)
    monkeypatch.setenv("HEADWAY_HOME", str(there))
    moved = Living(there, living.place, living.env)
    try:
        assert moved.log(before) == "before\n"
        wait_until(lambda: began.read_text() == "1\n2\n", what="the second attempt")
        (living.place / "enough").touch()
        assert moved.wait(job)["state"] == "succeeded"
    finally:
        moved.end()
