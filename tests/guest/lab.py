"""A real Linux with control groups of version 2, in QEMU: Debian's kernel, this machine's Python and systemd, one boot.

The kernel is unpacked, never installed, and kept for later runs. There is no disk and no network: the whole system is
one archive in memory (archive.py). init.sh runs the checks of groups.py and then becomes systemd, for those of
services.py. What they say comes back over a serial line, one line of JSON each.
"""

from __future__ import annotations

import fcntl
import importlib.util
import io
import json
import marshal
import os
import platform
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headway.engines import agent_zip
from tests.guest import archive
from tests.packages import PATH, missing

SYSTEMD = ("/lib/systemd/systemd", "/bin/systemctl")
QEMU = "qemu-system-x86_64"
KERNEL = "linux-image-cloud-amd64"
DOWNLOAD_S_MAX = 600
# The processor is emulated: KVM may be there and not work, and a minute of patience costs less than to find out.
MACHINE = ["-accel", "tcg,thread=multi", "-smp", "2", "-m", "1536", "-nodefaults", "-display", "none", "-no-reboot"]
RUN_S_MAX = 1800


def need() -> Path:
    """The directory with vmlinuz, brd.ko and busybox. Skips, loudly, where no guest can be had."""
    if platform.machine() != "x86_64":
        pytest.skip(f"NOT TESTED: the guest's kernel is for x86_64, this machine is {platform.machine()}")
    why = missing([QEMU, "dpkg-deb", *SYSTEMD], "qemu-system-x86", "dpkg", "systemd")
    if why:
        pytest.skip(f"NOT TESTED: no guest with control groups of version 2: {why}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway-tests"
    cache.mkdir(parents=True, exist_ok=True)
    place = cache / f"guest-{KERNEL}"
    with open(cache / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _unpack(place)
    return place


def _unpack(place: Path) -> None:
    """Fetch what the guest is made of and keep it, whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="guest-") as folder:
        fetched = Path(folder)
        fetched.chmod(0o755)
        _fetch(fetched, "busybox-static", KERNEL)
        named = _sh(fetched, "dpkg-deb", "-f", *(file.name for file in fetched.glob(f"{KERNEL}_*")), "Depends")
        _fetch(fetched, named.split()[0])
        for file in fetched.glob("*.deb"):
            _sh(fetched, "dpkg-deb", "-x", file.name, "tree")
        fresh = Path(tempfile.mkdtemp(prefix=place.name, dir=place.parent))
        for pattern, name in (("boot/vmlinuz-*", "vmlinuz"), ("**/brd.ko", "brd.ko"), ("**/bin/busybox", "busybox")):
            shutil.copy(next((fetched / "tree").glob(pattern)), fresh / name)
        fresh.rename(place)


def _fetch(folder: Path, *packages: str) -> None:
    try:
        _sh(folder, "apt-get", "-qq", "-o", "Acquire::Retries=3", "download", *packages)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        pytest.skip(
            f"NOT TESTED: no guest with control groups of version 2: {' '.join(packages)}: {said.strip()[-300:]}"
        )


def _sh(folder: Path, *words: str) -> str:
    env = {**os.environ, "PATH": PATH}
    done = subprocess.run(
        words, cwd=folder, env=env, check=True, capture_output=True, text=True, timeout=DOWNLOAD_S_MAX
    )
    return done.stdout


def run(place: Path) -> tuple[dict[str, dict[str, Any]], str]:
    """Boot, run all checks, power off. Returns what each check said, by name, and the end of the console."""
    with tempfile.TemporaryDirectory(prefix="guest-") as folder:
        path = Path(folder)
        (path / "agent.pyz").write_bytes(_compiled(agent_zip.build().data))
        extra = {"/bin/busybox": place / "busybox", "/brd.ko": place / "brd.ko", "/agent.pyz": path / "agent.pyz"}
        archive.write(path / "initramfs", SYSTEMD, extra)
        _boot(place / "vmlinuz", path)
        texts = [(path / name).read_text(errors="replace") for name in ("said", "qemu", "console")]
    said = [json.loads(line) for line in texts[0].splitlines() if line.startswith("{") and line.endswith("}")]
    return {each["check"]: each for each in said}, "\n".join(text[-3000:] for text in texts[1:])


def _boot(kernel: Path, folder: Path) -> None:
    words = [QEMU, *MACHINE, "-kernel", str(kernel), "-initrd", str(folder / "initramfs")]
    words += [
        "-append",
        f"console=ttyS0 loglevel=4 panic=-1 mitigations=off systemd.show_status=0 PYTHON={archive.python()}",
    ]
    for name in ("console", "said"):
        (folder / name).touch()
        words += ["-serial", f"file:{folder}/{name}"]
    with open(folder / "qemu", "w") as output:
        process = subprocess.Popen(words, env={**os.environ, "PATH": PATH}, stdout=output, stderr=output)
        try:
            process.wait(RUN_S_MAX)
        except subprocess.TimeoutExpired:
            pass  # What was not said by now is missing.
        finally:
            process.kill()
            process.wait()


def _compiled(program: bytes) -> bytes:
    """The agent's program with its compiled form beside the sources: every start would compile them anew, slowly."""
    with zipfile.ZipFile(io.BytesIO(program)) as packed:
        sources = {name: packed.read(name) for name in packed.namelist()}
    for name, source in list(sources.items()):
        if name.endswith(".py") and name != "__main__.py":
            code = marshal.dumps(compile(source, f"/agent.pyz/{name}", "exec", dont_inherit=True))
            # By its hash, and never compared with the source: the zip has no times to compare.
            sources[f"{name}c"] = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code
    return agent_zip.pack(sources).data
