"""What `doctor` says of a host that is reached by ssh: its way there and back, its disk and its clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headway.core.units import show_duration, show_size
from headway.engines.checks import DISK_FAIL_BYTES, DISK_WARN_BYTES, Check, check

CLOCK_WARN_S = 5.0


def host_checks(pool: str, each: Mapping[str, Any]) -> Iterator[Check]:
    what = f"host {each['host']} of pool {pool}"
    if "error" in each:
        yield check(what, "fail", str(each["error"]), str(each.get("remedy") or "see headway server status"))
        return
    yield check(what, "ok", f"answers by ssh in {each['took_ms']} ms as {each['user']}, with Python {each['python']}")
    free = int(each["free_bytes"])
    verdict = "fail" if free < DISK_FAIL_BYTES else "warn" if free < DISK_WARN_BYTES else "ok"
    yield check(f"{what}: disk", verdict, f"{show_size(free)} are free at {each['root']}", "make room there")
    off_s = float(each["clock_off_s"])
    said = f"its clock is {show_duration(abs(off_s))} {'ahead' if off_s > 0 else 'behind'}" if off_s else "right"
    remedy = "set its clock; nothing breaks, but times that it shows are wrong"
    yield check(f"{what}: clock", "warn" if abs(off_s) > CLOCK_WARN_S else "ok", said, remedy)
    calls = each.get("calls") or {}
    way = "through the tunnel" if calls.get("via") else "directly"
    if calls.get("answers"):
        yield check(f"{what}: way home", "ok", f"the server answers it {way} in {calls['ms']:.0f} ms")
    else:
        said = f"the server does not answer it {way}: {calls.get('detail', 'not tried')}"
        remedy = f"set advertise_url, or: headway pool set {pool} options.call_home=tunnel"
        yield check(f"{what}: way home", "fail", said, remedy)
