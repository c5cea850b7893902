"""Nodes from a Slurm cluster: an order is an allocation whose one step is the agent on each of its nodes.

Everything is found again by the allocation's name, which holds the house and the order. Slurm's word that a node is
gone is a claim: after `kill -9` of its slurmd the processes on it live on.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.core.errors import BadInput, Unavailable
from headway.core.growth.grow import Order
from headway.core.growth.node_orders import life_s, order_of
from headway.core.model import NodeId, Pool
from headway.engines.kinds import EngineKind, Surroundings
from headway.engines.network_files import on_network
from headway.engines.options import check_options, number, text
from headway.engines.protocol import Engine, Request, Sight, Sighting, Sightings
from headway.engines.slurm.cluster_checks import (
    GROUPS,
    NodeGroup,
    because,
    findings,
    plain,
    platform_checks,
    read_books,
    read_groups,
    reason,
    seconds,
)
from headway.engines.slurm.script import RESTARTS_MOST, job_name, sbatch_words, script
from headway.settings import Settings

KEYS = {
    "partition": "the partition, as sbatch -p takes it",
    "account": "the account that is charged",
    "qos": "the quality of service",
    "gres": "generic resources of one node, instead of those that follow from gpus",
    "constraint": "features that a node must have",
    "time": "how long one allocation lasts at the most",
    "notice": "how long before that end the jobs are told to save themselves",
    "grace": "what Slurm leaves between SIGTERM and SIGKILL: KillWait, or the partition's GraceTime",
    "requeue": "whether Slurm may start an allocation again by itself: no or yes",
    "sbatch": "more words for sbatch",
    "python": "the Python on the nodes",
    "node_dir": "where the nodes keep their files while they are ours; /tmp by default",
    "output": "where Slurm writes what an allocation says; nowhere by default",
    "conf": "the path of slurm.conf, where it is not Slurm's own default",
    "bin": "the directory of sbatch, squeue and scancel",
}
PENDING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESIZING"})
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
CLAIMS = frozenset({"NODE_FAIL", "BOOT_FAIL", "TIMEOUT", "FAILED", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE"})
FORMAT = "JobID:|,Name:|,State:|,Reason:|,NumNodes:|,RestartCnt:|,TimeLeft:|"
FOR_SLURM = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SLURM_CONF", "KRB5CCNAME")
PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
CALL_S_MAX = 30.0
RELEASED_WITHIN_S = 45.0
LOOK_EVERY_S = 0.1
CONFIRM_S = 1.0
DEAD_MAN_S = 1800.0


def read_options(pool: Pool) -> Pool:
    """The pool as this engine takes it, or BadInput."""
    given = check_options(pool, KEYS)
    if pool.shape is None:
        raise BadInput(
            f"pool {pool.name}: a Slurm pool needs a shape: what one node of an allocation shall have",
            "add cpus, and memory and gpus where they matter",
        )
    if pool.shape.cpus != int(pool.shape.cpus):
        raise BadInput(f"pool {pool.name}: Slurm gives whole processors, not {pool.shape.cpus:g}")
    for key in given:
        if key not in ("time", "notice", "grace"):
            text(given, key)
    if given.get("requeue", "no") not in ("yes", "no", "true", "false"):
        raise BadInput(f'options.requeue: "{given["requeue"]}" is neither yes nor no')
    _durations(pool)
    return pool


def _durations(pool: Pool) -> dict[str, Any]:
    from headway.core.units import duration_s

    given = pool.options
    found: dict[str, Any] = {"life_s": life_s(pool)}
    found["notice_s"] = duration_s(given.get("notice", 120), "options.notice")
    found["grace_s"] = duration_s(given.get("grace", 30), "options.grace")
    for name in ("notice_s", "grace_s"):
        number(found, name, 0.0, 1.0, 86400.0)
    if found["life_s"] is not None and found["life_s"] < 60:
        raise BadInput(f'options.time: "{given["time"]}" is less than a minute, and Slurm counts in minutes')
    return found


@dataclass(frozen=True, slots=True)
class Allocation:
    """One of our jobs in Slurm's queue."""

    job: str
    order: str
    state: str
    reason: str
    nodes: int
    restarts: int
    left_s: float | None


class SlurmEngine:
    def __init__(
        self,
        pool: Pool,
        house: str,
        urls: str,
        code_for: Callable[[NodeId], str],
        settings: Settings,
        env: Mapping[str, str] = os.environ,
        files: Sequence[Path] = (),
    ) -> None:
        self._files = files  # Of the server's own, that no job should see.
        self._pool = pool
        self._house = house
        self._urls = urls
        self._code_for = code_for  # For such a code a node is given its token.
        self._settings = settings
        self._ca = Path(settings.ca_file).read_text() if settings.ca_file else ""
        self._given = {"python": "python3", **dict(pool.options), **_durations(pool)}
        self._env = {name: env[name] for name in FOR_SLURM if name in env}
        if self._given.get("conf"):
            self._env["SLURM_CONF"] = self._given["conf"]
        self._env["PATH"] = f"{self._env.get('PATH', os.defpath)}:/usr/local/bin:/usr/bin:/bin"
        if self._given.get("bin"):
            self._env["PATH"] = f"{self._given['bin']}:{self._env['PATH']}"

    def render(self, order: Order) -> Request:
        words = ["sbatch", *sbatch_words(order, self._pool, self._given, self._house)]
        said = {
            "order": order.id,
            "pool": self._pool.name,
            "urls": self._urls,
            "node_dir": self._given.get("node_dir", ""),
            "ca": self._ca,
            "dead_man_s": DEAD_MAN_S,
            "ship_every_s": self._settings.log_flush_every_s,
            "ship_follow_every_s": self._settings.log_follow_every_s,
            **{name: self._given[name] for name in ("life_s", "notice_s", "grace_s")},
            # A dry run shows the text; the codes are put in when it is sent.
            "codes": dict.fromkeys(self._names(order), "(left out)"),
        }
        return Request(order, {"argv": words, "said": said, "script": script(order, self._pool, self._given, said)})

    def order(self, request: Request) -> None:
        order = request.order
        if any(each.state not in CLAIMS for each in self._ours(order.id)):
            return
        said = dict(request.text["said"])
        said["codes"] = {name: self._code_for(name) for name in self._names(order)}
        content = script(order, self._pool, self._given, said)
        done = self._run(request.text["argv"], content)
        if done.returncode != 0:
            refusal = plain(_sentence(done))
            more = because(refusal, self._groups(), self._given.get("partition", ""))
            raise Unavailable(f"Slurm refused: {refusal}{f' ({more})' if more else ''}")

    def _names(self, order: Order) -> list[str]:
        """What the order's nodes are called, now and after Slurm has started them again."""
        again = self._given.get("requeue") in ("yes", "true")
        behind = ["", *(f"-r{number}" for number in range(1, RESTARTS_MOST + 1) if again)]
        return [f"{node}{each}" for node in order.nodes for each in behind]

    def sightings(self) -> Sightings:
        seen: dict[NodeId, Sighting] = {}
        # Of two with one name the older one counts; the other waits for its end, and goes with it.
        for each in sorted(self._ours(), key=lambda one: int(one.job), reverse=True):
            sighting = _sighting(each)
            if sighting is None:
                continue
            again = f"-r{each.restarts}" if each.restarts else ""
            for index in range(each.nodes):
                node = f"{each.order}-{index}{again}"
                if sighting.sight is not Sight.GONE_CLAIMED or node not in seen:
                    seen[node] = sighting
        return Sightings(seen)

    def release(self, nodes: Sequence[NodeId]) -> None:
        orders = sorted({order_of(node) for node in nodes})
        give_up_at = time.monotonic() + RELEASED_WITHIN_S
        while orders:
            here = [each for each in self._ours() if each.order in orders and each.state not in CLAIMS]
            if not here:
                return
            cancelled = self._run(["scancel", *(each.job for each in here if each.state != "COMPLETING")])
            if cancelled.returncode != 0 and "Invalid job id" not in cancelled.stderr:
                raise Unavailable(f"Slurm did not cancel: {_sentence(cancelled)}")
            if time.monotonic() > give_up_at:
                raise Unavailable(f"Slurm has not ended {', '.join(each.job for each in here)} yet")
            confirm_at = time.monotonic() + CONFIRM_S
            while time.monotonic() < confirm_at and any(each.order in orders for each in self._living()):
                time.sleep(LOOK_EVERY_S)

    def _living(self) -> list[Allocation]:
        return [each for each in self._ours() if each.state not in CLAIMS]

    def examine(self) -> list[dict[str, Any]]:
        """For `doctor`: Slurm's programs, whether its controller answers, what it says to the pool, and who we are."""
        programs = {name: shutil.which(name, path=self._env["PATH"]) or "" for name in PROGRAMS}
        found: dict[str, Any] = {"platform": "slurm", "user": _user(), "programs": programs}
        found["seen_by_nodes"] = on_network(self._files)
        try:
            began = time.monotonic()
            said = self._run(["scontrol", "ping"])
            found["took_ms"] = round((time.monotonic() - began) * 1000)
            # Of several controllers one is enough; the exit code counts all of them.
            if " is UP" not in said.stdout:
                found["error"] = f"slurmctld does not answer: {_sentence(said)}"
            else:
                found["findings"] = list(
                    findings(self._pool, self._given, self._groups(), self._refusal(), self._books())
                )
        except Unavailable as error:
            found["error"] = error.message
        return [{**found, "checks": list(platform_checks(self._pool.name, found))}]

    def _refusal(self) -> str:
        """What Slurm would say to an order of one node; empty, if it would take it. Nothing is ordered."""
        request = self.render(Order(f"{self._pool.name}-trial", self._pool.name, (f"{self._pool.name}-trial-0",)))
        words = [request.text["argv"][0], "--test-only", *request.text["argv"][1:]]
        done = self._run(words, request.text["script"])
        return plain(_sentence(done)) if done.returncode != 0 else ""

    def _groups(self) -> list[NodeGroup]:
        try:
            return read_groups(self._run(["sinfo", "-h", "-a", "-e", "-o", GROUPS]).stdout)
        except Unavailable:
            return []

    def _books(self) -> dict[str, Sequence[str]]:
        """Nothing, where Slurm keeps no accounts."""
        asked = ["show", "assoc", f"user={_user()}", "format=account,qos"]
        try:
            done = self._run(["sacctmgr", "-n", "-P", *asked])
        except Unavailable:
            return {}
        return read_books(_user(), done.stdout) if done.returncode == 0 else {}

    # --- Slurm ---

    def _ours(self, order: str = "") -> list[Allocation]:
        """All allocations of this pool that Slurm still knows, but for those that ended as they should."""
        prefix = job_name(self._house, f"{self._pool.name}-")
        found = []
        for each in self._queue():
            rest = each.order.removeprefix(prefix)
            # Exactly this pool's: orders of a pool "lab-2" begin like those of "lab".
            if each.order.startswith(prefix) and "-" not in rest:
                found.append(replace(each, order=f"{self._pool.name}-{rest}"))
        known = PENDING | RUNNING | CLAIMS
        return [each for each in found if each.state in known and (not order or each.order == order)]

    def _queue(self) -> list[Allocation]:
        """What squeue says; by JSON where it can, else by columns."""
        done = self._run(["squeue", "--json"])
        if done.returncode == 0:
            try:
                said = json.loads(done.stdout)
                if not said.get("errors"):
                    return [_from_json(job, time.time()) for job in said["jobs"]]
            except (ValueError, KeyError, TypeError, AttributeError):
                pass  # A version that says it otherwise: the columns have been the same for ten years.
        done = self._run(["squeue", "--noheader", "--all", "--states=all", "-O", FORMAT])
        if done.returncode != 0:
            raise Unavailable(f"squeue does not answer: {_sentence(done)}")
        lines = [line.split("|") for line in done.stdout.splitlines()]
        return [_from_columns(columns) for columns in lines if len(columns) >= 7]

    def _run(self, words: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
        program = shutil.which(words[0], path=self._env["PATH"])
        if program is None:
            raise Unavailable(
                f"{words[0]} is not on this machine", "install Slurm's client programs, or set options.bin"
            )
        conf = self._given.get("conf")
        if conf and not os.path.exists(conf):  # Slurm's programs would wait for it for a minute.
            raise Unavailable(f"options.conf: there is no {conf} on this machine")
        try:
            return subprocess.run(
                [program, *words[1:]],
                input=given,
                capture_output=True,
                text=True,
                env=self._env,
                cwd="/",
                timeout=CALL_S_MAX,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{words[0]} did not answer within {CALL_S_MAX:g} s") from None
        except OSError as error:
            raise Unavailable(f"{words[0]} cannot be run: {error.strerror}") from None


def _sighting(each: Allocation) -> Sighting | None:
    if each.state in CLAIMS:
        return Sighting(Sight.GONE_CLAIMED, f"Slurm says: {each.state}")
    if each.state in PENDING:
        return Sighting(Sight.WAITING, f"Slurm says: {reason(each.reason or each.state)}")
    return Sighting(Sight.UP, "", each.left_s)


def _from_json(job: Mapping[str, Any], now: float) -> Allocation:
    """One job as squeue --json says it: newer versions wrap numbers in objects and states in lists."""
    state = job["job_state"]
    state = (state[0] if state else "") if isinstance(state, list) else str(state)
    end = _number(job.get("end_time"))
    limited = _number(job.get("time_limit")) is not None
    return Allocation(
        str(job["job_id"]),
        str(job.get("name", "")),
        state.split()[0] if state else "",
        str(job.get("state_reason", "")),
        int(_number(job.get("node_count")) or 1),
        int(_number(job.get("restart_cnt")) or 0),
        max(0.0, end - now) if end and limited else None,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, Mapping):
        return _number(value.get("number")) if value.get("set") and not value.get("infinite") else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _from_columns(columns: Sequence[str]) -> Allocation:
    job, name, state, reason, nodes, restarts, left = (each.strip() for each in columns[:7])
    count = int(nodes) if nodes.isdigit() else 1
    return Allocation(job, name, state, reason, count, int(restarts) if restarts.isdigit() else 0, seconds(left))


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    said = (done.stderr or done.stdout).strip().replace("\n", "; ")
    return said[-500:] or f"exit code {done.returncode}"


def make(pool: Pool, around: Surroundings) -> SlurmEngine:
    words = (around.urls, around.code_for, around.settings)
    return SlurmEngine(pool, around.house, *words, env=around.env, files=around.own_files)


KIND = EngineKind(
    name="slurm",
    says="allocations of a Slurm cluster, ordered when jobs need them",
    options=KEYS,
    read=read_options,
    make=make,
    ordered=True,
)


def _proves_conformance(engine: SlurmEngine) -> Engine:
    return engine
