"""A Headway whose nodes are hosts of a lab: a real server here, real agents behind real sshd processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

from headway.engines.ssh.client import sockets_dir
from headway.settings import home_from
from tests.living import Living
from tests.netlab import Host, Lab
from tests.waiting import PATIENCE_S, wait_until

LEASE_S = 900  # Far longer than a cut and the way back of a tunnel take, also on a busy machine.


class House(Living):
    """One server and its pools of hosts."""

    def __init__(self, lab: Lab, pools: dict[str, dict[str, Any]], address: str) -> None:
        self.lab = lab
        base = Path(tempfile.mkdtemp(prefix="hwssh-"))
        place = base / "work"
        place.mkdir()
        super().__init__(base, place, {"HEADWAY_HOME": str(base)})
        self.address = address
        (base / "config").mkdir()
        lines = [
            "local_nodes = 0", f'host = "{address}"', f"port = {_free_port(address)}", "look_every_s = 1",
            "lease_margin_s = 5", "lease_s_min = 1", "silent_after_s = 4", "log_flush_every_s = 0.3",
        ]  # fmt: skip
        if address != "127.0.0.1":  # Only the lab's own switch carries what is said to it.
            lines += ['accounts = "on"', 'insecure_http = "on"']
        for name, words in pools.items():
            options = {"ssh_config": str(lab.config), "connect_s_max": 10, "call_s_max": 60, **words.pop("options", {})}
            lines += [f"[pool.{name}]", 'engine = "ssh"']
            words.setdefault("lease", LEASE_S)
            lines += [f"{key} = {json.dumps(value)}" for key, value in words.items()]
            lines += [f"[pool.{name}.options]"] + [f"{key} = {json.dumps(value)}" for key, value in options.items()]
        (base / "config/config.toml").write_text("\n".join(lines) + "\n")
        self.ok("server", "start")
        self.env |= {"HEADWAY_TOKEN": (base / "state/token").read_text().strip(), "HEADWAY_SERVER_URL": self.url}

    @property
    def url(self) -> str:
        return str(json.loads((self.home / "state/server.json").read_text())["url"])

    def start_again(self) -> None:
        """Start a server in place of one that was killed."""
        env = {name: value for name, value in self.env.items() if name not in ("HEADWAY_SERVER_URL", "HEADWAY_TOKEN")}
        Living(self.home, self.place, env).ok("server", "start")

    def nodes(self) -> dict[str, str]:
        return {node["id"]: node["state"] for node in json.loads(self.ok("nodes", "--json"))["nodes"]}

    def until_up(self, *nodes: str) -> None:
        wait_until(
            lambda: all(self.nodes().get(node) == "up" for node in nodes),
            PATIENCE_S,
            0.3,
            f"{nodes} to call home",
            self.story,
        )

    def story(self) -> str:
        """What the nodes say, and the server's last words."""
        return f"{self.nodes()}\n{(self.home / 'state/server.log').read_text()[-3000:]}"

    def node_dir(self, host: Host, pool: str) -> Path:
        return next((host.home / ".headway").glob(f"*/{pool}-{host.name}"))

    def end(self) -> None:
        place = sockets_dir(home_from({"HEADWAY_HOME": str(self.home)}).state)
        for entry in list(Path("/proc").iterdir()):
            if entry.name.isdigit():
                try:
                    kept = os.fsencode(place) in (entry / "cmdline").read_bytes()
                    if kept:
                        os.kill(int(entry.name), 9)
                except OSError:
                    continue
        super().end()
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(self.home, ignore_errors=True)


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
