"""Files that nodes may see as well are known by the table of mounts."""

from __future__ import annotations

from pathlib import Path

from headway.engines.network_files import on_network

MOUNTS = """22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:44 / /home rw,relatime shared:20 - nfs4 storage:/home rw
41 40 8:2 / /home/local rw - xfs /dev/sdb rw
42 22 0:50 / /big\\040data rw - fuse.glusterfs servers:/vol rw
"""


def test_what_lies_on_a_networks_file_system_is_named() -> None:
    named = ["/home/ada/state/token", "/home/local/token", "/homestead/token", "/var/lib/token", "/big data/keys"]
    assert on_network(map(Path, named), MOUNTS) == ["/home/ada/state/token", "/big data/keys"]


def test_this_machine_has_a_table_of_mounts() -> None:
    assert on_network([Path("/proc/version")]) == []
