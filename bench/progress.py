"""Keeping progress: how fast checkpoints are stored, what a second one moves, and what all of it costs the training.

The yardstick is a plain copy with sha256 and fsync on the same disk. `measure` returns rows for the table.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import slowdown
from bench.house import ANSWER_S_MAX, House, house
from bench.table import Measured
from headway_agent.files.parts import Known, send_files, signature_of
from headway_agent.objects.folder import Folder
from headway_agent.objects.remote import RemoteObjects
from headway_agent.server_link.http import Connection, ServerHome

GIB = 1 << 30
SMALL_FILES, SMALL_BYTES = 10_000, 20_000
TIMES = 3
ROUNDS = 6
LOSSES = 3
PIECE = 1 << 20

LINES = """
import os, time
print("line", time.clock_gettime(time.CLOCK_BOOTTIME), os.getpid(), flush=True)
time.sleep(60)
"""


def measure() -> list[Measured]:
    rows = []
    for what, fill, change in (
        ("1 GiB in one file", _one_file, _change_one_file),
        (f"{SMALL_FILES:,} small files", _many_files, _change_many_files),
    ):
        rows += _sync(what, fill, change)
    rows.append(_over_http())
    rows += _bundles()
    rows += _slow_down()
    rows.append(_next_attempt())
    return rows


# --- storing --------------------------------------------------------------------------------------------------------


def _sync(what: str, fill: Callable[[Path], None], change: Callable[[Path], int]) -> list[Measured]:
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as home:
        source = Path(home) / "checkpoints"
        source.mkdir()
        fill(source)
        os.sync()
        plain, ours = [], []
        for number in range(ROUNDS):
            # Nothing is removed before all is done: what a copy gets back of the disk, or of memory, may be faster than
            # what is new. For the same reason each goes first in turn, and a round is compared with itself.
            storage, known = Path(home) / f"storage-{number}", Known()
            storage.mkdir()
            os.sync()
            if number % 2:
                ours.append(_send(source, storage, known, number)[0])
                os.sync()
            plain.append(_plain_copy(source, Path(home) / f"copy-{number}"))
            os.sync()
            if not number % 2:
                ours.append(_send(source, storage, known, number)[0])
                os.sync()
        changed = change(source)
        again_s, sent = _send(source, storage, known, ROUNDS)
    ratios = [mine / bare for mine, bare in zip(ours, plain, strict=True)]
    return [
        Measured(
            f"checkpoint of {what}, against copy + sha256 + fsync ({min(ratios):.2f} to {max(ratios):.2f})",
            statistics.median(ratios), " ×", 1 / 0.7,
        ),
        Measured(f"… it takes (the copy {statistics.median(plain):.2f} s)", statistics.median(ours), " s"),
        Measured("… a second one with 1 % changed moves, of what changed", sent / changed, " ×", 1.25),
        Measured("… and takes", again_s, " s"),
    ]  # fmt: skip


def _one_file(place: Path) -> None:
    with (place / "model.pt").open("wb") as file:
        for _ in range(GIB // PIECE):
            file.write(os.urandom(PIECE))


def _change_one_file(place: Path) -> int:
    changed = GIB // 100
    with (place / "model.pt").open("r+b") as file:
        file.seek(GIB // 3)
        file.write(os.urandom(changed))
    return changed


def _many_files(place: Path) -> None:
    for number in range(SMALL_FILES):
        (place / f"shard-{number}").write_bytes(os.urandom(SMALL_BYTES))


def _change_many_files(place: Path) -> int:
    for number in range(0, SMALL_FILES, 100):
        (place / f"shard-{number}").write_bytes(os.urandom(SMALL_BYTES))
    return SMALL_FILES // 100 * SMALL_BYTES


def _plain_copy(source: Path, target: Path) -> float:
    target.mkdir()
    begin = time.perf_counter()
    for path in sorted(source.iterdir()):
        digest = hashlib.sha256()
        with path.open("rb") as file, (target / path.name).open("wb") as copy:
            while piece := file.read(PIECE):
                digest.update(piece)
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())
    return time.perf_counter() - begin


def _send(source: Path, storage: Path, known: Known, number: int) -> tuple[float, int]:
    begin = time.perf_counter()
    files = {path.name: signature_of(path.lstat()) for path in source.iterdir()}
    entries, sent = send_files(Folder(str(storage)), f"jobs/j/1/parts/0-{number}.", str(source), files, known)
    took_s = time.perf_counter() - begin
    known.take({entry["path"]: (files[entry["path"]], entry["parts"]) for entry in entries})
    return took_s, sent


def _over_http() -> Measured:
    """The same bytes through the server: as a checkpoint, and as plain uploads of as large pieces."""
    size, piece = GIB // 4, 32 << 20
    with house() as mine:
        job = mine.run("run", "-d", "-o", "name", "--no-bundle", "--", "sleep", "600").strip()
        while json.loads(mine.run("describe", job, "--json"))["state"] != "running":
            time.sleep(0.05)
        home = ServerHome("", str(mine.state / "server.json"), str(mine.state / "token"))
        source = mine.home / "checkpoints"
        source.mkdir()
        content = os.urandom(piece)
        with (source / "model.pt").open("wb") as file:
            for _ in range(size // piece):
                file.write(os.urandom(piece))  # All of it new: what is known already would not travel.
        _, told = Connection(home).post("/agent/urls", {"node": "local-1", "method": "PUT", "keys": []}, ANSWER_S_MAX)
        mark = str(told["storage"])
        plain, ours = [], []
        for number in range(TIMES):
            keys = [f"jobs/{job}/1/parts/plain-{number}.{part}" for part in range(size // piece)]
            paths = [RemoteObjects(home, "local-1", mark).links.find("PUT", key).path for key in keys]
            connection = http.client.HTTPConnection(home.url().removeprefix("http://"))
            begin = time.perf_counter()
            for path in paths:
                connection.request("PUT", path, content)
                if connection.getresponse().read():
                    raise RuntimeError("a plain upload was refused")
            plain.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            files = {path.name: signature_of(path.lstat()) for path in source.iterdir()}
            send_files(
                RemoteObjects(home, "local-1", mark), f"jobs/{job}/1/parts/0-{number}.", str(source), files, Known()
            )
            ours.append(time.perf_counter() - begin)
        mine.run("stop", job, "--grace", "0s")
    return Measured("checkpoint of 256 MiB over HTTP, against a plain upload", min(ours) / min(plain), " ×", 2)


def _bundles() -> list[Measured]:
    """A project of 10,000 small files: when the server knows none of them, and when it knows them all."""
    with house() as mine:
        project = mine.home / "project"
        project.mkdir()
        for number in range(SMALL_FILES):
            folder = project / f"d{number % 100}"
            folder.mkdir(exist_ok=True)
            (folder / f"f{number}.py").write_text(f"number = {number}\n" * 20)
        found = []
        for _ in range(3):
            begin = time.perf_counter()
            words = ["--bundle", "--workdir", str(project), "--hold", "--", "true"]
            mine.run("submit", "-o", "name", *words)
            found.append(time.perf_counter() - begin)
    return [
        Measured(f"submitting a project of {SMALL_FILES:,} files that are all new", found[0], " s"),
        Measured("… that are known already, the whole command", min(found[1:]), " s", 1),
    ]


# --- what it costs a training ---------------------------------------------------------------------------------------


def _slow_down() -> list[Measured]:
    found = slowdown.measure()
    low, high = found.slower_interval
    where = f"calls {found.calls_percent:.2f}, waiting {found.waits_percent:.2f}, work {found.work_percent:.2f}"
    parts = ", ".join(f"{name} {percent:.2f}" for name, percent in found.parts)
    return [
        Measured(
            f"a training with Headway is slower than without by ({where}; 95 % interval {low:.1f} to {high:.1f} %)",
            found.slower_percent, " %", 1,
        ),
        Measured(
            f"… all processes of Headway use, of its processor time ({parts})", found.ours_percent, " %", 1
        ),
    ]  # fmt: skip


# --- from loss to the next attempt ----------------------------------------------------------------------------------


def _next_attempt() -> Measured:
    with house() as mine:
        script = mine.home / "lines.py"
        script.write_text(LINES)
        words = ["--no-bundle", "--max-retries", "9", "--", sys.executable, str(script)]
        job = mine.run("run", "-d", "-o", "name", *words).strip()
        waits = []
        for attempt in range(1, LOSSES + 1):
            _line(mine, job, attempt)
            lost_s = _end_keeper(mine)
            waits.append(_line(mine, job, attempt + 1) - lost_s)
        mine.run("stop", job, "--grace", "0s")
    return Measured("from a lost attempt to the next one's first line", statistics.median(waits), " s", 1)


def _end_keeper(mine: House) -> float:
    """End the keeper, and with it the attempt; returns when (seconds since boot)."""
    pid = int(json.loads((mine.node_dirs[0] / "keeper.pid").read_text())["pid"])
    os.kill(pid, 9)
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _line(mine: House, job: str, attempt: int) -> float:
    path = mine.node_dirs[0] / f"tasks/{job}-{attempt}-0/rank0.out"
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        words = path.read_text().split() if path.exists() else []
        if len(words) >= 3:
            return float(words[1])
        time.sleep(0.005)
    raise RuntimeError(f"attempt {attempt} of {job} did not begin within a minute")
