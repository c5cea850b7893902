"""What a look at the place of a job says about its files."""

from __future__ import annotations

from headway.client.traces import Opened, _read_written
from headway.core.rehearsal.verdict import FileSeen

LISTED = """in /n/tasks/j-1-0/checkpoints
-rw-r--r-- 1 0 0 2048 Nov 16 19:16 /n/tasks/j-1-0/checkpoints/last.pt
in /home/me/p
-rw-r--r-- 1 0 0 7 Nov 16 19:16 /home/me/p/train.py
-rw-r--r-- 1 0 0 9 Nov 16 19:16 /home/me/p/runs/a file.log
in /data
-rw-r--r-- 1 0 0 3 Nov 16 19:16 /data/out/x.npz
find: something else
"""


def test_files_are_told_by_where_they_lie() -> None:
    assert _read_written(LISTED, {"python", "train.py"}) == [
        FileSeen("last.pt", 2048, kept=True),
        FileSeen("runs/a file.log", 9),
        FileSeen("/data/out/x.npz", 3),
    ]
    assert _read_written("", set()) == []


def stat(read: int, changed: int, path: str = "a.pt", written: int = 5) -> str:
    times = [f"2026-11-16 19:16:{second:02}.500000000 +0000" for second in (read, changed, written)]
    return "|".join([*times, path]) + "\n"


def test_what_is_read_after_it_was_put_back_was_opened() -> None:
    opened = Opened(["a.pt"])
    opened.take_in("noted 99\n" + stat(10, 10), 1.0)
    assert (opened.read, opened.untouched_s) == (False, 1.0)
    opened.take_in("noted 99\n" + stat(12, 10), 2.0)
    assert (opened.read, opened.untouched_s) == (True, 1.0)
    opened.take_in("", 3.0)
    assert opened.read


def test_what_the_job_wrote_anew_says_nothing() -> None:
    opened = Opened(["a.pt", "b.pt"])
    opened.take_in("noted 99\n" + stat(10, 10) + stat(10, 10, "b.pt"), 1.0)
    opened.take_in("noted 99\n" + stat(20, 19) + stat(10, 10, "b.pt"), 2.0)
    assert (opened.read, opened.untouched_s) == (False, 2.0)
    opened.take_in("noted 99\n" + stat(20, 19) + stat(21, 20, "b.pt"), 3.0)
    assert (opened.read, opened.untouched_s) == (False, 2.0)


def test_what_the_job_wrote_before_the_first_look_was_not_put_back() -> None:
    opened = Opened(["a.pt"])
    opened.take_in("noted 99\n" + stat(12, 10, written=10), 1.0)
    assert opened.read is None


def test_where_reading_is_not_noted_nobody_can_tell() -> None:
    opened = Opened(["a.pt"])
    for said in ("noted 1\n" + stat(10, 10), ""):
        opened.take_in(said, 1.0)
    assert opened.read is None
