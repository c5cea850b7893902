"""Pages for people: the tables of jobs and nodes, and the description of one job. Text in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.cli.output import Output
from headway.core.units import show_duration, show_size

Shown = Mapping[str, Any]


def jobs(output: Output, found: Sequence[Shown], now: float) -> str:
    heads = ("ID", "NAME", "STATE", "AGE", "RAN", "ATTEMPT", "WHY")
    rows = [
        (
            job["id"],
            job["name"],
            job["state"],
            show_duration(now - job["submitted_at"]),
            ran(job, now),
            str(job["attempt"] or "-"),
            sentence(job),
        )
        for job in found
    ]
    return output.table(heads, rows)


def ran(job: Shown, now: float) -> str:
    if not job.get("started_at"):
        return "-"
    return show_duration((job.get("ended_at") or now) - job["started_at"])


def sentence(job: Shown) -> str:
    """The sentence without the state that stands beside it: `waits: 3rd in queue`, `attempt 1 failed …`."""
    said = str(job.get("sentence") or "")
    state = str(job["state"])
    return said.removeprefix(f"{state}: ") if said != state else ""


def job(output: Output, detail: Shown, now: float) -> str:
    """All about one job."""
    spec = detail.get("spec") or {}
    facts = [
        ("id", detail["id"]),
        ("name", detail["name"]),
        ("state", output.paint(detail["state"])),
        ("why", detail["sentence"]),
        ("hint", detail.get("hint") or ""),
        ("command", " ".join(_quote(word) for word in spec.get("command", ()))),
        ("workdir", spec.get("workdir") or ""),
        ("needs", _needs(spec)),
        ("project", f"{detail['project']}, queue {detail['queue']}, priority {detail['priority']}"),
        ("user", detail.get("user") or ""),
        ("tags", ", ".join(f"{key}={value}" for key, value in dict(detail.get("tags") or {}).items())),
        ("submitted", f"{show_duration(now - detail['submitted_at'])} ago"),
        ("ran", ran(detail, now)),
        ("retries", _retries(detail, spec)),
        ("retry of", detail.get("retry_of") or ""),
        ("log", show_size(int(detail.get("log_bytes") or 0))),
    ]
    width = max(len(name) for name, _ in facts) + 2
    lines = [f"{(name + ':').ljust(width)} {value}" for name, value in facts if value]
    tried = detail.get("attempts") or ()
    if tried:
        lines += ["", attempts(output, tried, now)]
    return "\n".join(lines)


def attempts(output: Output, found: Sequence[Shown], now: float) -> str:
    rows = [
        (
            str(each["number"]),
            ", ".join(dict.fromkeys(task["node"] for task in each["tasks"])),
            ran(each, now),
            "-" if each.get("exit_code") is None else str(each["exit_code"]),
            each.get("sentence") or ("ended" if each.get("ended_at") else "is under way"),
        )
        for each in found
    ]
    return output.table(("ATTEMPT", "NODES", "RAN", "EXIT", "WHAT HAPPENED"), rows)


def why(output: Output, answer: Shown) -> str:
    lines = [f"{answer['job']} {answer['sentence']}"]
    if output.verbose:
        lines += [f"  {name}: {value}" for name, value in dict(answer.get("evidence") or {}).items()]
    return "\n".join(lines)


def nodes(output: Output, found: Sequence[Shown]) -> str:
    rows = [
        (
            node["id"],
            node["pool"],
            node["state"],
            _of(node, "cpus", lambda value: f"{value:g}"),
            _of(node, "memory_bytes", show_size),
            _of(node, "gpus", str),
            str(node["tasks"] if isinstance(node["tasks"], int) else len(node["tasks"])),
            "-" if node.get("heard_s") is None else f"{show_duration(node['heard_s'])} ago",
        )
        for node in found
    ]
    return output.table(("NODE", "POOL", "STATE", "CPUS FREE", "MEMORY FREE", "GPUS FREE", "TASKS", "HEARD"), rows)


def _of(node: Shown, what: str, show: Any) -> str:
    free = show(node["free"][what]) if node.get("free") else "-"
    return f"{free} of {show(node['granted'][what])}"


def _needs(spec: Shown) -> str:
    resources = spec.get("resources") or {}
    cpus = resources.get("cpus", 1)
    parts = [f"{cpus:g} {'cpu' if cpus == 1 else 'cpus'}"]
    if resources.get("memory"):
        parts.append(f"{show_size(int(resources['memory']))} memory")
    if resources.get("gpus"):
        parts.append(f"{resources['gpus']} gpus")
    each = ", ".join(parts)
    nodes_wanted, ranks = spec.get("nodes", 1), spec.get("ranks_per_node", 1)
    text = each if nodes_wanted == 1 else f"{nodes_wanted} nodes with {each} each"
    return text if ranks == 1 else f"{text}; {ranks} ranks per node"


def _retries(detail: Shown, spec: Shown) -> str:
    used = detail.get("retries") or {}
    free = used.get("platform", 0) + used.get("capacity", 0)
    text = f"{used.get('user', 0)} of {spec.get('retries', 0)} used"
    return f"{text}; {free} free of charge" if free else text


def _quote(word: str) -> str:
    import shlex

    return shlex.quote(word)
