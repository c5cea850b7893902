"""What goes past the page cache: only where the disk is this host's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_agent.objects import direct_io
from headway_agent.objects.folder import Folder

MOUNTS = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /home rw shared:7 master:1 - nfs4 server:/home rw,vers=4.2
31 30 8:1 / /home/scratch rw - xfs /dev/sda1 rw
32 22 0:30 / /mnt/two\040words rw - tmpfs tmpfs rw
33 22 0:31 / /over rw - nfs server:/x rw
34 33 8:2 / /over rw - btrfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/headway", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann/storage", "nfs4"),
        ("/homes/ann", "ext4"),
        ("/home/scratch/storage", "xfs"),
        ("/mnt/two words/storage", "tmpfs"),
        ("/over/storage", "btrfs"),  # The later one lies on top.
    ],
)
def test_a_path_is_on_the_innermost_mount(path: str, kind: str) -> None:
    assert direct_io.file_system(path, MOUNTS) == kind


def test_nothing_goes_past_the_cache_over_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(direct_io, "MOUNTS", str(mounts))
    written: list[int] = []
    monkeypatch.setattr(direct_io, "write", lambda fd, view: written.append(len(view)) or view)
    for kind, past in (("nfs4", False), ("ext4", True), ("lustre", False), ("", False)):
        mounts.write_text(f"22 1 254:0 / / rw - {kind} /dev/x rw\n" if kind else "")
        draft = Folder(str(tmp_path)).draft()
        draft.write(direct_io.buffer(direct_io.BYTES_MIN))
        draft.finish("object")
        assert bool(written) == past, kind
        assert (tmp_path / "object").stat().st_size == direct_io.BYTES_MIN
        written.clear()


def test_a_link_is_followed_to_its_disk(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc")
    assert not direct_io.is_avoidable(str(tmp_path / "link"))
