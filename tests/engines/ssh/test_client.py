"""A host whose key is another than the known one: named as what it may be, by a real ssh before a real sshd."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.core.model import Pool
from headway.engines.ssh.client import Silent, SshHost, sockets_dir
from headway.engines.ssh.options import hosts_of
from tests.waiting import wait_until

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin")


def make_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Where a sshd listens, with a host key of its own."""
    if SSHD is None or not shutil.which("ssh-keygen"):
        pytest.skip("NO OPENSSH, so a changed host key was not tested")
    make_key(tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = int(probe.getsockname()[1])
    (tmp_path / "sshd").write_text(f"ListenAddress 127.0.0.1:{free}\nHostKey {tmp_path}/key\nPidFile none\nUsePAM no\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen([SSHD, "-D", "-e", "-f", str(tmp_path / "sshd")], stderr=subprocess.DEVNULL) as daemon:

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", free)) == 0

        wait_until(listens, what="the sshd")
        yield free
        daemon.terminate()


def host_at(port: int, place: Path) -> SshHost:
    (place / "ssh_config").write_text(f"UserKnownHostsFile {place}/known\nGlobalKnownHostsFile none\n")
    options = {"ssh_config": str(place / "ssh_config"), "hosts": [f"127.0.0.1:{port}"]}
    (found,) = hosts_of(Pool("lab", "ssh", options=options)).values()
    return SshHost(found, sockets_dir(place))


def test_a_changed_key_is_said_to_be_one_and_how_to_check_it(tmp_path: Path, port: int) -> None:
    kind, known, *_ = make_key(tmp_path / "another").split()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {kind} {known}\n")
    shows = subprocess.run(["ssh-keygen", "-lf", f"{tmp_path}/key.pub"], capture_output=True, text=True, check=True)
    fingerprint = shows.stdout.split()[1]
    host = host_at(port, tmp_path)
    with pytest.raises(Silent) as met:
        host.run("exit 0", b"")
    assert "its host key is not the one that this server knows" in met.value.message
    assert fingerprint in met.value.message
    remedy = host.remedy(met.value.message)
    assert "somebody stands in between" in remedy
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in remedy
    assert f"ssh-keygen -R '[127.0.0.1]:{port}' -f {tmp_path}/known" in remedy
    assert "accept-new" not in remedy, "nobody is told to take it blindly"


def test_a_key_that_nobody_knows_yet_is_another_thing(tmp_path: Path, port: int) -> None:
    host = host_at(port, tmp_path)
    with pytest.raises(Silent, match="Host key verification failed") as met:
        host.run("exit 0", b"")
    assert "accept its key once" in host.remedy(met.value.message)
    assert "in between" not in host.remedy(met.value.message)
