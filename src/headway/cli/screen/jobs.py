"""Pages for people: the tables of jobs and nodes, and the description of one job. Text in, text out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headway.cli.frame.output import Output
from headway.cli.screen import job_words as words
from headway.core.errors import BadInput
from headway.core.steps import STEP, named
from headway.core.units import show_duration, show_size

Shown = Mapping[str, Any]
ENDS = ("succeeded", "failed", "cancelled")


class Column(NamedTuple):
    """One column of the list of jobs: how it is shown, and what it is sorted by."""

    show: Callable[[Shown, float], str]
    by: Callable[[Shown], Any]


def _plain(key: str) -> Column:
    return Column(lambda job, now: str(job.get(key) or "-"), lambda job: str(job.get(key) or ""))


def _number(key: str) -> Column:
    return Column(lambda job, now: f"{job.get(key) or 0:,}", lambda job: job.get(key) or 0)


COLUMNS: dict[str, Column] = {
    "id": Column(lambda job, now: job["id"], lambda job: job["id"]),
    "name": Column(lambda job, now: _called(job), lambda job: job["name"]),
    "state": _plain("state"),
    "age": Column(lambda job, now: show_duration(now - job["submitted_at"]), lambda job: -job["submitted_at"]),
    "ran": Column(lambda job, now: ran(job, now), lambda job: _ran_s(job)),
    "attempt": Column(lambda job, now: str(job.get("attempt") or "-"), lambda job: job.get("attempt") or 0),
    "user": _plain("user"),
    "project": _plain("project"),
    "queue": _plain("queue"),
    "pool": _plain("pool"),
    "priority": _number("priority"),
    "nodes": _number("nodes"),
    "exit": Column(
        lambda job, now: "-" if job.get("exit_code") is None else str(job["exit_code"]),
        lambda job: -1 if job.get("exit_code") is None else job["exit_code"],
    ),
    "tags": Column(lambda job, now: _tags(job) or "-", lambda job: _tags(job)),
    "why": Column(lambda job, now: _why(job), lambda job: _why(job)),
}
USUAL = ("id", "name", "state", "age", "ran", "attempt", "why")
WIDE = ("id", "name", "state", "age", "ran", "attempt", "user", "project", "queue", "pool", "priority", "tags", "why")


def columns_of(said: str | None, wide: bool = False) -> Sequence[str]:
    """The columns that were asked for by name."""
    if said is None:
        return WIDE if wide else USUAL
    names = [word.strip().lower() for word in said.split(",") if word.strip()]
    for name in names:
        if name not in COLUMNS:
            raise BadInput(f'--columns: there is no column "{name[:80]}"', "columns: " + ", ".join(COLUMNS))
    return names or USUAL


def order_of(said: str | None) -> Callable[[list[dict[str, Any]]], None] | None:
    """What brings jobs into the order of a column; None leaves them as they come."""
    if not said:
        return None
    name, last_first = said.lstrip("-").lower(), said.startswith("-")
    if name not in COLUMNS:
        raise BadInput(f'--sort: there is no column "{name[:80]}"', "columns: " + ", ".join(COLUMNS))
    return lambda jobs: jobs.sort(key=COLUMNS[name].by, reverse=last_first)


def jobs(output: Output, found: Sequence[Shown], now: float, columns: Sequence[str] = USUAL) -> str:
    rows = [[COLUMNS[name].show(job, now) for name in columns] for job in found]
    return output.table([name.upper() for name in columns], rows)


def _called(job: Shown) -> str:
    return f"{job['name']} [{job['count']:,}]" if "states" in job else str(job["name"])


def _tags(job: Shown) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(dict(job.get("tags") or {}).items()))


def _why(job: Shown) -> str:
    if "states" in job:
        from headway.cli.screen.arrays import progress

        return progress(job)
    return _in_a_row(sentence(job))


def _ran_s(job: Shown) -> float:
    if not job.get("started_at"):
        return -1.0
    return float((job.get("over_at") or job.get("ended_at") or time.time()) - job["started_at"])


def _in_a_row(told: str) -> str:
    """What was told in several lines, such as a tool's own error, on the one that a table has for it."""
    return " ".join(told.split())


def ran(job: Shown, now: float) -> str:
    if not job.get("started_at"):
        return "-"
    return show_duration((job.get("over_at") or job.get("ended_at") or now) - job["started_at"])


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
        ("command", words.command(detail, spec)),
        ("workdir", spec.get("workdir") or ""),
        ("bundle", _bundle(spec)),
        ("packages", _environment(spec)),
        ("params", words.pairs(spec.get("params"))),
        ("seed", "" if detail.get("seed") is None else str(detail["seed"])),
        ("env", words.env(spec)),
        ("secrets", words.secrets(spec)),
        ("inputs", words.inputs(spec)),
        ("volumes", words.places(spec.get("volumes"))),
        ("outputs", words.names(spec.get("outputs") or ())),
        ("needs", _needs(spec)),
        ("limits", words.limits(spec)),
        ("after", words.after(spec)),
        ("not before", words.moment(spec.get("start_at"), now)),
        ("deadline", words.deadline(detail, spec, now)),
        ("project", f"{detail['project']}, queue {detail['queue']}, priority {detail['priority']}"),
        ("user", detail.get("user") or ""),
        ("tags", words.pairs(detail.get("tags"))),
        ("submitted", words.moment(detail["submitted_at"], now) + _by_call(detail)),
        ("started", words.moment(detail.get("started_at"), now)),
        ("ended", words.moment(detail.get("ended_at"), now)),
        ("ran", ran(detail, now)),
        ("retries", _retries(detail, spec)),
        ("retry of", detail.get("retry_of") or ""),
        ("log", show_size(int(detail.get("log_bytes") or 0))),
        ("checkpoint", _checkpoint(detail.get("checkpoint"), now)),
        ("incomplete", detail.get("checkpoint_lacks") or ""),
        ("keeps", (detail.get("checkpoint") or {}).get("found") or ""),
        ("artifacts", _kept(detail.get("artifacts"))),
        ("lost", lost(detail.get("account"))),
        *(("trouble", f"{each['node']}: {each['detail']}") for each in detail.get("troubles") or ()),
        *_unkept(detail.get("attempts") or ()),
    ]
    width = max(len(name) for name, value in facts if value) + 2
    lines = [f"{(name + ':').ljust(width)} {value}" for name, value in facts if value]
    tried = detail.get("attempts") or ()
    if tried:
        lines += ["", attempts(output, tried, now)]
    return "\n".join(lines)


def _unkept(found: Sequence[Shown]) -> list[tuple[str, str]]:
    """What attempts left on their nodes that could not be kept; task by task."""
    ended = [(each["number"], task["outcome"]) for each in found for task in each["tasks"] if task.get("outcome")]
    return [("not kept", f"attempt {number}: {told['unkept']}") for number, told in ended if told.get("unkept")]


def attempts(output: Output, found: Sequence[Shown], now: float) -> str:
    """A line for each; where one of them went on from a checkpoint, with a column for that."""
    went_on = any(each.get("resumed_step") is not None for each in found)
    rows = [
        (
            str(each["number"]),
            ", ".join(dict.fromkeys(task["node"] for task in each["tasks"])),
            ran(each, now),
            *([_resumed(each)] if went_on else []),
            "-" if each.get("exit_code") is None else str(each["exit_code"]),
            _in_a_row("; it ".join(filter(None, (_happened(each), each.get("set_back"))))),
        )
        for each in found
    ]
    heads = ("ATTEMPT", "NODES", "RAN", *(["FROM"] if went_on else []), "EXIT", "WHAT HAPPENED")
    return output.table(heads, rows)


def _resumed(attempt: Shown) -> str:
    step = attempt.get("resumed_step")
    return "-" if step is None else named(step, str(attempt.get("resumed_unit") or STEP))


def _happened(attempt: Shown) -> str:
    """Its sentence without its number, which stands beside it."""
    said = str(attempt.get("sentence") or ("ended" if attempt.get("ended_at") else "is under way"))
    who = f"attempt {attempt['number']}"
    return said.removeprefix(f"{who} ").replace(f" in {who}", "", 1)


def checkpoints(output: Output, found: Sequence[Shown], now: float) -> str:
    rows = [
        (
            _step(each) if each.get("unit", STEP) != STEP else str(each["step"]),
            str(each["attempt"]),
            each["how"],
            show_size(int(each["bytes"])),
            str(each["files"]),
            show_duration(now - each["at"]) + " ago",
            _standing(each),
            ", ".join(f"{name}={_figure(value)}" for name, value in dict(each.get("metrics") or {}).items()),
        )
        for each in found
    ]
    return output.table(("STEP", "ATTEMPT", "KNOWN BY", "SIZE", "FILES", "SAVED", "STATE", "METRICS"), rows)


def _standing(checkpoint: Shown) -> str:
    """What can be done with it, in a word or two."""
    words = ["pinned"] if checkpoint.get("pinned") else []
    if not checkpoint.get("complete", True):
        words.append(str(checkpoint.get("lacks") or "not all tasks").partition(";")[0])  # `describe` has the advice.
    elif not checkpoint.get("resumable", True):
        words.append(str(checkpoint.get("state") or "set aside"))
    return ", ".join(words) or "good"


def artifacts(output: Output, found: Sequence[Shown], now: float) -> str:
    rows = [
        (
            show_size(int(each["size"])),
            str(each["attempt"]),
            show_duration(now - each["at"]) + " ago",
            str(each["path"]) if not each.get("task") else f"{each['path']} (task {each['task']})",
        )
        for each in found
    ]
    return output.table(("SIZE", "ATTEMPT", "KEPT", "PATH"), rows)


def lost(account: Any) -> str:
    """The account of lost work in one line: in all, then per cause."""
    if not isinstance(account, Mapping):
        return ""
    unit = str(account.get("unit") or STEP)
    total = _loss(account.get("total") or {}, unit)
    causes = {cause: _loss(loss, unit) for cause, loss in dict(account.get("by_cause") or {}).items()}
    each = [f"{cause}: {told}" for cause, told in causes.items() if told]
    if not total:
        return "nothing" if causes else ""
    return total + (f" ({'; '.join(each)})" if each else "")


def _loss(loss: Shown, unit: str) -> str:
    """In words. What a lost node did after it was last heard is not among it, nor steps that a job does not tell."""
    steps, seconds, money = loss.get("steps") or 0, loss.get("seconds") or 0.0, loss.get("money")
    parts = [f"{steps} {unit if steps == 1 else unit + 's'}"] if steps else []
    unsure = loss.get("at_least") or (steps and not loss.get("steps_told", True))
    parts += [show_duration(seconds)] if steps or seconds >= 0.05 else []  # Less is the time that ending took.
    parts += [f"{money:.2f} in money"] if money else []
    return ("at least " if parts and unsure else "") + ", ".join(parts)


def difference(found: Shown, one: str, other: str) -> str:
    """What sets two jobs apart, group by group; a group that is the same is named as such."""
    lines: list[str] = []
    for group, told in found.items():
        inner = _differing(told)
        lines.append(f"{group}: {'the same' if not inner else ''}".rstrip())
        lines += [f"  {line}" for line in inner]
    return "\n".join(lines)


def _differing(told: Any) -> list[str]:
    if not told:
        return []
    if isinstance(told, Mapping):
        lines = []
        for name, value in told.items():
            if isinstance(value, list | tuple) and len(value) == 2:
                lines.append(f"{name}: {_figure(value[0])} → {_figure(value[1])}")
            elif isinstance(value, Mapping):
                lines += [f"{name}.{line}" for line in _differing(value)]
            elif isinstance(value, str) and "\n" in value:
                lines += value.splitlines()
            elif value not in (None, "", [], {}):
                lines += [f"{name}: {line}" for line in (value if isinstance(value, list) else [str(value)])]
        return lines
    return [str(each) for each in told] if isinstance(told, list) else str(told).splitlines()


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def why(output: Output, answer: Shown) -> str:
    lines = [f"{answer['job']} {answer['sentence']}"]
    evidence = answer.get("evidence") or {}
    first = list(evidence.get("ahead_first") or ())
    if first:
        more = int(evidence.get("ahead") or 0) - len(first)
        lines.append(f"  ahead: {', '.join(first)}" + (f" and {more:,} more" if more > 0 else ""))
    if output.verbose:
        lines += [f"  {name}: {value}" for name, value in dict(answer.get("evidence") or {}).items()]
    return "\n".join(lines)


def nodes(output: Output, found: Sequence[Shown]) -> str:
    rows = [
        (
            node["id"],
            node["pool"],
            f"up, {node['closed']}" if node["state"] == "up" and node.get("closed") else node["state"],
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
    text = f"{text}; {free} free of charge" if free else text
    so_far = str((detail.get("losses") or {}).get("sentence") or "")
    return f"{text}: {so_far}" if so_far and detail.get("state") not in ENDS else text


def _bundle(spec: Shown) -> str:
    digest = str(spec.get("bundle") or "")
    subdir = str(spec.get("subdir") or "")
    return (digest[:12] + (f", in {subdir}" if subdir else "")) if digest else ""


def _environment(spec: Shown) -> str:
    made = spec.get("environment") or {}
    return f"{made['kind']} {made.get('path') or ''}".strip() if made else ""


def _checkpoint(newest: Any, now: float) -> str:
    if not isinstance(newest, Mapping) or newest.get("step") is None:
        return ""
    parts = [_step(newest)]
    parts += [show_size(int(newest["bytes"]))] if newest.get("bytes") is not None else []
    parts += [f"saved {show_duration(now - newest['at'])} ago"] if newest.get("at") else []
    parts += [str(newest["how"])] if newest.get("how") else []
    return ", ".join(parts)


def _step(checkpoint: Shown) -> str:
    """Its step with what it counts: `step 1200`, `epoch 6`, `save 3`."""
    return named(checkpoint["step"], str(checkpoint.get("unit") or STEP))


def _kept(found: Any) -> str:
    if isinstance(found, Mapping) and found.get("files"):
        count = int(found["files"])
        return f"{count} {'file' if count == 1 else 'files'}, {show_size(int(found.get('bytes') or 0))}"
    return ""


def _by_call(detail: Shown) -> str:
    """By which call it was submitted: `headway events --request` and the server's log tell what came of that."""
    return f", call {detail['request']}" if detail.get("request") else ""
