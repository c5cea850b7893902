"""The system's OpenSSH client as this engine uses it: calls over one kept connection per host, and reverse tunnels.

Configuration, keys, jump hosts and host keys are the user's own. The kept connection (ControlMaster) is a process of
its own that outlives the server and is found again by its socket; it ends by itself when nobody has used it for long.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import subprocess
import tempfile
from pathlib import Path

from headway.core.errors import OperatorError, Unavailable
from headway.engines.ssh.options import HostOptions

KEPT_S = 600  # How long a connection stays when nobody uses it.
ALIVE_EVERY_S, ALIVE_MISSED_MOST = 5, 3
SSH_FAILED = 255
CHANGED = "its host key is not the one that this server knows"
CHANGED_WORDS = re.compile(r"Host key for \S+ has changed")
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/=]{20,}")
OFFENDING = re.compile(r"Offending \S+ key in (\S+:\d+)")


class Silent(Unavailable):
    """The host did not answer: nothing is known of it."""


class SshHost:
    """One host, reached by ssh."""

    def __init__(self, options: HostOptions, sockets: Path) -> None:
        self.options = options
        self._sockets = sockets

    @property
    def name(self) -> str:
        return self.options.host.name

    def argv(self) -> list[str]:
        """The ssh command up to the host's name."""
        options = self.options
        words = ["ssh", "-T"]
        if options.ssh_config:
            words += ["-F", options.ssh_config]
        said = [*options.ssh_options, "BatchMode=yes", f"ConnectTimeout={options.connect_s_max:.0f}"]
        said += [f"ServerAliveInterval={ALIVE_EVERY_S}", f"ServerAliveCountMax={ALIVE_MISSED_MOST}"]
        said += ["ControlMaster=auto", f"ControlPath={self._sockets}/%C", f"ControlPersist={KEPT_S}"]
        said += ["ForwardX11=no", "ForwardAgent=no", "RequestTTY=no", "LogLevel=ERROR"]
        words += [word for option in said for word in ("-o", option)]
        if options.host.port:
            words += ["-p", str(options.host.port)]
        if options.host.user:
            words += ["-l", options.host.user]
        return words

    def remedy(self, complaint: str) -> str:
        """What to do about a host that did not answer, for a person at the server's machine."""
        options = self.options
        words = ["ssh", *(("-F", options.ssh_config) if options.ssh_config else ())]
        words += [word for option in options.ssh_options for word in ("-o", option)]
        words += ["-p", str(options.host.port)] if options.host.port else []
        words += ["-l", options.host.user] if options.host.user else []
        by_hand = shlex.join([*words, self.name, "true"])
        if CHANGED in complaint:
            file = f" -f {_file}" if (_file := complaint.partition("known in ")[2].rpartition(":")[0]) else ""
            known = self.name if not options.host.port else f"[{self.name}]:{options.host.port}"
            return (
                "the machine was set up anew, or somebody stands in between and would get its jobs and tokens. "
                "Do not connect before you know: on the machine's own console, `ssh-keygen -lf "
                "/etc/ssh/ssh_host_ed25519_key.pub` (or the key's other kind) must show the fingerprint above; "
                f"if it does: {shlex.join(['ssh-keygen', '-R', known])}{file}, then {by_hand}"
            )
        if "host key" in complaint.lower():
            new = "options.ssh_options=StrictHostKeyChecking=accept-new"
            return f"accept its key once, as the server's user: {by_hand}; or set {new}"
        if "permission denied" in complaint.lower():
            return f"the server's user must get in by a key, without a password: ssh-copy-id, then {by_hand}"
        return f"try as the server's user, on its machine: {by_hand}"

    def run(self, script: str, given: bytes) -> tuple[int, bytes, str]:
        """Run a shell script there: exit code, output, complaints. Raises Silent where no answer came."""
        assert "'" not in script
        _make_private(self._sockets)
        # Whatever shell the user logs in with, it passes this on to a plain one.
        argv = [*self.argv(), "--", self.name, f"exec sh -c '{script}'"]
        try:
            done = subprocess.run(argv, input=given, capture_output=True, timeout=self.options.call_s_max)
        except subprocess.TimeoutExpired:
            raise Silent(f"{self.name} did not answer within {self.options.call_s_max:g} s") from None
        except FileNotFoundError:
            raise OperatorError("no ssh on the server's machine", "install the OpenSSH client") from None
        except OSError as error:
            raise Unavailable(f"ssh could not be started: {(error.strerror or str(error)).lower()}") from error
        said = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode == SSH_FAILED:
            raise Silent(f"{self.name} cannot be reached: {_complaint(said)}")
        return done.returncode, done.stdout, said

    def open_tunnel(self, socket_path: str, host: str, port: int) -> None:
        """Let the socket there lead to the server here, on a connection made for it."""
        self.close()
        self.run("exit 0", b"")
        spec = f"{socket_path}:{host}:{port}"
        code, said = self._control("forward", "-R", spec)
        if code != 0:
            raise Unavailable(
                f"no tunnel from {self.name}: {said or 'ssh said nothing'}",
                "its sshd must allow AllowStreamLocalForwarding; or set options.call_home=direct",
            )

    def close(self) -> None:
        """End the kept connection, and with it the tunnel."""
        self._control("exit")

    def _control(self, what: str, *more: str) -> tuple[int, str]:
        argv = [*self.argv(), "-O", what, *more, "--", self.name]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=self.options.call_s_max
            )
        except subprocess.TimeoutExpired:
            return SSH_FAILED, f"not done within {self.options.call_s_max:g} s"
        except OSError as error:
            return SSH_FAILED, error.strerror or str(error)
        return done.returncode, done.stderr.strip()


def _complaint(said: str) -> str:
    """What ssh said, in a line: its last, unless that would call a changed key what it calls one that nobody knows."""
    if "IDENTIFICATION HAS CHANGED" in said or CHANGED_WORDS.search(said):
        fingerprint = FINGERPRINT.search(said)
        offending = OFFENDING.search(said)
        shown = f"; it shows {fingerprint[0]}" if fingerprint else ""
        return f"{CHANGED}{shown}" + (f", another is known in {offending[1]}" if offending else "")
    return said.splitlines()[-1] if said else "ssh said nothing"


def sockets_dir(state: Path) -> Path:
    """Where the kept connections' sockets lie: short, since the path of a socket may have 107 bytes, and private."""
    of_us = hashlib.sha256(os.fsencode(state)).hexdigest()[:8]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(runtime) if runtime and len(runtime) < 30 and os.path.isdir(runtime) else Path(tempfile.gettempdir())
    return (base if len(str(base)) < 30 else Path("/tmp")) / f"headway-ssh-{os.getuid()}-{of_us}"


def _make_private(place: Path) -> None:
    place.mkdir(mode=0o700, exist_ok=True)
    seen = place.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise OperatorError(f"{place} is not a private directory of ours", "remove it")
