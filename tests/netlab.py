"""Several hosts on one machine: network namespaces on a switch, each with an address, a home and an sshd of its own.

Traffic stays inside the namespaces that are made here and one virtual cable to the test. Names and addresses are taken
by a lock, so test processes do not meet; what a killed one has left is removed by the next that takes its number.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from tests.leftovers import remove_lab, shared_tmp
from tests.packages import PATH, missing
from tests.waiting import PATIENCE_S, wait_until

PACKAGES = {"sshd": "openssh-server", "ip": "iproute2", "iptables": "iptables", "ssh": "openssh-client"}


def sh(*words: str, check: bool = True) -> str:
    env = {**os.environ, "PATH": PATH}
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, env=env)
    assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def need(program: str, package: str) -> str:
    """The path of a program; its package is installed where it is missing. Skips, loudly, where that cannot be."""
    why = missing([program], package)
    if why:
        pytest.skip(f"needed for hosts made of network namespaces: {why}")
    return str(shutil.which(program, path=PATH))


@dataclass
class Host:
    """One host of the lab."""

    lab: Lab
    number: int
    home: Path

    @property
    def name(self) -> str:
        return f"h{self.number}"

    @property
    def space(self) -> str:
        return f"hw{self.lab.number}h{self.number}"

    @property
    def address(self) -> str:
        return f"10.77.{self.lab.number}.{self.number}"

    def run(self, *words: str, check: bool = True) -> str:
        return sh("ip", "netns", "exec", self.space, *words, check=check)

    def cut(self) -> None:
        """Take the host off the switch: nothing comes in or out."""
        sh("ip", "-n", self.lab.switch, "link", "set", f"p{self.number}", "down")

    def join(self) -> None:
        sh("ip", "-n", self.lab.switch, "link", "set", f"p{self.number}", "up")

    def deaf_to(self, port: int) -> None:
        """Let nothing from this host reach that port of anybody."""
        self.run("iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP")

    def pids(self) -> list[int]:
        return [int(word) for word in sh("ip", "netns", "pids", self.space, check=False).split()]


class Lab:
    """A switch, some hosts on it, and a cable to here. The homes of tiny ones are on a disk of 4 MB."""

    def __init__(self, hosts: int, tiny: Collection[int] = ()) -> None:
        for program, package in PACKAGES.items():
            need(program, package)
        if os.getuid() != 0:
            pytest.skip("network namespaces need root")
        self.number, self._lock = _take_number()
        self.place = Path(tempfile.mkdtemp(prefix=f"hwlab-{self.number}-"))  # leftovers.py knows this name.
        self.switch = f"hw{self.number}sw"
        self.cable = f"hw{self.number}c"
        self.address = f"10.77.{self.number}.254"
        self.hosts: list[Host] = []
        remove_lab(self.number)
        try:
            self._build(hosts, tiny)
        except BaseException:
            self.close()
            raise

    def _build(self, hosts: int, tiny: Collection[int]) -> None:
        sh("ip", "netns", "add", self.switch)
        sh("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", self.switch, "link", "set", "br0", "up")
        sh("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "p0", "netns", self.switch)
        sh("ip", "-n", self.switch, "link", "set", "p0", "master", "br0", "up")
        sh("ip", "addr", "add", f"{self.address}/24", "dev", self.cable)
        sh("ip", "link", "set", self.cable, "up")
        for name in ("key", "host_key"):
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.place / name))
        shutil.copy(self.place / "key.pub", self.place / "authorized_keys")
        for number in range(1, hosts + 1):
            host = Host(self, number, self.place / f"h{number}")
            host.home.mkdir()
            self.hosts.append(host)
            if number in tiny:  # Before anything runs there: a namespace sees only the mounts that it began with.
                sh("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(host.home))
            self._plug_in(host)
            self._listen(host)
        self.config.write_text("".join(self._entry(host) for host in self.hosts))

    def _plug_in(self, host: Host) -> None:
        port = f"p{host.number}"
        sh("ip", "netns", "add", host.space)
        sh("ip", "-n", host.space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self.switch)
        sh("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
        sh("ip", "-n", host.space, "addr", "add", f"{host.address}/24", "dev", "eth0")
        sh("ip", "-n", host.space, "link", "set", "eth0", "up")
        sh("ip", "-n", host.space, "link", "set", "lo", "up")

    def _listen(self, host: Host) -> None:
        Path("/run/sshd").mkdir(exist_ok=True)
        words = ["-f", "/dev/null", "-h", str(self.place / "host_key")]
        for option in (
            f"ListenAddress={host.address}", f"PidFile={self.place}/h{host.number}.pid", "StrictModes=no", "UsePAM=no",
            f"AuthorizedKeysFile={self.place}/authorized_keys", "PasswordAuthentication=no", "PermitRootLogin=yes",
            f"SetEnv=HOME={host.home}", "MaxStartups=100", "MaxSessions=100",
        ):  # fmt: skip
            words += ["-o", option]
        host.run(need("sshd", "openssh-server"), *words)
        wait_until((self.place / f"h{host.number}.pid").exists, what=f"sshd of {host.name}")

    @property
    def config(self) -> Path:
        return self.place / "ssh_config"

    def _entry(self, host: Host) -> str:
        # Named like a host, and by its number alone.
        return (
            f"Host {host.name} {host.number}\n  HostName {host.address}\n  User root\n  IdentityFile {self.place}/key\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.place}/known\n  StrictHostKeyChecking accept-new\n"
        )

    def close(self) -> None:
        """Remove everything; what still runs there is ended."""
        try:
            remove_lab(self.number)
            sh("umount", "-l", *[str(each.home) for each in self.hosts if os.path.ismount(each.home)], check=False)
            shutil.rmtree(self.place, ignore_errors=True)
        finally:
            self._lock.close()


def _take_number() -> tuple[int, IO[str]]:
    for number in range(250):
        lock = open(shared_tmp() / f"headway-netlab-{number}.lock", "w")  # noqa: SIM115 - held for long.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
        except BlockingIOError:
            lock.close()
    raise AssertionError("250 labs at once")
